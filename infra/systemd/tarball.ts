/**
 * `npm run tarball`: makes the archive with which systemd runs the hub without containers, and its checksum:
 *
 *   .local/sms-delivery-hub-<version>-linux-<architecture>.tar.gz and .sha256
 *
 * It contains what the image contains, the Node that runs this program, and the units. The same commit gives the
 * same file: names are sorted, and owners, modes and times are fixed. SOURCE_DATE_EPOCH replaces the time of the
 * commit (https://reproducible-builds.org/specs/source-date-epoch/).
 */
import { execFile, execFileSync, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  cpSync,
  createReadStream,
  createWriteStream,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { once } from 'node:events'
import { basename, join, resolve } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { promisify } from 'node:util'
import { createGzip } from 'node:zlib'
import { bundlePrograms, differenceOfPackages, PROGRAMS } from '../bundle/bundle.ts'
import { assemble } from '../image/assemble.ts'
import { ROOT } from '../supply/packages.ts'

const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
  readonly version: string
}

/** In seconds since 1970. */
export const commitTime = (): string =>
  process.env['SOURCE_DATE_EPOCH'] ??
  execFileSync('git', ['log', '-1', '--format=%ct'], { cwd: ROOT, encoding: 'utf8' }).trim()

/** The package of npm with Node for this platform, with its licence. */
const NODE_PACKAGE = `node_modules/node/node_modules/node-${process.platform}-${process.arch}`

const fill = async (folder: string): Promise<void> => {
  const programs = join(folder, 'programs')
  const { packages } = await bundlePrograms(PROGRAMS, ROOT, programs, join(ROOT, 'programs'))
  const difference = differenceOfPackages(packages)
  if (difference !== null) throw new Error(difference)
  const consoleFolder = join(folder, 'apps/console/dist')
  await promisify(execFile)(process.execPath, [join(ROOT, 'apps/console/build/main.ts'), consoleFolder])
  assemble(folder, null)
  cpSync(process.execPath, join(folder, 'bin/node'), { dereference: true })
  cpSync(join(ROOT, NODE_PACKAGE, 'LICENSE'), join(folder, 'bin/LICENSE'))
  for (const path of ['THIRD-PARTY.md', 'infra/systemd']) {
    cpSync(join(ROOT, path), join(folder, path), { recursive: true, filter: (file) => !file.endsWith('.ts') })
  }
}

/** Returns the file of the archive. Fails with an `Error`. */
export const makeTarball = async (outDir: string): Promise<string> => {
  if (process.platform !== 'linux')
    throw new Error('The archive contains the Node of this machine: make it on Linux.')
  const name = `sms-delivery-hub-${version}`
  const file = join(outDir, `${name}-linux-${process.arch}.tar.gz`)
  const cache = join(ROOT, 'node_modules/.cache')
  mkdirSync(cache, { recursive: true })
  mkdirSync(outDir, { recursive: true })
  const unfinished = mkdtempSync(join(cache, 'tarball-'))
  try {
    await fill(join(unfinished, name))
    const tar = spawn(
      'tar',
      [
        '--create',
        '--format=gnu',
        '--sort=name',
        '--owner=0',
        '--group=0',
        '--numeric-owner',
        '--mode=u=rwX,go=rX',
        `--mtime=@${commitTime()}`,
        `--directory=${unfinished}`,
        name,
      ],
      { stdio: ['ignore', 'pipe', 'inherit'] },
    )
    const ended = once(tar, 'close')
    // The header of zlib has neither a name nor a time.
    await pipeline(tar.stdout, createGzip(), createWriteStream(file))
    const [code] = await ended
    if (code !== 0) throw new Error(`tar ended with exit code ${code}. GNU tar is required.`)
  } finally {
    rmSync(unfinished, { recursive: true, force: true })
  }
  const hash = createHash('sha256')
  await pipeline(createReadStream(file), hash)
  writeFileSync(`${file}.sha256`, `${hash.digest('hex')}  ${basename(file)}\n`)
  return file
}

if (import.meta.main) console.log(await makeTarball(resolve(ROOT, process.argv[2] ?? '.local')))
