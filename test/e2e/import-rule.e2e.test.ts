/**
 * Runs the linter on planted imports. It must report each forbidden import and accept each allowed
 * one.
 */
import { spawnSync } from 'node:child_process'
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { ROOT } from '@hub/local-stack'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'

/** Imports, and the files that contain them. */
const REFUSED: ReadonlyArray<readonly [file: string, specifier: string]> = [
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
]
const ALLOWED: ReadonlyArray<readonly [file: string, specifier: string]> = [
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
]

let dir = ''
/** The rules that the linter reports for each import, in the order of both lists. */
let findings: ReadonlyArray<ReadonlyArray<string>> = []

beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), 'hub-import-rule-'))
  copyFileSync(join(ROOT, '.oxlintrc.json'), join(dir, '.oxlintrc.json'))
  // Each import has a file of its own, whose name begins with its number. One run lints all of them.
  const files = [...REFUSED, ...ALLOWED].map(([file, specifier], number) => {
    const path = join(dirname(file), `import-${number}-${basename(file)}`)
    mkdirSync(join(dir, dirname(file)), { recursive: true })
    writeFileSync(join(dir, path), `import { thing } from '${specifier}'\nexport const used = thing\n`)
    return path
  })
  const { stdout } = spawnSync(join(ROOT, 'node_modules/.bin/oxlint'), ['--format=json', ...files], {
    cwd: dir,
    encoding: 'utf8',
  })
  const report = JSON.parse(stdout) as {
    readonly diagnostics: ReadonlyArray<{ readonly code: string; readonly filename: string }>
    readonly number_of_files: number
  }
  expect(report.number_of_files).toBe(files.length)
  findings = files.map((path) => [
    ...new Set(report.diagnostics.filter(({ filename }) => filename === path).map(({ code }) => code)),
  ])
})
afterAll(() => rmSync(dir, { recursive: true, force: true }))

describe('the import rule', () => {
  it.each(REFUSED.map((one, number) => [...one, number] as const))(
    'in %s refuses %s',
    (_file, _specifier, number) => {
      expect(findings[number]).toEqual(['eslint(no-restricted-imports)'])
    },
  )

  it.each(ALLOWED.map((one, number) => [...one, REFUSED.length + number] as const))(
    'in %s allows %s',
    (_file, _specifier, number) => {
      expect(findings[number]).toEqual([])
    },
  )
})
