/** Builds and installs the Python client as a user gets it. */
import { mkdtempSync, readdirSync, readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ROOT } from '@hub/local-stack'
import { runOrThrow } from './client-package.ts'
import { type Found, pythonTool, runTool } from './external-tools.ts'

/** Its folder in the repository. */
export const PYTHON_CLIENT = 'clients/python'
const STEP_WITHIN_MS = 120_000

/** The Python of this machine, if it is one that the client supports. */
export const python = async (): Promise<Found<{ readonly command: string }>> => {
  const { code } = await runTool('python3', ['-c', 'import sys; sys.exit(sys.version_info < (3, 9))'], {
    withinMs: STEP_WITHIN_MS,
  })
  return code === 0 ? { command: 'python3' } : { missing: 'Python 3.9 or newer is not installed' }
}

export interface PythonPackage {
  /** The Python that has the tool for building. */
  readonly command: string
  readonly wheel: string
  readonly archive: string
}

/** Builds both files of a release into a new folder, with the tool that `pyproject.toml` names. */
export const buildPythonClient = async (): Promise<Found<PythonPackage>> => {
  const source = join(ROOT, PYTHON_CLIENT)
  const manifest = readFileSync(join(source, 'pyproject.toml'), 'utf8')
  const version = /requires = \["flit_core==(?<version>[^"]+)"\]/u.exec(manifest)?.groups?.['version'] ?? ''
  const tool = await pythonTool('flit_core', version)
  if ('missing' in tool) return tool
  const command = join(tool.folder, 'bin/python')
  const folder = mkdtempSync(join(process.env['HUB_TEST_DIR'] ?? tmpdir(), 'python-package-'))
  const program = `from flit_core import buildapi; f = ${JSON.stringify(folder)}; buildapi.build_wheel(f); buildapi.build_sdist(f)`
  // The times of files in both archives.
  await runOrThrow('env', ['SOURCE_DATE_EPOCH=1800000000', command, '-c', program], source)
  const path = (ending: string): string => {
    const name = readdirSync(folder).find((one) => one.endsWith(ending))
    if (name === undefined) throw new Error(`The build wrote no ${ending}`)
    return join(folder, name)
  }
  return { command, wheel: path('.whl'), archive: path('.tar.gz') }
}

/** Installs the wheel without a package index. Returns the folder for `PYTHONPATH`. */
export const installPythonClient = async ({ command, wheel }: PythonPackage): Promise<string> => {
  const folder = mkdtempSync(join(process.env['HUB_TEST_DIR'] ?? tmpdir(), 'python-installed-'))
  const pip = ['-m', 'pip', 'install', '--quiet', '--no-index', '--disable-pip-version-check']
  await runOrThrow(command, [...pip, '--target', folder, wheel], ROOT)
  return folder
}

/** The example programs of a page, by file name. */
export const pythonExamples = (page: string): ReadonlyMap<string, string> =>
  new Map(
    [
      ...readFileSync(join(ROOT, page), 'utf8').matchAll(/^```python (?<name>\S+)\n(?<code>[^]*?)^```$/gmu),
    ].map(({ groups }) => [groups?.['name'] ?? '', groups?.['code'] ?? '']),
  )
