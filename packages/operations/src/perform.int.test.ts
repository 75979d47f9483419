/** Permissions and the audit trail over PostgreSQL: what `perform` lets through, and what it records. */
import { DEADLINE_OF_STAFF, makeSql, Sql } from '@hub/store'
import { ConfigProvider, Effect, Layer, ManagedRuntime, Redacted, Schema } from 'effect'
import { afterAll, assert, beforeAll, describe, it } from 'vitest'
import { type Actor, actorId } from './actor.ts'
import { refused } from './failures.ts'
import { perform } from './perform.ts'
import { makeTestDatabase, type TestDatabase } from './testing/test-database.ts'
import { defineUseCase, type UseCase } from './use-case.ts'

let database: TestDatabase
beforeAll(async () => {
  database = await makeTestDatabase()
})
afterAll(() => database.remove())

const OPERATOR: Actor = {
  id: 'https://id.example|anna',
  name: 'anna',
  roles: ['viewer', 'operator'],
  via: 'api',
}

const rows = (command: string | null = null, actor: string | null = null) =>
  database.auditRows(command, actor)

const Name = Schema.Struct({ name: Schema.String })

/** A use case that changes something; `work` is what it does. */
const changes = <E = never>(name: string, work: Effect.Effect<string, E, Sql> = Effect.succeed('thing_1')) =>
  defineUseCase({
    name,
    permission: 'accounts.change',
    input: Name,
    output: Schema.String,
    audit: (input) => ({ name: input.name }),
    result: (id) => ({ id }),
    run: () => work,
  })

const run = <Output, E>(
  useCase: UseCase<{ readonly name: string }, Output, E, Sql>,
  name = 'a',
  actor: Actor = OPERATOR,
) => database.runtime.runPromise(Effect.result(perform(actor, useCase, { name })))

