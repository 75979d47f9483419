/** An older state of this repository in a folder of its own, with the packages that are installed here. */
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  chmodSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ROOT } from '@hub/local-stack'
import { runTool } from './external-tools.ts'

/** What a version keeps for the next one: a change here is what an upgrade has to get over. */
const KEPT = ['packages/store/migrations', 'packages/kafka/schemas']
/** Where this repository has packages of its own. */
const WORKSPACES = ['packages', 'apps', 'infra']
const WITHIN_MS = 60_000

interface Checkout {
  readonly folder: string
  readonly revision: string
}

const git = async (...args: ReadonlyArray<string>): Promise<string | null> => {
  const { code, text } = await runTool('git', args, { cwd: ROOT, withinMs: WITHIN_MS })
  return code === 0 ? text.trim() : null
}

/** Everything that is installed here, and the packages of that state in place of ours. */
const linkModules = (folder: string): void => {
  const modules = join(folder, 'node_modules')
  mkdirSync(join(modules, '@hub'), { recursive: true })
  for (const name of readdirSync(join(ROOT, 'node_modules'))) {
    if (name !== '@hub') symlinkSync(join(ROOT, 'node_modules', name), join(modules, name))
  }
  for (const workspace of WORKSPACES) {
    for (const entry of readdirSync(join(folder, workspace))) {
      const file = join(folder, workspace, entry, 'package.json')
      if (!existsSync(file)) continue
      const { name } = JSON.parse(readFileSync(file, 'utf8')) as { readonly name: string }
      if (name.startsWith('@hub/')) symlinkSync(join(folder, workspace, entry), join(modules, name))
    }
  }
}

/**
 * The state before the last change of what is kept (`HUB_UPGRADE_FROM` names another one), or why there is none here: a copy without its
 * history, or without all of it.
 */
export const checkOutPreviousVersion = async (): Promise<Checkout | { readonly missing: string }> => {
  const shallow = await git('rev-parse', '--is-shallow-repository')
  if (shallow === null) return { missing: 'this is no git repository, or there is no git' }
  if (shallow === 'true') return { missing: 'this clone is shallow: it has no older state' }
  const asked = process.env['HUB_UPGRADE_FROM'] ?? ''
  const last = await git('log', '-1', '--format=%H', '--', ...KEPT)
  const wanted = asked === '' ? `${last ?? 'HEAD'}^` : asked
  const revision = await git('rev-parse', '--verify', '--quiet', `${wanted}^{commit}`)
  if (revision === null) return { missing: `there is no ${wanted} in the history` }
  const folder = mkdtempSync(join(process.env['HUB_TEST_DIR'] ?? tmpdir(), 'older-'))
  chmodSync(folder, 0o755)
  const { code, text } = await runTool('sh', ['-c', 'git archive "$0" | tar -x -C "$1"', revision, folder], {
    cwd: ROOT,
    withinMs: WITHIN_MS,
  })
  if (code !== 0) return { missing: `${revision} could not be unpacked: ${text}` }
  linkModules(folder)
  return { folder, revision }
}
