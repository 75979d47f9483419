/**
 * Builds the package that can be installed outside of the repository, in `dist/` or in another folder: one
 * file with everything, so that it has no dependencies.
 *
 *   node scripts/run.mjs apps/cli/scripts/build.ts [folder]
 *   npm pack ./apps/cli/dist
 */
import { chmodSync, cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { rolldown } from 'rolldown'

const CLI = join(import.meta.dirname, '..')
const PACKAGES = join(CLI, '../../node_modules')

/** The package in which a module is; `null` for modules of the repository. */
const packageOf = (id: string): string | null =>
  /.*\/node_modules\/(?<name>(?:@[^/]+\/)?[^/]+)\//u.exec(id)?.groups?.['name'] ?? null

/** The licences of the packages in the bundle, which must go with it. */
const licencesOf = (names: ReadonlySet<string>): string =>
  [...names]
    .sort()
    .map((name) => {
      const folder = join(PACKAGES, name)
      const file = readdirSync(folder).find((one) => /^licen[cs]e/iu.test(one))
      const { license, version } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as {
        readonly license: string
        readonly version: string
      }
      const text = file === undefined ? '' : `\n\n${readFileSync(join(folder, file), 'utf8').trim()}`
      return `${name} ${version} (${license})${text}`
    })
    .join(`\n\n${'-'.repeat(80)}\n\n`)

const build = async (out: string): Promise<void> => {
  rmSync(out, { recursive: true, force: true })
  mkdirSync(out, { recursive: true })
  const bundle = await rolldown({ input: join(CLI, 'src/main.ts'), platform: 'node' })
  const { output } = await bundle.generate({
    format: 'esm',
    codeSplitting: false,
    banner: '#!/usr/bin/env node',
    minify: true,
  })
  await bundle.close()
  const [program] = output
  const file = join(out, 'hub.mjs')
  writeFileSync(file, program.code)
  chmodSync(file, 0o755)
  const names = new Set(program.moduleIds.flatMap((id) => packageOf(id) ?? []))
  writeFileSync(join(out, 'LICENCES.txt'), `${licencesOf(names)}\n`)
  cpSync(join(CLI, '../../docs/hub.md'), join(out, 'README.md'))
  const {
    private: _,
    devDependencies: _bundled,
    ...manifest
  } = JSON.parse(readFileSync(join(CLI, 'package.json'), 'utf8')) as Record<string, unknown>
  const published = {
    ...manifest,
    bin: { hub: './hub.mjs' },
    files: ['hub.mjs', 'LICENCES.txt'],
    // AbortSignal.any, as in the client.
    engines: { node: '>=20.3' },
  }
  writeFileSync(join(out, 'package.json'), `${JSON.stringify(published, null, 2)}\n`)
}

await build(resolve(process.argv[2] ?? join(CLI, 'dist')))
