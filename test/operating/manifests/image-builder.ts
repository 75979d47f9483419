/** Builds and runs the image of the hub with Docker or Buildah, whichever this machine has. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { ROOT } from '@hub/local-stack'
import { commitTime } from '../../../infra/systemd/tarball.ts'
import { cachedTool, type Found, type Output, runTool } from '../../support/external-tools.ts'
import { textOf } from './parse.ts'

const TAG = 'localhost/sms-delivery-hub-test:1'
const STAND_IN = 'localhost/node-stand-in:1'

/** On an idle machine a build takes a minute. */
const BUILT_WITHIN_MS = 900_000
const RUN_WITHIN_MS = 120_000
const PULLED_WITHIN_MS = 120_000

const DOCKERFILE = join(ROOT, 'infra/image/Dockerfile')

/** The pinned base image. */
const PINNED =
  /^ARG NODE_IMAGE=(?<image>\S+)$/mu.exec(textOf('infra/image/Dockerfile'))?.groups?.['image'] ?? ''

export interface ImageBuilder {
  readonly buildImage: () => Promise<Output>
  /** Runs Node in the image, as its user, without privileges. */
  readonly run: (...args: ReadonlyArray<string>) => Promise<Output>
  /** The files of this repository that a builder gets. */
  readonly contextFiles: () => Promise<ReadonlyArray<string>>
  /** Writes the built image under a name into an archive, which containerd and Docker can load. */
  readonly save: (archive: string, name: string) => Promise<Output>
  readonly remove: () => Promise<void>
}

interface Buildah extends ImageBuilder {
  /** Builds the image, and returns its digest in the format of OCI. Fails with an `Error`. */
  readonly digest: () => Promise<string>
}

/**
 * Debian 13 with the Node of the tests and the npm of this machine, and the settings with which that npm
 * reaches its registry. It takes the place of the pinned base if no registry of images can be reached.
 */
const STAND_IN_SCRIPT = `
root=$1/root
debootstrap --variant=minbase trixie "$root"
npm=$(dirname "$(dirname "$(readlink -f "$(command -v npm)")")")
install -m 0755 "$2" "$root/usr/local/bin/node"
mkdir -p "$root/usr/local/lib/node_modules" "$root/usr/local/etc" "$root/etc/ssl/certs"
cp -r "$npm" "$root/usr/local/lib/node_modules/npm"
ln -s ../lib/node_modules/npm/bin/npm-cli.js "$root/usr/local/bin/npm"
if [ -f /etc/ssl/certs/ca-certificates.crt ]; then cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"; fi
config=$(npm config get globalconfig)
if [ -f "$config" ]; then cp "$config" "$root/usr/local/etc/npmrc"; fi
rm -rf "$root/var/cache/apt/archives" "$root/var/lib/apt/lists"
tar -C "$root" -cf "$1/root.tar" .
rm -rf "$root"
`

const standIn = (): Promise<Found<{ readonly folder: string }>> =>
  cachedTool(`image-base-trixie-${process.versions.node}`, (folder) =>
    runTool('bash', ['-euo', 'pipefail', '-c', STAND_IN_SCRIPT, 'bash', folder, process.execPath], {
      cwd: dirname(folder),
      withinMs: BUILT_WITHIN_MS,
    }),
  )

