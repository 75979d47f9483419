/** Builds the files of the console with Vite. It needs no network. */
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { build, type InlineConfig } from 'vite'

const ROOT = join(import.meta.dirname, '..')

/** The files that the build reads. */
const SOURCES = ['index.html', 'package.json', 'build', 'src']

const configuration = (outDir: string): InlineConfig => ({
  root: ROOT,
  configFile: false,
  logLevel: 'error',
  envDir: false,
  publicDir: false,
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  build: {
    outDir,
    emptyOutDir: true,
    // The API sends all files itself: no file may become a data: URL, which its policy forbids.
    assetsInlineLimit: 0,
    // Every browser with light-dark() loads modules.
    modulePreload: { polyfill: false },
    target: 'es2024',
  },
})

/** Writes the files of the console to a folder, which it empties first. */
export const buildConsole = async (outDir: string): Promise<void> => {
  await build(configuration(outDir))
}

/** Changes if a file of the console changes: the name of a folder in a cache. */
export const consoleHash = (): string => {
  const hash = createHash('sha256')
  const files = SOURCES.flatMap((name) => {
    const path = join(ROOT, name)
    return name.includes('.')
      ? [name]
      : readdirSync(path, { recursive: true, withFileTypes: true })
          .filter((entry) => entry.isFile() && !entry.name.includes('.test.'))
          .map((entry) => join(entry.parentPath, entry.name).slice(ROOT.length + 1))
  })
  for (const file of files.toSorted()) hash.update(`${file}\0`).update(readFileSync(join(ROOT, file)))
  return hash.digest('hex').slice(0, 16)
}
