/**
 * Runs third-party tools. The first test that needs a tool installs it into the cache folder, once
 * for each version.
 */
import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { ensureJars, findJava, type JarSet, readSettings, UserError } from '@hub/local-stack'
import type { TestContext } from 'vitest'
import { attempt } from './shell.ts'

/** A package index that does not respond must not block the tests. */
const INSTALL_WITHIN_MS = 180_000
/** Compiling a Go program takes 20 s of processor time, and minutes on a busy machine. */
const COMPILED_WITHIN_MS = 600_000

/** A result, or the reason why this machine cannot provide it. */
export type Found<A> = A | { readonly missing: string }

/** Returns what was found. If it is missing, prints the reason and skips the test. */
export const orSkip = async <A extends object>(
  context: TestContext,
  finding: Found<A> | Promise<Found<A>>,
): Promise<A> => {
  const found = await finding
  if ('missing' in found) {
    console.log(`Skipped: ${found.missing}`)
    return context.skip(found.missing)
  }
  return found
}

/** Names of `npm run interop` whose judges are tests. */
export type JudgeInTests = 'client-frameworks' | 'generated-clients' | 'oasdiff'

/**
 * For tests that take too long for `npm test`: nothing is missing in `npm run interop -- <name>`, which sets
 * `HUB_INTEROP`.
 */
export const onlyIn = (name: JudgeInTests): Found<object> =>
  process.env['HUB_INTEROP'] === name
    ? {}
    : { missing: `it takes too long for \`npm test\`; \`npm run interop -- ${name}\` runs it` }

export interface Output {
  readonly code: number
  /** Standard output followed by standard error. */
  readonly text: string
}

/** Runs a program to its end, with any exit code. One that does not start has the code 127. */
export const runTool = async (
  command: string,
  args: ReadonlyArray<string>,
  options: { readonly cwd?: string; readonly withinMs: number },
): Promise<Output> => {
  const ended = attempt(command, args, options).catch((error: unknown) => ({
    code: 127,
    stdout: '',
    stderr: String(error),
  }))
  const { code, stderr, stdout } = await ended
  return { code, text: stdout + stderr }
}

/**
 * Returns the cache folder of a tool. If it does not exist, `install` fills a temporary folder,
 * which is renamed when it is complete. Returns the reason if the tool cannot be installed on this
 * machine.
 */
export const cachedTool = async (
  name: string,
  install: (folder: string) => Promise<Output>,
): Promise<Found<{ readonly folder: string }>> => {
  const folder = join(readSettings(process.env).cacheDir, 'test-tools', name)
  if (existsSync(folder)) return { folder }
  mkdirSync(dirname(folder), { recursive: true })
  const temporary = mkdtempSync(`${folder}.`)
  const { code, text } = await install(temporary)
  if (code !== 0) {
    rmSync(temporary, { recursive: true, force: true })
    return { missing: `${name} could not be installed: ${text.trim().split('\n').at(-1) ?? ''}` }
  }
  try {
    renameSync(temporary, folder)
  } catch (error) {
    // Another process has installed it meanwhile.
    rmSync(temporary, { recursive: true, force: true })
    if (!existsSync(folder)) throw error
  }
  return { folder }
}

/**
 * Installs a PyPI package with its command line tools into a virtual environment. `others`: the versions of
 * further packages.
 */
export const pythonTool = (name: string, version: string, others: Readonly<Record<string, string>> = {}) => {
  const packages = Object.entries({ [name]: version, ...others })
  const toolName = packages.map(([one, ofOne]) => `${one}-${ofOne}`).join('-')
  return cachedTool(toolName, async (folder) => {
    const made = await runTool('python3', ['-m', 'venv', folder], { withinMs: INSTALL_WITHIN_MS })
    if (made.code !== 0) return made
    const exact = packages.map(([one, ofOne]) => `${one}==${ofOne}`)
    return runTool(join(folder, 'bin/python'), ['-m', 'pip', 'install', '--quiet', ...exact], {
      withinMs: INSTALL_WITHIN_MS,
    })
  })
}

/**
 * Installs npm packages into a separate folder: exact versions, no install scripts. `prepare` completes
 * the folder.
 */
export const npmTool = (
  name: string,
  packages: Readonly<Record<string, string>>,
  prepare?: (folder: string) => Promise<Output>,
) =>
  cachedTool(name, async (folder) => {
    writeFileSync(
      join(folder, 'package.json'),
      JSON.stringify({ name, private: true, type: 'module', dependencies: packages }),
    )
    const installed = await runTool(
      'npm',
      ['install', '--no-audit', '--no-fund', '--ignore-scripts', '--loglevel=error'],
      { cwd: folder, withinMs: INSTALL_WITHIN_MS },
    )
    return installed.code !== 0 || prepare === undefined ? installed : prepare(folder)
  })

