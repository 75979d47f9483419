/** Installs the client package as a user gets it: built, packed, and unpacked into a folder of its own. */
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { ROOT } from '@hub/local-stack'
import { runTool } from './external-tools.ts'

const NAME = '@sms-delivery-hub/client'
const STEP_WITHIN_MS = 120_000

export interface ClientPackage {
  /** Programs in this folder can import the package by its name. */
  readonly folder: string
  /** The folder of the installed package. */
  readonly installed: string
  /** The exports of the package. */
  readonly exports: any
  /** The example programs of the README, by file name. */
  readonly examples: ReadonlyMap<string, string>
}

export const runOrThrow = async (
  command: string,
  args: ReadonlyArray<string>,
  cwd: string,
  withinMs: number = STEP_WITHIN_MS,
): Promise<string> => {
  const { code, text } = await runTool(command, args, { cwd, withinMs })
  if (code !== 0) throw new Error(`${command} ${args.join(' ')} failed:\n${text}`)
  return text
}

type Workspace = 'packages/client' | 'apps/cli'

/** Builds and packs a package of this repository into a new folder. Returns the path of the file. */
export const packPackage = async (workspace: Workspace): Promise<string> => {
  const outer = mkdtempSync(join(process.env['HUB_TEST_DIR'] ?? tmpdir(), 'package-'))
  const built = join(outer, 'built')
  await runOrThrow(process.execPath, [join(ROOT, workspace, 'scripts/build.ts'), built], ROOT)
  await runOrThrow('npm', ['pack', '--loglevel=error', '--pack-destination', outer], built)
  const packed = readdirSync(outer).find((name) => name.endsWith('.tgz'))
  if (packed === undefined) throw new Error('npm pack wrote no file')
  return join(outer, packed)
}

const packed = new Map<Workspace, Promise<string>>()

/** As `packPackage`, but once for all test files that run in this process. */
export const packPackageOnce = (workspace: Workspace): Promise<string> => {
  const file = packed.get(workspace) ?? packPackage(workspace)
  packed.set(workspace, file)
  return file
}

/**
 * Installs the package. `beside`: a folder with further packages that the programs can
 * import.
 */
export const installClient = async (beside?: string): Promise<ClientPackage> => {
  const outer = mkdtempSync(join(process.env['HUB_TEST_DIR'] ?? tmpdir(), 'client-package-'))
  if (beside !== undefined) symlinkSync(join(beside, 'node_modules'), join(outer, 'node_modules'))
  const folder = join(outer, 'consumer')
  const installed = join(folder, 'node_modules', NAME)
  mkdirSync(installed, { recursive: true })
  const file = await packPackageOnce('packages/client')
  await runOrThrow('tar', ['-xzf', file, '-C', installed, '--strip-components=1'], outer)
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ private: true, type: 'module' }))
  const readme = readFileSync(join(installed, 'README.md'), 'utf8')
  return {
    folder,
    installed,
    exports: await import(pathToFileURL(join(installed, 'esm/index.js')).href),
    examples: new Map(
      [...readme.matchAll(/^```ts (?<name>\S+)\n(?<code>[^]*?)^```$/gmu)].map(({ groups }) => [
        groups?.['name'] ?? '',
        groups?.['code'] ?? '',
      ]),
    ),
  }
}
