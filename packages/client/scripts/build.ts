/**
 * Builds the package that other services install, in `dist/` or in another folder: ES modules,
 * CommonJS modules, their types, the README and the signature vectors.
 *
 *   node scripts/run.mjs packages/client/scripts/build.ts [folder]
 *   npm pack ./packages/client/dist
 *
 * The package in the repository is private and consists of sources, so that it needs no build.
 */
import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'

const CLIENT = join(import.meta.dirname, '..')
const TSC = join(CLIENT, '../../node_modules/.bin/tsc')

/** The compiler changes the extension of imports in modules, but not in their types. */
const correctImports = (folder: string): void => {
  for (const name of readdirSync(folder).filter((file) => file.endsWith('.d.ts'))) {
    const path = join(folder, name)
    const text = readFileSync(path, 'utf8')
    writeFileSync(path, text.replaceAll(/(?<=(?:from |import\()'\.\/[\w-]+)\.ts(?=')/gu, '.js'))
  }
}

const build = (out: string): void => {
  rmSync(out, { recursive: true, force: true })
  mkdirSync(out, { recursive: true })
  for (const [folder, module, type] of [
    ['esm', 'ESNext', 'module'],
    ['cjs', 'CommonJS', 'commonjs'],
  ] as const) {
    const target = join(out, folder)
    execFileSync(
      TSC,
      ['--project', join(CLIENT, 'tsconfig.build.json'), '--module', module, '--outDir', target],
      { stdio: 'inherit' },
    )
    correctImports(target)
    writeFileSync(join(target, 'package.json'), `${JSON.stringify({ type })}\n`)
  }
  cpSync(join(CLIENT, 'README.md'), join(out, 'README.md'))
  cpSync(join(CLIENT, 'conformance'), join(out, 'conformance'), { recursive: true })
  const {
    private: _,
    exports: _sources,
    ...manifest
  } = JSON.parse(readFileSync(join(CLIENT, 'package.json'), 'utf8')) as Record<string, unknown>
  const published = {
    ...manifest,
    // For tools that do not read `exports`: resolution of TypeScript's node10, old bundlers.
    main: './cjs/index.js',
    module: './esm/index.js',
    types: './cjs/index.d.ts',
    exports: {
      '.': {
        import: { types: './esm/index.d.ts', default: './esm/index.js' },
        require: { types: './cjs/index.d.ts', default: './cjs/index.js' },
      },
      './conformance/signatures.json': './conformance/signatures.json',
      './package.json': './package.json',
    },
    files: ['esm', 'cjs', 'conformance'],
  }
  writeFileSync(join(out, 'package.json'), `${JSON.stringify(published, null, 2)}\n`)
}

build(resolve(process.argv[2] ?? join(CLIENT, 'dist')))
