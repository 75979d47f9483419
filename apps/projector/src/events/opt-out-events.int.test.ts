/**
 * `recipient.opted_out` and `recipient.opted_in`, from the record of an opt-out to the journals of
 * the accounts that wrote to the number. Source: OPT-5, OPT-6.
 */
import { randomUUID } from 'node:crypto'
import { assert, describe, it } from '@effect/vitest'
import { decodeId, encodeId, type Mode, NEW_ID_RANDOM_BYTES, newId } from '@hub/domain'
import { CommandOptOuts, Sql } from '@hub/store'
import { Effect } from 'effect'
import { account, startProjector, until, useTestEnvironment } from '../testing/harness.ts'

const environment = await useTestEnvironment('opt_outs')

const DAY_MS = 24 * 3_600_000
let messages = 0
/** A message of an account to a recipient, `days` ago, as the projector stores it. */
const write = (owner: string, mode: Mode, recipient: string, days: number) =>
  Effect.flatMap(Sql, (sql) =>
    sql.run(async (q) => {
      const at = new Date(Date.now() - days * DAY_MS)
      const id = newId('msg', at.getTime(), new Uint8Array(NEW_ID_RANDOM_BYTES).fill(++messages))
      const uuid = decodeId('msg', id)
      const hash = Buffer.from(recipient, 'hex')
      await q`
        INSERT INTO read.messages (id, account, mode, class, recipient, template, sender, parts, price, currency, variables,
                                   created_at, updated_at, status, rank, final)
        VALUES (${uuid}, ${decodeId('acc', owner)}, ${mode}, 'service', ${hash}, 't', 'HUB', 1, 2, 'RUB', '{}', ${at}, ${at},
                'delivered', 3, true)`
      await q`INSERT INTO read.personal_data (message_id, recipient, created_at, sealed)
              VALUES (${uuid}, ${hash}, ${at}, ${hash})`
      return id
    }),
  )
const recipientOf = (n: number) => n.toString(16).padStart(64, '0')
const run = <A>(body: Parameters<Sql['Service']['run']>[0]) =>
  Effect.flatMap(Sql, (sql) => sql.run(body)) as Effect.Effect<A, unknown, Sql>

/** The events of an account, in order. */
const eventsOf = (owner: string) =>
  Effect.map(
    run<ReadonlyArray<{ id: string; mode: Mode; type: string; body: string }>>(
      (q) =>
        q`SELECT id, mode, type, body FROM read.events WHERE account = ${decodeId('acc', owner)} ORDER BY mode, sequence`,
    ),
    (rows) =>
      rows.map(({ body, mode, type }) => ({
        mode,
        type,
        object: (JSON.parse(body) as { data: { object: unknown } }).data.object,
      })),
  )
const allAnnounced = until(
  async (q) => (await q`SELECT 1 FROM command.opt_out_history WHERE announced_at IS NULL`).length === 0,
)

describe('a change of an opt-out', () => {
  // Rules: OPT-5, OPT-6
  it.live('sends one event to each account that wrote to the number in the last 90 days', () =>
    Effect.gen(function* () {
      const [recent, twoModes, old, other] = [account(1), account(2), account(3), account(4)]
      const recipient = recipientOf(1)
      yield* write(recent, 'live', recipient, 80)
      const last = yield* write(recent, 'live', recipient, 2)
      const live = yield* write(twoModes, 'live', recipient, 89)
      const test = yield* write(twoModes, 'test', recipient, 1)
      yield* write(old, 'live', recipient, 91)
      yield* write(other, 'live', recipientOf(2), 1)
      yield* startProjector(environment)
      yield* startProjector(environment)

      yield* run((q) => CommandOptOuts.insert(q, [recipient], 'operator', 'staff'))
      yield* allAnnounced
      yield* run((q) => CommandOptOuts.lift(q, recipient, 'staff'))
      yield* allAnnounced

      const eventOf = (type: string, message: string, mode: Mode = 'live') => ({
        mode,
        type,
        object: { recipient, message },
      })
      assert.deepStrictEqual(yield* eventsOf(recent), [
        eventOf('recipient.opted_out', last),
        eventOf('recipient.opted_in', last),
      ])
      assert.sameDeepMembers(yield* eventsOf(twoModes), [
        eventOf('recipient.opted_out', live),
        eventOf('recipient.opted_in', live),
        eventOf('recipient.opted_out', test, 'test'),
        eventOf('recipient.opted_in', test, 'test'),
      ])
      assert.deepStrictEqual(yield* eventsOf(old), [])
      assert.deepStrictEqual(yield* eventsOf(other), [])
    }).pipe(Effect.scoped, Effect.provide(environment.layer)),
  )

  it.live('sends its events in the order of the changes, however many there are', () =>
    Effect.gen(function* () {
      const owner = account(5)
      const recipient = recipientOf(5)
      yield* write(owner, 'live', recipient, 1)
      const changes = Array.from({ length: 250 }, (_, i) => ({
        recipient,
        change: i % 2 === 0 ? ('opted_out' as const) : ('opted_in' as const),
        at: Date.now(),
        word: 'стоп',
      }))
      yield* run((q) => CommandOptOuts.insertChanges(q, changes))
      yield* startProjector(environment)
      yield* startProjector(environment)
      yield* allAnnounced
      assert.deepStrictEqual(
        (yield* eventsOf(owner)).map(({ type }) => type),
        changes.map(({ change }) => `recipient.${change}`),
      )
    }).pipe(Effect.scoped, Effect.provide(environment.layer)),
  )

  // Rules: OPT-5
  it.live('of a number to which nobody wrote sends none', () =>
    Effect.gen(function* () {
      const recipient = recipientOf(9)
      yield* run((q) => CommandOptOuts.insert(q, [recipient], 'import', encodeId('acc', randomUUID())))
      yield* startProjector(environment)
      yield* allAnnounced
      const rows = yield* run<ReadonlyArray<unknown>>(
        (q) => q`SELECT 1 FROM read.events WHERE body LIKE ${`%${recipient}%`}`,
      )
      assert.lengthOf(rows, 0)
    }).pipe(Effect.scoped, Effect.provide(environment.layer)),
  )
})
