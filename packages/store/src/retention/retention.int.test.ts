/**
 * Simulates four years: for each row of the table in docs/security.md, the data exists one day before
 * the limit and is removed after it.
 */
import { createSecretKey, randomBytes, randomUUID } from 'node:crypto'
import { assert, describe, it } from '@effect/vitest'
import { layerSimulatedPayloadKeys } from '@hub/kafka/testing'
import { freshDatabase } from '@hub/testkit'
import { ConfigProvider, Effect, Layer, Logger, Redacted } from 'effect'
import { TestClock } from 'effect/testing'
import { readInboundMessages, storedInboundContext } from '../inbound-messages.ts'
import { encodePayload } from '../message-payload.ts'
import { PayloadEncryption } from '../payload-encryption.ts'
import { makeSql, type Queries, Sql, StorageRejected } from '../sql.ts'
import { encryptWithKey } from '../aes-gcm.ts'
import { MasterKeyEncryption } from '../master-key-encryption.ts'
import { type Job, runEnded } from './job.ts'
import { RETENTION_JOBS } from './jobs.ts'
import { registerRetentionJobs, runRetentionStep } from './runner.ts'

/** A separate database for each test, because each test moves the time. */
const layer = Layer.unwrap(
  Effect.gen(function* () {
    const { url } = yield* Effect.acquireRelease(
      Effect.promise(() => freshDatabase()),
      ({ drop }) => Effect.promise(drop),
    )
    return PayloadEncryption.layer.pipe(
      Layer.provideMerge(
        Layer.mergeAll(
          Layer.effect(Sql, makeSql(Redacted.make(url), 4, 'retention-test')),
          MasterKeyEncryption.layer.pipe(
            Layer.provide(
              ConfigProvider.layer(
                ConfigProvider.fromUnknown({ HUB_MASTER_KEY: randomBytes(32).toString('base64') }),
              ),
            ),
          ),
          layerSimulatedPayloadKeys,
          Logger.layer([]),
        ),
      ),
    )
  }),
)

const HOUR = 3_600_000
const DAY = 24 * HOUR
/** Later than the partitions of the migrations, so that the jobs create the months. */
const START = Date.UTC(2031, 11, 15, 10)
const after = (years: number, ms = 0) => {
  const date = new Date(START)
  return date.setUTCFullYear(date.getUTCFullYear() + years) + ms
}

/** A UUIDv7 with a timestamp. */
const idAt = (at: number): string => {
  const time = at.toString(16).padStart(12, '0')
  const random = randomBytes(9).toString('hex')
  return `${time.slice(0, 8)}-${time.slice(8)}-7${random.slice(0, 3)}-8${random.slice(3, 6)}-${random.slice(6)}`
}

const run = <A>(body: (q: Queries) => Promise<A>) => Effect.flatMap(Sql, (sql) => sql.run(body))
const count = (table: string, where = 'true') =>
  Effect.map(
    run((q) =>
      q.unsafe<{ count: number }[]>(`SELECT count(*)::integer AS count FROM ${table} WHERE ${where}`),
    ),
    ([row]) => row?.count ?? -1,
  )

/**
 * Sets the time and runs every job that is due to its end. Returns the jobs that removed something.
 */
const live = Effect.fnUntraced(function* (at: number, jobs: ReadonlyArray<Job> = RETENTION_JOBS) {
  yield* TestClock.setTime(at)
  yield* registerRetentionJobs(jobs)
  const removed = new Map<string, number>()
  for (;;) {
    const outcome = yield* runRetentionStep(jobs)
    if (outcome.type === 'idle') {
      const [waiting] = yield* run(
        (q) => q`SELECT 1 FROM command.retention_jobs WHERE started_at IS NOT NULL`,
      )
      if (waiting === undefined) return removed
    }
    if (outcome.type === 'failed') return yield* Effect.die(outcome.error)
    if (outcome.type === 'step') removed.set(outcome.job, (removed.get(outcome.job) ?? 0) + outcome.removed)
    yield* TestClock.adjust('20 millis')
  }
})

const account = randomUUID()

