/** Compiles a small TypeScript project as an integrator would have one. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Output, runTool } from './external-tools.ts'

/** The strictest rules: what compiles under them compiles in every project. */
const STRICT = {
  target: 'es2023',
  module: 'nodenext',
  strict: true,
  noUncheckedIndexedAccess: true,
  exactOptionalPropertyTypes: true,
  noPropertyAccessFromIndexSignature: true,
  types: [],
  outDir: 'out',
  rootDir: 'src',
}

interface ProjectOptions {
  /** The folder of a tool with TypeScript in its `node_modules`. */
  readonly toolFolder: string
  /** Compiler options that differ. */
  readonly compilerOptions: Readonly<Record<string, unknown>>
  readonly withinMs: number
}

/** Compiles the folder `src` of a project to its folder `out`. */
export const compileProject = (
  folder: string,
  { compilerOptions, toolFolder, withinMs }: ProjectOptions,
): Promise<Output> => {
  writeFileSync(
    join(folder, 'tsconfig.json'),
    JSON.stringify({ compilerOptions: { ...STRICT, ...compilerOptions }, include: ['src'] }),
  )
  const tsc = join(toolFolder, 'node_modules/typescript/bin/tsc')
  return runTool(process.execPath, [tsc, '--project', 'tsconfig.json'], { cwd: folder, withinMs })
}
