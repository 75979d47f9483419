/** Bundles in a `node_modules` that contains a copy of another one, as `cp -r` into an existing folder makes it. */
import { spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { bundleOf, PROGRAMS } from '../../bundle/bundle.ts'
import { ensureBundles } from './bundles.ts'
import { ROOT } from './settings.ts'

let checkout = ''
let bundles = ''
beforeAll(async () => {
  checkout = mkdtempSync(join(tmpdir(), 'copied-'))
  const modules = join(checkout, 'node_modules')
  bundles = join(modules, '.cache/hub-bundles/built')
  mkdirSync(join(modules, 'node_modules'), { recursive: true })
  for (const name of readdirSync(join(ROOT, 'node_modules')))
    if (!name.startsWith('.')) symlinkSync(join(ROOT, 'node_modules', name), join(modules, name))
  for (const name of ['apps', 'packages', 'infra']) symlinkSync(join(ROOT, name), join(checkout, name))
  cpSync(join(ROOT, 'node_modules/kafkajs'), join(modules, 'node_modules/kafkajs'), { recursive: true })
  cpSync(await ensureBundles(), bundles, { recursive: true })
})
afterAll(() => rmSync(checkout, { recursive: true, force: true }))

type Program = keyof typeof PROGRAMS

describe('with a second copy of kafkajs', () => {
  it.each(Object.keys(PROGRAMS) as ReadonlyArray<Program>)(
    '%s refuses to start, with one line',
    (program) => {
      const { status, stderr, stdout } = spawnSync(process.execPath, [bundleOf(bundles, program), 'doctor'], {
        encoding: 'utf8',
        env: {},
      })
      expect({ status, stdout }).toEqual({ status: 1, stdout: '' })
      expect(stderr).toMatch(
        /^kafkajs is installed twice, as .+ and .+node_modules\/node_modules\/kafkajs\/.+ npm ci\.\n$/u,
      )
    },
  )
})
