/** Tools of others that tests run: installed into the cache folder by the test that wants one, once for a version. */
import { execFile } from 'node:child_process'
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { readSettings } from '@hub/local-stack'

const run = promisify(execFile)

/** An index that does not answer, or crawls, must not hold up the tests. */
const INSTALL_WITHIN_MS = 180_000

export interface Output {
  readonly code: number
  /** Standard output and error, in that order. */
  readonly text: string
}

/** Runs a program to its end, whatever its exit code. */
export const runTool = async (
  command: string,
  args: ReadonlyArray<string>,
  options: { readonly cwd?: string; readonly withinMs: number },
): Promise<Output> => {
  try {
    const { stderr, stdout } = await run(command, [...args], {
      ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
      timeout: options.withinMs,
      maxBuffer: 64 * 1024 * 1024,
    })
    return { code: 0, text: stdout + stderr }
  } catch (error) {
    const { code, stderr, stdout } = error as { code?: unknown; stdout?: string; stderr?: string }
    const text = `${stdout ?? ''}${stderr ?? ''}`
    return { code: typeof code === 'number' ? code : 1, text: text === '' ? String(error) : text }
  }
}

/**
 * The folder of a tool in the cache, made by `install` in a folder that takes its place when it is complete. Answers why not, where
 * it cannot be made here: no index, no interpreter.
 */
const cachedTool = async (
  name: string,
  install: (folder: string) => Promise<Output>,
): Promise<{ readonly folder: string } | { readonly missing: string }> => {
  const folder = join(readSettings(process.env).cacheDir, 'test-tools', name)
  if (existsSync(folder)) return { folder }
  mkdirSync(dirname(folder), { recursive: true })
  const aside = mkdtempSync(`${folder}.`)
  const { code, text } = await install(aside)
  if (code !== 0) {
    rmSync(aside, { recursive: true, force: true })
    return { missing: `${name} could not be installed: ${text.trim().split('\n').at(-1) ?? ''}` }
  }
  try {
    renameSync(aside, folder)
  } catch (error) {
    // Somebody else was faster.
    rmSync(aside, { recursive: true, force: true })
    if (!existsSync(folder)) throw error
  }
  return { folder }
}

/** A package of the Python index with its command line, in an environment of its own. */
export const pythonTool = (name: string, version: string) =>
  cachedTool(`${name}-${version}`, async (folder) => {
    const made = await runTool('python3', ['-m', 'venv', folder], { withinMs: INSTALL_WITHIN_MS })
    if (made.code !== 0) return made
    return runTool(join(folder, 'bin/python'), ['-m', 'pip', 'install', '--quiet', `${name}==${version}`], {
      withinMs: INSTALL_WITHIN_MS,
    })
  })

/** Packages of the npm registry in a folder of their own, away from this project's: exact versions, no install scripts. */
export const npmTool = (name: string, packages: Readonly<Record<string, string>>) =>
  cachedTool(name, async (folder) => {
    writeFileSync(
      join(folder, 'package.json'),
      JSON.stringify({ name, private: true, type: 'module', dependencies: packages }),
    )
    return runTool('npm', ['install', '--no-audit', '--no-fund', '--ignore-scripts', '--loglevel=error'], {
      cwd: folder,
      withinMs: INSTALL_WITHIN_MS,
    })
  })

/** Single files out of Go modules (`module@version`), side by side in one folder: what others publish in no other way. */
export const goFiles = (name: string, files: Readonly<Record<string, ReadonlyArray<string>>>) =>
  cachedTool(name, async (folder) => {
    for (const [module, paths] of Object.entries(files)) {
      const got = await runTool('go', ['mod', 'download', '-json', module], {
        cwd: folder,
        withinMs: INSTALL_WITHIN_MS,
      })
      if (got.code !== 0) return got
      const { Dir } = JSON.parse(got.text.slice(got.text.indexOf('{'), got.text.lastIndexOf('}') + 1)) as {
        Dir: string
      }
      for (const path of paths) copyFileSync(join(Dir, path), join(folder, basename(path)))
    }
    return { code: 0, text: '' }
  })
