/** The audit trail over PostgreSQL: its rows, and their protection against changes. */
import { makeSql, Sql } from '@hub/store'
import { freshDatabase, type FreshDatabase } from '@hub/testkit'
import { Effect, Layer, ManagedRuntime, Redacted } from 'effect'
import { afterAll, assert, beforeAll, describe, it } from 'vitest'
import { audited } from './audit-trail.ts'
import { refused } from '../command-line/failure.ts'
import { runHubctl } from '../testing/run-hubctl.ts'

let database: FreshDatabase
let runtime: ManagedRuntime.ManagedRuntime<Sql, never>

beforeAll(async () => {
  database = await freshDatabase()
  runtime = ManagedRuntime.make(Layer.effect(Sql, makeSql(Redacted.make(database.url), 2, 'hubctl-test')))
})

afterAll(async () => {
  await runtime.dispose()
  await database.drop()
})

const environment = (more: Readonly<Record<string, string>> = {}) => ({
  HUB_DATABASE_URL: database.url,
  ...more,
})

const lines = async (...more: ReadonlyArray<string>) => {
  const ran = await runHubctl(environment(), ['audit', 'list', '--json', ...more])
  assert.strictEqual(ran.code, 0, ran.err)
  return ran.json<{ readonly data: ReadonlyArray<Readonly<Record<string, unknown>>> }>().data
}

describe('the audit trail', () => {
  it('records a command with its outcome', async () => {
    const made = await runtime.runPromise(
      audited({ command: 'things make', arguments: { name: 'a' } }, Effect.succeed('thing_1'), (id) => ({
        id,
      })),
    )
    assert.strictEqual(made, 'thing_1')
    const [line] = await lines('--command', 'things make')
    assert.include(line, { command: 'things make', outcome: 'done' })
    assert.deepStrictEqual(line?.['arguments'], { name: 'a' })
    assert.deepStrictEqual(line?.['detail'], { id: 'thing_1' })
    assert.isNotNull(line?.['ended_at'])
  })

  it('records a failure with its code', async () => {
    await runtime.runPromise(
      Effect.flip(
        audited({ command: 'things break', arguments: {} }, Effect.fail(refused('too_hard', 'It is hard.'))),
      ),
    )
    const [line] = await lines('--command', 'things break')
    assert.strictEqual(line?.['outcome'], 'failed')
    assert.deepStrictEqual(line?.['detail'], { code: 'too_hard' })
  })

  it('shows a running command as begun, and finds commands by their group', async () => {
    const seen = await runtime.runPromise(
      audited(
        { command: 'things watch', arguments: {} },
        Effect.promise(() => lines('--command', 'things')),
      ),
    )
    assert.deepStrictEqual(
      seen.map((line) => [line['command'], line['outcome']]),
      [
        ['things watch', 'begun'],
        ['things break', 'failed'],
        ['things make', 'done'],
      ],
    )
  })

  it('runs nothing if the row would contain a phone number', async () => {
    let done = false
    const error = await runtime.runPromise(
      Effect.flip(
        audited(
          { command: 'things call', arguments: { number: '+79001234567' } },
          Effect.sync(() => (done = true)),
        ),
      ),
    )
    assert.strictEqual(error._tag, 'StorageRejected')
    assert.isFalse(done)
  })

  it('refuses to change or delete rows', async () => {
    const sql = await runtime.runPromise(Sql)
    const before = await lines()
    for (const attempt of [
      'UPDATE command.audit SET actor = $$nobody$$',
      'DELETE FROM command.audit',
      'TRUNCATE command.audit',
    ]) {
      const error = await runtime.runPromise(Effect.flip(sql.run((q) => q.unsafe(attempt))))
      assert.include(error, { detail: '42501' }, attempt)
    }
    assert.deepStrictEqual(await lines(), before)
  })

  it('finds rows by actor', async () => {
    assert.deepStrictEqual(await lines('--actor', 'nobody we know'), [])
    const table = await runHubctl(environment(), ['audit', 'list', '--limit', '1'])
    assert.match(table.out, /^AT +ACTOR +COMMAND +ARGUMENTS +OUTCOME +DETAIL\n\d{4}-/u)
    assert.match(table.err, /^hubctl: the hub at /u)
  })
})