const contextFiles = async (
  base: string,
  build: (dockerfile: string) => Promise<Output>,
): Promise<ReadonlyArray<string>> => {
  const folder = mkdtempSync(join(tmpdir(), 'hub-context-'))
  const dockerfile = join(folder, 'Dockerfile')
  writeFileSync(dockerfile, `FROM ${base}\nCOPY . /context\nRUN find /context -type f\n`)
  try {
    const { code, text } = await build(dockerfile)
    if (code !== 0) throw new Error(text)
    return [...text.matchAll(/(?:^|\s)\/context\/(?<file>\S+)$/gmu)].map(
      ({ groups }) => groups?.['file'] ?? '',
    )
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

const docker = async (): Promise<Found<ImageBuilder>> => {
  const at = (args: ReadonlyArray<string>, withinMs: number) => runTool('docker', args, { withinMs })
  const daemon = await at(['info'], RUN_WITHIN_MS)
  if (daemon.code !== 0) return { missing: 'Docker has no running daemon' }
  const pulled = await at(['pull', PINNED], PULLED_WITHIN_MS)
  if (pulled.code !== 0) return { missing: 'Docker cannot pull the base image' }
  const build = (dockerfile: string) =>
    at(['build', '--progress=plain', '--file', dockerfile, '--tag', TAG, ROOT], BUILT_WITHIN_MS)
  return {
    buildImage: () => build(DOCKERFILE),
    contextFiles: () => contextFiles(PINNED, build),
    run: (...args) =>
      at(['run', '--rm', '--read-only', '--cap-drop=ALL', '--network=none', TAG, ...args], RUN_WITHIN_MS),
    save: async (archive, name) => {
      const tagged = await at(['tag', TAG, name], RUN_WITHIN_MS)
      return tagged.code === 0 ? at(['save', '--output', archive, name], BUILT_WITHIN_MS) : tagged
    },
    remove: async () => {
      await at(['image', 'rm', '--force', TAG], RUN_WITHIN_MS)
    },
  }
}

export const buildah = async (): Promise<Found<Buildah>> => {
  const there = await runTool('buildah', ['--version'], { withinMs: RUN_WITHIN_MS })
  if (there.code !== 0)
    return { missing: 'neither Docker nor Buildah can build here (Debian: apt-get install buildah)' }
  const folder = mkdtempSync(join(tmpdir(), 'hub-image-'))
  const at = (args: ReadonlyArray<string>, withinMs = RUN_WITHIN_MS) =>
    runTool('buildah', ['--root', join(folder, 'root'), '--runroot', join(folder, 'run'), ...args], {
      withinMs,
    })
  const remove = async () => {
    await at(['rm', '--all'])
    await at(['rmi', '--all', '--force'])
    rmSync(folder, { recursive: true, force: true })
  }
  const steps = async (commands: ReadonlyArray<ReadonlyArray<string>>): Promise<Output> => {
    let done: Output = { code: 0, text: '' }
    for (const command of commands) if (done.code === 0) done = await at(command, BUILT_WITHIN_MS)
    return done
  }
  const pulled = await at(['pull', '--quiet', `docker://${PINNED}`], PULLED_WITHIN_MS)
  if (pulled.code !== 0) {
    const made = await standIn()
    if ('missing' in made) {
      await remove()
      return { missing: `the base image cannot be pulled, and ${made.missing}` }
    }
    const imported = await steps([
      ['from', '--name', 'base', 'scratch'],
      ['add', '--quiet', 'base', join(made.folder, 'root.tar'), '/'],
      ['config', '--env', 'PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', 'base'],
      ['commit', '--quiet', '--rm', 'base', STAND_IN],
    ])
    if (imported.code !== 0) {
      await remove()
      return { missing: `Buildah cannot make an image here: ${imported.text.trim().split('\n').at(-1)}` }
    }
  }
  const base = pulled.code === 0 ? PINNED : STAND_IN
  const options = [
    '--isolation',
    'chroot',
    '--format',
    'docker',
    // With the time of the commit, two builds give the same image.
    '--timestamp',
    commitTime(),
    '--build-arg',
    `NODE_IMAGE=${base}`,
  ]
  const build = (dockerfile: string) =>
    at(['bud', ...options, '--file', dockerfile, '--tag', TAG, ROOT], BUILT_WITHIN_MS)
  return {
    buildImage: async () => {
      const built = await build(DOCKERFILE)
      if (built.code !== 0) return built
      const container = await at(['from', '--name', 'hub', TAG])
      return container.code === 0 ? built : container
    },
    digest: async () => {
      const file = join(folder, 'digest')
      const built = await build(DOCKERFILE)
      if (built.code !== 0) throw new Error(built.text)
      // In the format of Docker, Buildah writes its random host name into the configuration.
      const push = ['push', '--quiet', '--format', 'oci', '--digestfile', file, TAG]
      const { code, text } = await at([...push, `oci:${join(folder, 'oci')}`], BUILT_WITHIN_MS)
      if (code !== 0) throw new Error(text)
      return readFileSync(file, 'utf8').trim()
    },
    contextFiles: () => contextFiles(base, build),
    run: (...args) =>
      at(['run', '--isolation', 'chroot', '--cap-drop', 'ALL', 'hub', '--', '/usr/local/bin/node', ...args]),
    save: (archive, name) => {
      rmSync(archive, { force: true })
      return at(['push', '--quiet', TAG, `docker-archive:${archive}:${name}`], BUILT_WITHIN_MS)
    },
    remove,
  }
}

/** The builder of this machine, or the reason why it has none. */
export const imageBuilder = async (): Promise<Found<ImageBuilder>> => {
  const found = await docker()
  return 'missing' in found ? buildah() : found
}
