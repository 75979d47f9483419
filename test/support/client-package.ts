/** Installs the client package as a user gets it: packed, and unpacked into a folder of its own. */
import { mkdirSync, mkdtempSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
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
  /** The exports of the package. */
  readonly exports: any
  /** The example programs of the README, by file name. */
  readonly examples: ReadonlyMap<string, string>
}

const runOrThrow = async (command: string, args: ReadonlyArray<string>, cwd: string): Promise<void> => {
  const { code, text } = await runTool(command, args, { cwd, withinMs: STEP_WITHIN_MS })
  if (code !== 0) throw new Error(`${command} ${args.join(' ')} failed:\n${text}`)
}

/**
 * Packs and installs the package. `beside`: a folder with further packages that the programs can
 * import.
 */
export const installClient = async (beside?: string): Promise<ClientPackage> => {
  const outer = mkdtempSync(join(process.env['HUB_TEST_DIR'] ?? tmpdir(), 'client-package-'))
  if (beside !== undefined) symlinkSync(join(beside, 'node_modules'), join(outer, 'node_modules'))
  const folder = join(outer, 'consumer')
  const installed = join(folder, 'node_modules', NAME)
  mkdirSync(installed, { recursive: true })
  await runOrThrow(
    'npm',
    ['pack', '--loglevel=error', '--pack-destination', outer],
    join(ROOT, 'packages/client'),
  )
  const { version } = JSON.parse(readFileSync(join(ROOT, 'packages/client/package.json'), 'utf8'))
  const tarball = join(outer, `sms-delivery-hub-client-${version}.tgz`)
  await runOrThrow('tar', ['-xzf', tarball, '-C', installed, '--strip-components=1'], outer)
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ private: true, type: 'module' }))
  const readme = readFileSync(join(installed, 'README.md'), 'utf8')
  return {
    folder,
    exports: await import(pathToFileURL(join(installed, 'dist/index.js')).href),
    examples: new Map(
      [...readme.matchAll(/^```ts (?<name>\S+)\n(?<code>[^]*?)^```$/gmu)].map(({ groups }) => [
        groups?.['name'] ?? '',
        groups?.['code'] ?? '',
      ]),
    ),
  }
}