describe('perform', () => {
  it('records who did what in which role, with the outcome', async () => {
    const made = await run(changes('things make'))
    assert.deepInclude(made, { _tag: 'Success', success: 'thing_1' })
    const [row] = await rows('things make')
    assert.deepInclude(row, {
      actor: 'anna',
      role: 'operator',
      reason: null,
      arguments: { name: 'a' },
      outcome: 'done',
      detail: { id: 'thing_1' },
    })
    assert.isNotNull(row?.ended_at)
  })

  it('runs nothing without the permission, and records one attempt for each person and hour', async () => {
    let done = false
    const useCase = changes(
      'attempts make',
      Effect.sync(() => {
        done = true
        return 'thing'
      }),
    )
    const as = (name: string): Actor => ({
      ...OPERATOR,
      id: actorId('https://id.example', name),
      name,
      roles: ['viewer', 'support', 'moderator'],
    })
    for (const name of ['boris', 'boris', 'clara +79001234567']) {
      const exit = await run(useCase, '+79001234567', as(name))
      assert.include(exit._tag === 'Failure' ? exit.failure : {}, {
        _tag: 'Forbidden',
        permission: 'accounts.change',
      })
    }
    assert.isFalse(done)
    const attempts = await rows('attempts make')
    assert.deepStrictEqual(
      attempts.map(({ actor }) => actor.slice(0, 5)),
      ['clara', 'boris'],
    )
    for (const attempt of attempts) {
      assert.notInclude(JSON.stringify(attempt), '+79001234567')
      assert.deepInclude(attempt, {
        role: null,
        outcome: 'failed',
        arguments: { permission: 'accounts.change' },
        detail: { code: 'forbidden' },
      })
    }
    const read = { ...useCase, name: 'things show', audit: null }
    await run(read, 'a', as('boris'))
    assert.deepStrictEqual(await rows('things show'), [])
  })

  it('records a failure with its code', async () => {
    await run(changes('things break', Effect.fail(refused('too_hard', 'It is hard.'))))
    const [row] = await rows('things break')
    assert.deepInclude(row, { outcome: 'failed', detail: { code: 'too_hard' } })
  })

  it('shows a running operation as begun, and finds operations by their group', async () => {
    const seen = changes(
      'things watch',
      Effect.map(
        Effect.promise(() => rows('things')),
        (found) => found.map(({ command, outcome }) => `${command}: ${outcome}`).join(', '),
      ),
    )
    const exit = await run(seen)
    assert.strictEqual(
      exit._tag === 'Success' ? exit.success : '',
      'things watch: begun, things break: failed, things make: done',
    )
  })

  it('runs nothing if the row would contain a phone number', async () => {
    let done = false
    const useCase = changes(
      'things call',
      Effect.sync(() => {
        done = true
        return 'thing'
      }),
    )
    const exit = await run(useCase, '+79001234567')
    assert.include(exit._tag === 'Failure' ? exit.failure : {}, {
      _tag: 'OperationRefused',
      code: 'number_in_audit',
    })
    assert.isFalse(done)
  })

  it('sends PostgreSQL no row with a phone number, because it would write the row to its log', async () => {
    await run(changes('things number'), 'a')
    await run(changes('things number'), '+79001234567')
    await run(changes('things number'), 'b')
    const [last, first] = await rows('things number')
    // Also a refused row takes a place.
    assert.strictEqual(last!.place - first!.place, 2)
  })

  it('records no read that concerns no person', async () => {
    const useCase = { ...changes('things list'), audit: null }
    assert.strictEqual((await run(useCase))._tag, 'Success')
    assert.deepStrictEqual(await rows('things list'), [])
  })

  it('refuses a wrong input without a row', async () => {
    const useCase = { ...changes('things set'), check: () => 'No thing is given.' }
    const exit = await run(useCase)
    assert.include(exit._tag === 'Failure' ? exit.failure : {}, {
      code: 'input_invalid',
      message: 'No thing is given.',
    })
    assert.deepStrictEqual(await rows('things set'), [])
  })

  it('requires a reason of who reveals personal data through the API, and records it', async () => {
    const reveals = (reason: string | null) => ({ ...changes('things reveal'), reason: () => reason })
    const without = await run(reveals(null))
    assert.include(without._tag === 'Failure' ? without.failure : {}, {
      code: 'reason_required',
      param: 'reason',
    })
    assert.deepStrictEqual(await rows('things reveal'), [])
    assert.strictEqual((await run(reveals('Ticket 4711')))._tag, 'Success')
    const fromHubctl: Actor = { id: 'hubctl|cron', name: 'cron', roles: ['admin'], via: 'hubctl' }
    assert.strictEqual((await run(reveals(null), 'a', fromHubctl))._tag, 'Success')
    assert.deepStrictEqual(
      (await rows('things reveal')).map(({ actor, reason, role }) => [actor, role, reason]),
      [
        ['cron', 'admin', null],
        ['anna', 'operator', 'Ticket 4711'],
      ],
    )
    for (const reason of ['Asked by +79001234567', 'Asked by 8 (900) 123-45-67']) {
      for (const actor of [undefined, fromHubctl]) {
        const withNumber = await run(reveals(reason), 'a', actor)
        assert.include(withNumber._tag === 'Failure' ? withNumber.failure : {}, { code: 'number_in_audit' })
      }
    }
  })
})

describe('the audit trail', () => {
  it('refuses to change or delete rows', async () => {
    const before = await rows()
    for (const attempt of [
      'UPDATE command.audit SET actor = $$nobody$$',
      'DELETE FROM command.audit',
      'TRUNCATE command.audit',
    ]) {
      const error = await database.runtime.runPromise(
        Effect.flip(Effect.flatMap(Sql, (sql) => sql.run((q) => q.unsafe(attempt)))),
      )
      assert.include(error, { detail: '42501' }, attempt)
    }
    assert.deepStrictEqual(await rows(), before)
  })

  it('finds rows by actor', async () => {
    assert.deepStrictEqual(await rows(null, 'nobody we know'), [])
    assert.isNotEmpty(await rows(null, 'anna'))
  })
})

