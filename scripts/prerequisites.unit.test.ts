/** A checkout without packages reports missing tools before it installs anything. */
import { spawnSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'

const ROOT = join(import.meta.dirname, '..')

let checkout = ''
beforeAll(() => {
  checkout = mkdtempSync(join(tmpdir(), 'a fresh checkout '))
  for (const path of ['scripts/run.mjs', 'scripts/prerequisites.mjs', 'package-lock.json']) {
    cpSync(join(ROOT, path), join(checkout, path))
  }
  cpSync(join(ROOT, 'infra/local/jars.sha256'), join(checkout, 'infra/local/jars.sha256'))
  mkdirSync(join(checkout, 'bin'))
})
afterAll(() => rmSync(checkout, { recursive: true, force: true }))

/** Installs a program that prints a text. */
const pretend = (name: string, prints: string): void =>
  writeFileSync(join(checkout, 'bin', name), `#!/bin/sh\necho '${prints}'\n`, { mode: 0o755 })

const start = (...words: ReadonlyArray<string>) => {
  const ran = spawnSync(process.execPath, [join(checkout, 'scripts/run.mjs'), ...words], {
    encoding: 'utf8',
    // No npm is on this PATH, so an installation fails at once.
    env: { PATH: join(checkout, 'bin'), HUB_CACHE_DIR: join(checkout, 'cache') },
  })
  return { code: ran.status, text: ran.stdout + ran.stderr }
}
const HUB = ['infra/local/src/main.ts', 'start'] as const

describe('a fresh checkout', () => {
  it('names a missing or old Java, then a missing Maven, before it installs packages', () => {
    expect(start(...HUB)).toEqual({ code: 1, text: expect.stringMatching(/^Kafka needs Java 17 .+none/u) })
    pretend('java', 'openjdk version "11.0.2" 2019-01-15')
    expect(start(...HUB).text).toMatch(/^Kafka needs Java 17 or newer and .+java is Java 11: install/u)
    pretend('java', 'openjdk version "21.0.2" 2024-01-16')
    expect(start(...HUB)).toEqual({ code: 1, text: expect.stringMatching(/^Maven is needed once/u) })
    expect(existsSync(join(checkout, 'node_modules'))).toBe(false)
    pretend('mvn', '')
    expect(start(...HUB).text).toMatch(/^Installing npm packages/u)
  })

  it('needs neither for programs that start no servers', () => {
    for (const words of [
      ['scripts/test.ts', 'unit'],
      ['infra/local/src/main.ts', 'stop'],
    ]) {
      rmSync(join(checkout, 'bin/java'), { force: true })
      expect(start(...words).text).toMatch(/^Installing npm packages/u)
    }
  })
})
