/**
 * Builds the files of the console in a process of its own, once for each content of its sources. The
 * supervisor would keep the memory of the build tool as long as the hub runs.
 *
 *   console-process.ts <builder> <folder>     prints the folder with the built files
 */
import { existsSync, mkdirSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { keepFirst } from './cached-folder.ts'

/** The module of the console's sources that builds them. */
interface Builder {
  readonly buildConsole: (outDir: string) => Promise<void>
  readonly consoleHash: () => string
}

const [builder = '', folder = ''] = process.argv.slice(2)
const { buildConsole, consoleHash } = (await import(pathToFileURL(builder).href)) as Builder
const built = join(folder, consoleHash())
if (!existsSync(built)) {
  const unfinished = `${built}.${process.pid}`
  mkdirSync(folder, { recursive: true })
  await buildConsole(unfinished)
  // Earlier contents, and what an interrupted build has left.
  for (const name of readdirSync(folder)) {
    if (!unfinished.endsWith(name)) rmSync(join(folder, name), { recursive: true, force: true })
  }
  keepFirst(unfinished, built)
}
console.log(built)