interface Made {
  readonly id: string
  readonly ref: string
}
/** Inserts the rows of a message that is accepted and projected. */
const message = Effect.fnUntraced(function* (at: number, options: { readonly ref?: string } = {}) {
  const id = idAt(at)
  const ref = options.ref ?? `ref-${id}`
  const moment = new Date(at)
  yield* run(async (q) => {
    await q`INSERT INTO command.client_refs VALUES (${account}, 'live', ${ref}, ${id}, ${moment})`
    await q`
      INSERT INTO read.messages (id, account, mode, class, recipient, client_ref, created_at, updated_at, status, rank, final,
                                 final_at)
      VALUES (${id}, ${account}, 'live', 'service', ${Buffer.alloc(32, 7)}, ${ref}, ${moment}, ${moment}, 'delivered', 3, true,
              ${moment})`
    await q`INSERT INTO read.earlier_history VALUES (${id}, ${randomUUID()}, 'sent', NULL, ${moment})`
  })
  return { id, ref } satisfies Made
})

describe('retention', () => {
  // Rules: RET-1
  it.effect('makes numbers and texts unreadable after one year, to the day', () =>
    Effect.gen(function* () {
      yield* live(START)
      const payloadEncryption = yield* PayloadEncryption
      const id = idAt(START)
      const key = yield* payloadEncryption.keyOfDay(START)
      if (key === null) return assert.fail('the day is not a year ago')
      const sealed = key.encrypt(id, Buffer.from('+79001234567'))
      yield* run(
        (q) => q`
          INSERT INTO read.personal_data (message_id, recipient, created_at, sealing_key, sealed)
          VALUES (${id}, ${Buffer.alloc(32, 7)}, ${new Date(START)}, ${key.id}, ${sealed})`,
      )
      yield* live(after(1, -DAY))
      assert.strictEqual((yield* payloadEncryption.decrypt(key.id, id, sealed))?.toString(), '+79001234567')
      yield* live(after(1, DAY))
      assert.strictEqual(yield* count('command.sealing_keys', `id = '${key.id}'`), 0)
      assert.isNull(yield* payloadEncryption.decrypt(key.id, id, sealed))
      // The unreadable rows are removed with their month.
      yield* live(after(1, 62 * DAY))
      assert.strictEqual(yield* count('read.personal_data'), 0)
      assert.deepStrictEqual(yield* run((q) => q`SELECT to_regclass('read.personal_data_203112') AS table`), [
        { table: null },
      ] as never)
    }).pipe(Effect.provide(layer)),
  )

  it.effect('drops messages, their history and their references after three years', () =>
    Effect.gen(function* () {
      yield* live(START)
      // A month that an earlier version has made.
      const [low, high] = [idAt(Date.UTC(2031, 11)), idAt(Date.UTC(2032, 0))]
      yield* run((q) =>
        q.unsafe(`CREATE TABLE read.message_history_203112 PARTITION OF read.earlier_history
                    FOR VALUES FROM ('${low}') TO ('${high}')`),
      )
      const old = yield* message(START)
      const again = yield* message(START + 1)
      yield* live(after(2))
      const young = yield* message(after(2))
      // A reference that another message uses now stays.
      yield* run(
        (q) => q`UPDATE command.client_refs SET message_id = ${young.id} WHERE client_ref = ${again.ref}`,
      )
      yield* run(async (q) => {
        const month = new Date(START)
        await q`INSERT INTO read.charges VALUES (${old.id}, 'charge', ${account}, ${month}, 2, 'RUB', ${month})`
        await q`INSERT INTO read.daily_stats VALUES (${month}, ${account}, 'live', 'service', 't', 'RUB', 1, 1, 1, 0, 0, 0, 1, 2)`
        await q`INSERT INTO command.opt_outs VALUES (${Buffer.alloc(32, 7)}, 'inbound', ${month})`
      })

      yield* live(after(3, -DAY))
      assert.strictEqual(yield* count('read.messages'), 3)
      assert.strictEqual(yield* count('command.client_refs'), 3)

      const removed = yield* live(after(3, 62 * DAY))
      assert.isAbove(removed.get('messages') ?? 0, 0)
      assert.deepStrictEqual(yield* run((q) => q`SELECT id FROM read.messages`), [{ id: young.id }] as never)
      assert.strictEqual(yield* count('read.earlier_history'), 1)
      assert.deepStrictEqual(
        (yield* run((q) => q<{ client_ref: string }[]>`SELECT client_ref FROM command.client_refs`))
          .map((row) => row.client_ref)
          .toSorted(),
        [again.ref, young.ref].toSorted(),
      )
      for (const table of ['read.charges', 'read.daily_stats', 'command.opt_outs']) {
        assert.strictEqual(yield* count(table), 1, `${table} is kept for good`)
      }
    }).pipe(Effect.provide(layer)),
  )

  it.effect('deletes rows of the default partition, too', () =>
    Effect.gen(function* () {
      // Its month has no partition.
      yield* TestClock.setTime(START)
      yield* message(START)
      assert.strictEqual(yield* count('read.messages_default'), 1)
      yield* live(after(3, 62 * DAY))
      for (const table of ['read.messages', 'read.earlier_history', 'command.client_refs']) {
        assert.strictEqual(yield* count(table), 0, table)
      }
    }).pipe(Effect.provide(layer)),
  )

  it.effect('deletes batches after three years', () =>
    Effect.gen(function* () {
      yield* live(START)
      const insert = (at: number) =>
        run(async (q) => {
          const id = idAt(at)
          await q`INSERT INTO command.batches (id, account, mode, total, created_at) VALUES (${id}, ${account}, 'live', 1, ${new Date(at)})`
          await q`INSERT INTO read.batches (id, account, mode) VALUES (${id}, ${account}, 'live')`
        })
      yield* insert(START)
      yield* insert(START + 2 * DAY)
      yield* live(after(3, -DAY))
      assert.strictEqual(yield* count('read.batches'), 2)
      yield* live(after(3, DAY))
      assert.strictEqual(yield* count('read.batches'), 1)
      assert.strictEqual(yield* count('command.batches'), 1)
    }).pipe(Effect.provide(layer)),
  )

  it.effect('deletes hourly statistics after three years', () =>
    Effect.gen(function* () {
      yield* live(START)
      yield* run(async (q) => {
        for (const hour of [new Date(START), new Date(after(1))]) {
          await q`
            INSERT INTO read.hourly_stats VALUES (${hour}, ${account}, 'live', '', 'RUB', 1, 1, 1, 0, 0, 0, 1, 2)`
          await q`
            INSERT INTO read.range_stats
            VALUES (${hour}, ${account}, 'live', 'otp', '912', '', 'RUB', 1, 1, 1, 0, 0, 0, 1, 2)`
        }
      })
      yield* live(after(3, -DAY))
      assert.strictEqual(yield* count('read.hourly_stats'), 2)
      const removed = yield* live(after(3, DAY))
      assert.strictEqual(removed.get('hourly_stats'), 2)
      assert.strictEqual(yield* count('read.hourly_stats'), 1)
      assert.strictEqual(yield* count('read.range_stats'), 1)
    }).pipe(Effect.provide(layer)),
  )

  it.effect('removes the client address of a key a year after its last use', () =>
    Effect.gen(function* () {
      yield* live(START)
      const ids = [randomUUID(), randomUUID()]
      yield* run(async (q) => {
        await q`INSERT INTO command.accounts (id, name) VALUES (${account}, 'Shop')`
        for (const [index, id] of ids.entries()) {
          await q`
            INSERT INTO command.api_keys (id, account, mode, hash, last_four, last_used_at, last_used_from)
            VALUES (${id}, ${account}, 'test', decode(md5(${id}), 'hex'), 'abcd', ${new Date(START + index * 2 * DAY)},
                    '192.0.2.7')`
        }
      })
      const origins = run(
        (q) => q<{ last_used_from: string | null }[]>`
          SELECT host(last_used_from) AS last_used_from FROM command.api_keys
           WHERE id = ANY (${ids}::uuid[]) ORDER BY last_used_at`,
      ).pipe(Effect.map((rows) => rows.map((row) => row.last_used_from)))
      yield* live(after(1, -DAY))
      assert.deepStrictEqual(yield* origins, ['192.0.2.7', '192.0.2.7'])
      const removed = yield* live(after(1, DAY))
      assert.strictEqual(removed.get('client_addresses'), 1)
      assert.deepStrictEqual(yield* origins, [null, '192.0.2.7'])
    }).pipe(Effect.provide(layer)),
  )

  it.effect('drops months of the event journal after three years, without a change of sequence numbers', () =>
    Effect.gen(function* () {
      yield* live(START)
      const record = (sequence: number, at: number) =>
        run(
          (q) => q`INSERT INTO read.events VALUES
            (${account}, 'live', ${sequence}, ${randomUUID()}, 'message.sent', ${new Date(at)}, '{}')`,
        )
      yield* run((q) => q`INSERT INTO read.event_heads VALUES (${account}, 'live', 2, ${new Date(START)})`)
      yield* record(1, START)
      yield* record(2, START + 20 * DAY)
      yield* live(after(3, -DAY))
      assert.strictEqual(yield* count('read.events'), 2)
      yield* live(after(3, 17 * DAY))
      assert.deepStrictEqual(yield* run((q) => q`SELECT sequence FROM read.events`), [
        { sequence: '2' },
      ] as never)
      assert.strictEqual(yield* count('read.event_heads', 'sequence = 2'), 1)
    }).pipe(Effect.provide(layer)),
  )

  it.effect('drops the log of deliveries after three years, and no waiting delivery', () =>
    Effect.gen(function* () {
      yield* live(START)
      const subscriptionId = randomUUID()
      const [ended, waiting] = [randomUUID(), randomUUID()]
      yield* run(async (q) => {
        await q`INSERT INTO command.accounts (id, name) VALUES (${account}, 'Shop')`
        await q`
          INSERT INTO webhooks.endpoints (id, account, mode, url, secret)
          VALUES (${subscriptionId}, ${account}, 'live', 'https://example.com', ''::bytea)`
        await q`
          INSERT INTO webhooks.batches
            (id, endpoint_id, partition, first_sequence, event_count, body, queued_at, scheduled_at, next_attempt_at)
          VALUES (${waiting}, ${subscriptionId}, 0, 1, 1, '[]', ${new Date(START)}, ${new Date(START)}, ${new Date(START)})`
        for (const batch of [ended, waiting]) {
          await q`
            INSERT INTO webhooks.batch_events (endpoint_id, event_id, batch_id, position)
            VALUES (${subscriptionId}, ${randomUUID()}, ${batch}, 0)`
          await q`
            INSERT INTO webhooks.attempts (id, endpoint_id, batch_id, attempt, status, duration_ms, created_at)
            VALUES (${idAt(START)}, ${subscriptionId}, ${batch}, 1, 'failed', 5, ${new Date(START)})`
        }
      })
      yield* live(after(3, -DAY))
      assert.strictEqual(yield* count('webhooks.attempts'), 2)
      assert.strictEqual(yield* count('webhooks.batch_events'), 2)
      yield* live(after(3, 17 * DAY))
      assert.strictEqual(yield* count('webhooks.attempts'), 0)
      assert.deepStrictEqual(yield* run((q) => q`SELECT id FROM webhooks.batches`), [
        { id: waiting },
      ] as never)
      assert.deepStrictEqual(yield* run((q) => q`SELECT batch_id FROM webhooks.batch_events`), [
        { batch_id: waiting },
      ] as never)
      assert.strictEqual(yield* count('webhooks.endpoints'), 1)
    }).pipe(Effect.provide(layer)),
  )

  it.effect('keeps raw reports and operator ids for ninety days', () =>
    Effect.gen(function* () {
      yield* live(START)
      const payloadEncryption = yield* PayloadEncryption
      const [key] = yield* payloadEncryption.recipientShareKeys
      if (key === undefined) return assert.fail('there are keys')
      const sealed = key.encrypt('report', Buffer.from('stat:DELIVRD'))
      yield* run(
        (q) => q`INSERT INTO read.operator_ids VALUES ('smpp', 'op-1', ${idAt(START)}, ${new Date(START)})`,
      )
      yield* live(START + 89 * DAY)
      assert.strictEqual(
        (yield* payloadEncryption.decrypt(key.id, 'report', sealed))?.toString(),
        'stat:DELIVRD',
      )
      assert.strictEqual(yield* count('read.operator_ids'), 1)
      yield* live(START + 91 * DAY)
      assert.isNull(yield* payloadEncryption.decrypt(key.id, 'report', sealed))
      assert.strictEqual(yield* count('command.sealing_keys', `class = 'report'`), 0)
      yield* live(START + 121 * DAY)
      assert.strictEqual(yield* count('read.operator_ids'), 0)
    }).pipe(Effect.provide(layer)),
  )

  it.effect('shows inbound messages for 90 days, masks them for a year, and keeps the record for three', () =>
    Effect.gen(function* () {
      yield* live(START)
      const payloadEncryption = yield* PayloadEncryption
      const id = idAt(START)
      const key = yield* payloadEncryption.keyOfDay(START)
      if (key === null) return assert.fail('the day is not a year ago')
      const sealed = key.encrypt(
        storedInboundContext(id),
        encodePayload({ to: '+79001234567', text: 'Перезвоните мне' }),
      )
      yield* run(
        (q) => q`
          INSERT INTO command.inbound_messages
            (id, recipient, operator, service_address, received_at, sealing_key, sealed)
          VALUES (${id}, ${Buffer.alloc(32, 7)}, 'smpp', 'HUB', ${new Date(START)}, ${key.id}, ${sealed})`,
      )
      const shown = Effect.map(readInboundMessages(null, 10), (messages) =>
        messages.map(({ isMasked, number, text }) => ({ isMasked, number, text })),
      )
      yield* live(START + 89 * DAY)
      const readable = { isMasked: false, number: '+79001234567', text: 'Перезвоните мне' }
      assert.deepStrictEqual(yield* shown, [readable])
      yield* live(START + 91 * DAY)
      assert.deepStrictEqual(yield* shown, [{ isMasked: true, number: '+7900***4567', text: '***' }])
      yield* live(after(1, DAY))
      assert.deepStrictEqual(yield* shown, [{ isMasked: false, number: '', text: null }])
      assert.strictEqual(yield* count('command.inbound_messages', 'sealed IS NOT NULL'), 0)
      yield* live(after(3, -DAY))
      assert.strictEqual(yield* count('command.inbound_messages'), 1)
      yield* live(after(3, DAY))
      assert.strictEqual(yield* count('command.inbound_messages'), 0)
    }).pipe(Effect.provide(layer)),
  )

  it.effect('deletes the message keys of a version before 0.4.0 on time, and reads them until then', () =>
    Effect.gen(function* () {
      yield* live(START)
      const payloadEncryption = yield* PayloadEncryption
      const masterKey = yield* MasterKeyEncryption
      const id = 'service-2031-11-21T12:00Z'
      const secret = randomBytes(32)
      const [wrapped] = yield* masterKey.wrap('sealing-key', [{ aad: id, bytes: secret }])
      yield* run(
        (q) => q`
          INSERT INTO command.sealing_keys (id, class, wrapped, usable_until, destroy_after)
          VALUES (${id}, 'service', ${wrapped!},
                  ${new Date(START + HOUR)}, ${new Date(START + 49 * HOUR)})`,
      )
      const sealed = encryptWithKey(createSecretKey(secret), 'msg_a', Buffer.from('payload'))
      yield* live(START + 49 * HOUR - 60_000)
      assert.strictEqual((yield* payloadEncryption.decrypt(id, 'msg_a', sealed))?.toString(), 'payload')
      yield* live(START + 49 * HOUR)
      assert.isNull(yield* payloadEncryption.decrypt(id, 'msg_a', sealed))
      assert.strictEqual(yield* count('command.sealing_keys'), 0)
    }).pipe(Effect.provide(layer)),
  )

  // Rules: IDEM-11
  it.effect('deletes idempotency keys after one day', () =>
    Effect.gen(function* () {
      yield* live(START)
      yield* run(
        (q) => q`
          INSERT INTO command.idempotency_keys (account, mode, key, fingerprint, expires_at)
          SELECT ${account}::uuid, 'live', n::text, ''::bytea, ${new Date(START + DAY)}::timestamptz FROM generate_series(1, 5000) AS n`,
      )
      yield* live(START + DAY - 60_000)
      assert.strictEqual(yield* count('command.idempotency_keys'), 5000)
      const removed = yield* live(START + DAY + 60_000)
      assert.strictEqual(removed.get('idempotency_keys'), 5000)
      assert.strictEqual(yield* count('command.idempotency_keys'), 0)
    }).pipe(Effect.provide(layer)),
  )

  it.effect('drops a day of the ledger when it is projected, and deletes references of refunded codes', () =>
    Effect.gen(function* () {
      yield* live(START)
      const accept = Effect.fnUntraced(function* (
        at: number,
        how: { projected: boolean; givenBack: boolean },
      ) {
        const made = how.projected ? yield* message(at) : { id: idAt(at), ref: `ref-${randomUUID()}` }
        yield* run(async (q) => {
          if (!how.projected) {
            await q`INSERT INTO command.client_refs VALUES (${account}, 'live', ${made.ref}, ${made.id}, ${new Date(at)})`
          }
          await q`
            INSERT INTO command.acceptances (message_id, account, mode, class, recipient, to_masked, template, sender, client_ref,
                                             parts, price, currency, variables, created_at, expires_at, given_back)
            VALUES (${made.id}, ${account}, 'live', 'otp', ${Buffer.alloc(32, 7)}, '+7900***4567', 't', 's', ${made.ref}, 1, 2,
                    'RUB', '{}', ${new Date(at)}, ${new Date(at + HOUR)}, ${how.givenBack})`
        })
        return made
      })
      yield* run(
        (q) => q`
          SELECT command.attach_range('command.acceptances', 'acceptances_20311215',
                                      command.uuid_floor('2031-12-15T00:00Z')::text, command.uuid_floor('2031-12-16T00:00Z')::text)`,
      )
      const projected = yield* accept(START, { projected: true, givenBack: false })
      const undone = yield* accept(START + 1, { projected: false, givenBack: true })
      yield* live(START + 3 * DAY)
      assert.strictEqual(yield* count('command.acceptances'), 2)
      yield* live(START + 6 * DAY)
      assert.strictEqual(yield* count('command.acceptances'), 0)
      assert.strictEqual(yield* count('pg_class', `relname = 'acceptances_20311215'`), 0)
      assert.strictEqual(yield* count('command.client_refs', `client_ref = '${projected.ref}'`), 1)
      assert.strictEqual(yield* count('command.client_refs', `client_ref = '${undone.ref}'`), 0)

      // The projector lags far behind: the day waits, and reports the reason.
      const later = START + 10 * DAY
      yield* live(later)
      yield* accept(later, { projected: false, givenBack: false })
      yield* live(later + 6 * DAY)
      assert.strictEqual(yield* count('command.acceptances'), 1)
      assert.strictEqual(yield* count('command.retention_jobs', `held = 'not_projected'`), 1)
      yield* live(later + 34 * DAY)
      assert.strictEqual(yield* count('command.acceptances'), 0)
      assert.strictEqual(yield* count('command.retention_jobs', 'held IS NOT NULL'), 0)
    }).pipe(Effect.provide(layer)),
  )

  it.effect('creates partitions of the next months, and moves rows of the default partition there', () =>
    Effect.gen(function* () {
      yield* TestClock.setTime(START)
      const early = yield* message(START)
      yield* live(START)
      assert.strictEqual(yield* count('read.messages_default'), 0)
      assert.strictEqual(yield* count('read.messages_203112', `id = '${early.id}'`), 1)
      for (const month of ['203201', '203202']) yield* count(`read.messages_${month}`)
    }).pipe(Effect.provide(layer)),
  )
})