describe('the limit of look-ups', () => {
  const LIMIT = 5
  let hub: TestDatabase
  /** Another process of the same hub: own connections to the same database. */
  let other: ManagedRuntime.ManagedRuntime<Sql, unknown>
  beforeAll(async () => {
    const settings = { HUB_LOOKUPS_PER_HOUR: String(LIMIT) }
    hub = await makeTestDatabase(settings)
    other = ManagedRuntime.make(
      Layer.merge(
        Layer.effect(Sql, makeSql(Redacted.make(hub.url), 3, 'operations-test', DEADLINE_OF_STAFF)),
        ConfigProvider.layer(ConfigProvider.fromUnknown(settings)),
      ),
    )
  })
  afterAll(async () => {
    await other.dispose()
    await hub.remove()
  })

  let done = 0
  const lookUp = defineUseCase({
    name: 'people look-up',
    permission: 'accounts.change',
    input: Name,
    output: Schema.String,
    audit: (input) => ({ name: input.name }),
    counts: ({ name }) => name !== 'free',
    run: () => Effect.sync(() => String((done += 1))),
  })
  const actor = (name: string, more: object = {}): Actor => ({
    ...OPERATOR,
    id: `https://id.example|${name}`,
    name,
    ...more,
  })
  const failures = async (as: Actor, name: string, times: number) => {
    const outcomes = await Promise.all(
      Array.from({ length: times }, (_, index) =>
        (index % 2 === 0 ? hub.runtime : other).runPromise(Effect.result(perform(as, lookUp, { name }))),
      ),
    )
    return outcomes.flatMap((outcome) => (outcome._tag === 'Failure' ? [outcome.failure] : []))
  }

  it('holds for one person over all processes, at the same time', async () => {
    done = 0
    const refusals = await failures(actor('lena'), 'x', 4 * LIMIT)
    assert.strictEqual(done, LIMIT)
    assert.strictEqual(refusals.length, 3 * LIMIT)
    for (const refusal of refusals) {
      assert.deepInclude(refusal, { _tag: 'LookupLimitReached', limit: LIMIT })
      const { retryAfterSeconds } = refusal as { readonly retryAfterSeconds: number }
      // An hour after the first look-up.
      assert.isTrue(retryAfterSeconds > 3500 && retryAfterSeconds <= 3600, String(retryAfterSeconds))
    }
    const refusedLines = async () =>
      (await hub.auditRows('people look-up', 'lena')).filter(({ outcome }) => outcome === 'failed')
    const before = await refusedLines()
    assert.isNotEmpty(before)
    for (const { detail } of before) assert.deepEqual(detail, { code: 'lookup_limit_reached' })
    // Later attempts of the hour fill no table.
    await failures(actor('lena'), 'x', 2)
    assert.strictEqual((await refusedLines()).length, before.length)
  })

  it('is of the person, not of the name, and does not count what is no look-up', async () => {
    assert.strictEqual((await failures(actor('lena', { name: 'Lena P.' }), 'x', 1)).length, 1)
    const namesake = actor('other lena', { name: 'lena' })
    assert.deepStrictEqual(await failures(namesake, 'x', LIMIT), [])
    assert.deepStrictEqual(await failures(actor('lena'), 'free', 2 * LIMIT), [])
  })

  it('is over an hour later', async () => {
    await hub.sql`ALTER TABLE command.audit DISABLE TRIGGER audit_is_kept`
    await hub.sql`UPDATE command.audit SET at = at - interval '1 hour' WHERE actor_id = 'https://id.example|lena'`
    assert.deepStrictEqual(await failures(actor('lena'), 'x', LIMIT), [])
  })

  it('is not for the command line, which has the keys of the hub', async () => {
    const cron = actor('cron', { id: 'hubctl|cron', roles: ['admin'], via: 'hubctl' })
    assert.deepStrictEqual(await failures(cron, 'x', 2 * LIMIT), [])
  })

  it('refuses without PostgreSQL, because nothing counts then', async () => {
    const broken = ManagedRuntime.make(
      Layer.merge(
        Layer.effect(Sql, makeSql(Redacted.make('postgres://hub@127.0.0.1:1/none'), 1, 'operations-test')),
        ConfigProvider.layer(ConfigProvider.fromUnknown({})),
      ),
    )
    done = 0
    const outcome = await broken.runPromise(Effect.result(perform(actor('mia'), lookUp, { name: 'x' })))
    await broken.dispose()
    assert.strictEqual(outcome._tag, 'Failure')
    assert.strictEqual(done, 0)
  })
})