/** Another version of Node, from its npm package. Returns the path of its program. */
export const nodeTool = async (version: string): Promise<Found<{ readonly node: string }>> => {
  const name = `node-${process.platform}-${process.arch}`
  const found = await npmTool(`node-${version}`, { [name]: version })
  return 'missing' in found ? found : { node: join(found.folder, 'node_modules', name, 'bin/node') }
}

/**
 * Unpacks Debian packages of this machine's release into a folder, without installing them: no service starts. The
 * version is that of the release.
 */
export const debianTool = (name: string, packages: ReadonlyArray<string>) =>
  cachedTool(`debian-${name}`, async (folder) => {
    // The package index of a container may be empty or outdated.
    const script = `get() { apt-get download -qq ${packages.join(' ')}; }
      get || { apt-get update -qq && get; } || exit 1
      for file in *.deb; do dpkg -x "$file" . && rm "$file" || exit 1; done`
    return runTool('sh', ['-c', script], { cwd: folder, withinMs: INSTALL_WITHIN_MS })
  })

/** Compiles a Go program, `<module>/<folder>@<version>`, into the folder of the tool. */
export const goTool = (name: string, program: string) =>
  cachedTool(name, (folder) =>
    runTool('env', [`GOBIN=${folder}`, 'go', 'install', program], {
      cwd: folder,
      withinMs: COMPILED_WITHIN_MS,
    }),
  )

/**
 * Completes the `go.mod` of a program, and gets the modules that it needs. Returns the reason if they cannot be
 * had on this machine: they are not in the module cache, and there is no network.
 */
export const goModules = async (folder: string): Promise<Found<{ readonly folder: string }>> => {
  const { code, text } = await runTool('go', ['mod', 'tidy'], { cwd: folder, withinMs: INSTALL_WITHIN_MS })
  const isUnreachable = /dial tcp|no such host|imeout|module lookup disabled|proxyconnect/u.test(text)
  if (code === 0) return { folder }
  if (isUnreachable)
    return { missing: `Go modules could not be downloaded: ${text.trim().split('\n').at(-1)}` }
  throw new Error(text)
}

/**
 * Compiles a Go program, with the modules of its `go.mod`, in a new folder: the sources do not change. Returns the
 * reason if this machine cannot.
 */
export const goProgram = async (source: string): Promise<Found<{ readonly program: string }>> => {
  const { code } = await runTool('go', ['version'], { withinMs: INSTALL_WITHIN_MS })
  if (code !== 0) return { missing: 'Go is not installed' }
  const folder = mkdtempSync(join(process.env['HUB_TEST_DIR'] ?? tmpdir(), 'go-'))
  cpSync(source, folder, { recursive: true })
  const modules = await goModules(folder)
  if ('missing' in modules) return modules
  const program = join(folder, 'program')
  const built = await runTool('go', ['build', '-o', program, '.'], {
    cwd: folder,
    withinMs: COMPILED_WITHIN_MS,
  })
  if (built.code !== 0) throw new Error(built.text)
  return { program }
}

/**
 * Copies single files of Go modules (`module@version`) into one folder, for files that are
 * published nowhere else.
 */
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

/**
 * Returns the Java command and the class path of a library, which Maven fetches once. Returns the
 * reason if this machine cannot run it.
 */
export const javaLibrary = async (
  jars: JarSet,
): Promise<Found<{ readonly java: string; readonly classPath: string }>> => {
  try {
    const { command } = await findJava(process.env)
    const { files } = await ensureJars(
      jars,
      readSettings(process.env).cacheDir,
      process.env,
      (line) => console.log(line),
      AbortSignal.timeout(INSTALL_WITHIN_MS),
    )
    return { java: command, classPath: files.join(':') }
  } catch (error) {
    if (error instanceof UserError) return { missing: error.message }
    throw error
  }
}

/** Returns the reason why a Java program cannot be started from its source file, or null. */
export const javaCompilerMissing = async (java: string): Promise<string | null> => {
  const { code, text } = await runTool(java, ['--list-modules'], { withinMs: INSTALL_WITHIN_MS })
  return code === 0 && /^jdk\.compiler@/mu.test(text)
    ? null
    : `${java} has no compiler: install a JDK (Debian or Ubuntu: apt install openjdk-17-jdk-headless).`
}