describe('the runner', () => {
  const jobOf = (step: Job['step'], jobName = 'test', everyMs = HOUR): Job => ({
    name: jobName,
    everyMs,
    step,
  })
  const stateOf = Effect.map(
    run((q) => q<Record<string, unknown>[]>`SELECT * FROM command.retention_jobs WHERE job = 'test'`),
    ([row]) => row,
  )

  it.effect('continues at the end of the last step, in any process', () =>
    Effect.gen(function* () {
      const positions: Array<string | null> = []
      const job = jobOf(async (_q, _now, position) => {
        positions.push(position)
        return positions.length === 3 ? runEnded(1) : { removed: 10, position: `at ${positions.length}` }
      })
      yield* TestClock.setTime(START)
      yield* registerRetentionJobs([job])
      yield* runRetentionStep([job])
      const halfway = yield* stateOf
      assert.deepInclude(halfway, { position: 'at 1', removed: '10', last_finished_at: null })
      assert.deepStrictEqual(yield* runRetentionStep([job]), { type: 'idle' }, 'the pause after a step')
      const removed = yield* live(START + 1000, [job])
      assert.strictEqual(removed.get('test'), 11)
      assert.deepStrictEqual(positions, [null, 'at 1', 'at 2'])
      const ended = yield* stateOf
      assert.deepInclude(ended, { position: null, started_at: null, last_removed: '21', last_steps: 3 })
      assert.deepStrictEqual(ended?.['last_started_at'], new Date(START))
      assert.deepStrictEqual(yield* runRetentionStep([job]), { type: 'idle' })
    }).pipe(Effect.provide(layer)),
  )

  it.effect('rolls back a failed step, reports it and retries later; other jobs continue', () =>
    Effect.gen(function* () {
      let broken = true
      const job = jobOf(async (q) => {
        await q`DELETE FROM command.hub_settings`
        if (broken) await q`SELECT 1 / 0`
        return runEnded(1)
      })
      const other = jobOf(async () => runEnded(5), 'other')
      yield* TestClock.setTime(START)
      yield* registerRetentionJobs([job, other])
      const outcomes = [yield* runRetentionStep([job, other]), yield* runRetentionStep([job, other])]
      assert.deepStrictEqual(outcomes.map(({ type }) => type).toSorted(), ['failed', 'step'])
      const failed = outcomes.find((one) => one.type === 'failed')
      assert.instanceOf(failed?.error, StorageRejected)
      assert.strictEqual(yield* count('command.hub_settings'), 1)
      assert.deepInclude(yield* stateOf, { failures: 1, failure: '22012', last_finished_at: null })
      assert.deepStrictEqual(yield* runRetentionStep([job]), { type: 'idle' }, 'not before the pause ends')
      broken = false
      yield* live(START + 60_000, [job])
      assert.strictEqual(yield* count('command.hub_settings'), 0)
      assert.deepInclude(yield* stateOf, { failures: 0, failure: null, last_removed: '1' })
    }).pipe(Effect.provide(layer)),
  )

  it.effect('executes one step of a job at a time', () =>
    Effect.gen(function* () {
      let inside = 0
      let most = 0
      let steps = 0
      const job = jobOf(async (q) => {
        inside++
        most = Math.max(most, inside)
        await q`SELECT pg_sleep(0.02)`
        inside--
        return ++steps < 10 ? { removed: 1, position: 'on' } : runEnded()
      })
      yield* TestClock.setTime(START)
      yield* registerRetentionJobs([job])
      const runner = Effect.gen(function* () {
        while (steps < 10) {
          yield* runRetentionStep([job])
          yield* TestClock.adjust('20 millis')
          yield* Effect.promise(() => new Promise((resolve) => setImmediate(resolve)))
        }
      })
      yield* Effect.all([runner, runner, runner], { concurrency: 3 })
      assert.strictEqual(most, 1)
      assert.strictEqual(steps, 10)
    }).pipe(Effect.provide(layer)),
  )
})
