/**
 * Checks out an older version of this repository into a new folder, with the npm packages that are
 * installed here.
 */
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

/** The last file added to these folders separates two versions: an upgrade must handle it. */
const PERSISTED = ['packages/store/migrations', 'packages/kafka/schemas']
/** The folders of the npm workspaces. */
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

/** Links every installed npm package, and the workspaces of the checked-out version. */
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
 * Checks out the commit before the last new migration or record schema, or the one that
 * `HUB_UPGRADE_FROM` names. Returns the reason if the history does not contain it.
 */
export const checkOutPreviousVersion = async (): Promise<Checkout | { readonly missing: string }> => {
  const shallow = await git('rev-parse', '--is-shallow-repository')
  if (shallow === null) return { missing: 'this folder is no git repository, or git is not installed' }
  if (shallow === 'true') return { missing: 'this clone is shallow: it has no older version' }
  const requested = process.env['HUB_UPGRADE_FROM'] ?? ''
  const last = await git('log', '-1', '--diff-filter=A', '--format=%H', '--', ...PERSISTED)
  const wanted = requested === '' ? `${last ?? 'HEAD'}^` : requested
  const revision = await git('rev-parse', '--verify', '--quiet', `${wanted}^{commit}`)
  if (revision === null) return { missing: `the history does not contain ${wanted}` }
  const folder = mkdtempSync(join(process.env['HUB_TEST_DIR'] ?? tmpdir(), 'older-'))
  chmodSync(folder, 0o755)
  const { code, text } = await runTool('sh', ['-c', 'git archive "$0" | tar -x -C "$1"', revision, folder], {
    cwd: ROOT,
    withinMs: WITHIN_MS,
  })
  if (code !== 0) return { missing: `${revision} could not be unpacked. The output was: ${text}` }
  linkModules(folder)
  return { folder, revision }
}
