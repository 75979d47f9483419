/**
 * Runs the linter on planted imports. It must report each forbidden import and accept each allowed
 * one.
 */
import { spawnSync } from 'node:child_process'
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { ROOT } from '@hub/local-stack'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'

let dir = ''
beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), 'hub-import-rule-'))
  copyFileSync(join(ROOT, '.oxlintrc.json'), join(dir, '.oxlintrc.json'))
})
afterAll(() => rmSync(dir, { recursive: true, force: true }))

/** Returns true if the linter, with the rules of this repository, refuses an import in a file. */
const isRefused = (file: string, specifier: string): boolean => {
  const path = join(dir, file)
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, `import { thing } from '${specifier}'\nexport const used = thing\n`)
  const { status, stdout } = spawnSync(join(ROOT, 'node_modules/.bin/oxlint'), ['--format=unix', file], {
    cwd: dir,
    encoding: 'utf8',
  })
  rmSync(path)
  const restricted = stdout.includes('no-restricted-imports')
  // Any other finding would change the exit status and make this test meaningless.
  expect(status, stdout).toBe(restricted ? 1 : 0)
  return restricted
}

describe('the import rule', () => {
  it.each([
    ['packages/domain/src/message/a.ts', '@hub/store'],
    ['packages/domain/src/message/a.ts', 'node:fs'],
    ['packages/domain/src/message/a.ts', 'effect/http'],
    ['packages/domain/src/message/a.ts', '../../../store/src/index.ts'],
    ['packages/domain/src/message/a.unit.test.ts', '@hub/testkit'],
    ['packages/client/src/a.ts', '@hub/domain'],
    ['packages/kafka/src/a.ts', '@sms-delivery-hub/cli'],
    ['apps/cli/src/a.ts', '@hub/domain'],
    ['apps/cli/src/a.ts', '@hub/hubctl'],
    ['apps/cli/src/a.ts', '../../../packages/client/src/http.ts'],
    ['packages/kafka/src/a.ts', '@hub/command-api'],
    ['packages/kafka/src/a.ts', '../../../apps/projector/src/index.ts'],
    ['packages/kafka/src/a.ts', '../../store/src/sql.ts'],
    ['packages/kafka/src/a.ts', '@hub/store/src/sql.ts'],
    ['packages/kafka/src/a.ts', '@hub/local-stack'],
    ['packages/kafka/src/a.int.test.ts', '@hub/local-stack'],
    ['packages/testkit/src/a.ts', '../../../infra/local/src/index.ts'],
    ['packages/domain/src/message/a.ts', '@hub/local-stack'],
    ['packages/domain/src/message/a.ts', 'uuid'],
    ['apps/projector/src/a.ts', '@hub/dispatcher'],
    ['apps/projector/src/a.ts', '../../dispatcher/src/index.ts'],
    ['apps/projector/src/a.ts', '@hub/kafka/src/port.ts'],
    ['test/e2e/a.ts', '../../packages/kafka/src/port.ts'],
    ['test/e2e/a.ts', '@hub/kafka/src/port.ts'],
    ['infra/local/src/a.ts', '@hub/store/src/sql.ts'],
    ['test/histories/checker/a.ts', '@hub/domain'],
    ['test/histories/checker/a.ts', '../load.ts'],
    ['test/histories/checker/a.unit.test.ts', '@hub/testkit'],
  ])('in %s refuses %s', (file, specifier) => {
    expect(isRefused(file, specifier)).toBe(true)
  })

  it.each([
    ['packages/domain/src/message/a.ts', 'effect'],
    ['packages/domain/src/message/a.ts', 'node:crypto'],
    ['packages/domain/src/message/a.ts', '../values/money.ts'],
    ['packages/domain/src/message/a.unit.test.ts', 'vitest'],
    ['packages/kafka/src/inner/a.ts', '../port.ts'],
    ['packages/kafka/src/a.ts', '@hub/domain'],
    ['apps/projector/src/a.ts', '@hub/kafka'],
    ['apps/projector/test/a.ts', '../src/index.ts'],
    ['test/e2e/a.ts', '@hub/testkit'],
    ['test/e2e/a.ts', '@hub/local-stack'],
    ['test/histories/checker/a.ts', './history.ts'],
    ['test/histories/checker/a.ts', 'node:crypto'],
  ])('in %s allows %s', (file, specifier) => {
    expect(isRefused(file, specifier)).toBe(false)
  })
})
