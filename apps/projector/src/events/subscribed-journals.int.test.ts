/**
 * Which events go to `hub.webhooks.v1`: those of accounts with a subscription, also around the
 * creation of a subscription. Source: DEL-4; docs/architecture.md, Webhooks;
 * docs/decisions/events.md#which-events-are-published.
 */
import { assert, describe, it } from '@effect/vitest'
import { decodeId, encodeId, eventIdOf, type Mode } from '@hub/domain'
import { EventLog, subscriptionChangedRecord, webhooksKey } from '@hub/kafka'
import { type Queries, Sql } from '@hub/store'
import { ANSWERED_WITHIN_MS } from '@hub/testkit'
import { Effect, Fiber } from 'effect'
import type { OwnedPartition } from '../projection/record-buffer.ts'
import { applyBatch } from '../projection/transaction.ts'
import { acquireCheckpoints } from '../tables/checkpoints.ts'
import {
  acceptanceOf,
  account,
  append,
  applied,
  deliveryOf,
  follow,
  insertSubscription,
  laneRecord,
  logRecords,
  openTransaction,
  startProjector,
  subscribe,
  until,
  useTestEnvironment,
} from '../testing/harness.ts'
import { recordingOf } from './journal.ts'
import { recordEvents } from './write-journal.ts'

const environment = await useTestEnvironment('subscribed')

interface Journal {
  readonly owner: string
  readonly mode: Mode
}

const run = <A>(body: (q: Queries) => Promise<A>) => Effect.flatMap(Sql, (sql) => sql.run(body))

/** The ids (`evt_…`) in a journal, in order. */
const recordedIn = ({ mode, owner }: Journal) =>
  run(async (q) => {
    const rows = await q<{ id: string }[]>`
      SELECT id FROM read.events WHERE account = ${decodeId('acc', owner)} AND mode = ${mode} ORDER BY sequence`
    return rows.map(({ id }) => encodeId('evt', id))
  })

/**
 * The ids of the published events of each journal. Call it when the outbox is empty: it appends a
 * record after the events of each journal, and waits until that is read.
 */
const publishedIn = Effect.fnUntraced(function* (journals: ReadonlyArray<Journal>) {
  const log = yield* EventLog
  const seen = yield* follow(`${environment.prefix}reader`, [environment.topics.webhooks])
  const ends = journals.map(({ mode, owner }, n) =>
    subscriptionChangedRecord(environment.topics, {
      type: 'SubscriptionChanged',
      account: owner,
      mode,
      subscription: encodeId('we', `0193a1b2-0000-7000-8000-${n.toString(16).padStart(12, '0')}`),
      change: 'enabled',
      at: Date.now(),
    }),
  )
  yield* log.append(ends, { deadlineMs: ANSWERED_WITHIN_MS })
  yield* until(async () => ends.every((end) => seen.some(({ id }) => id === end.id)))
  return journals.map(({ mode, owner }) => [
    ...new Set(
      seen
        .filter(({ key, type }) => type === 'EventRecorded' && key === webhooksKey(owner, mode))
        .map(({ id }) => id),
    ),
  ])
})

/** Waits until a session waits for a lock, or the work has ended without waiting. */
const waitsOrEnded = (fiber: Fiber.Fiber<unknown, unknown>) =>
  until(async (q) => {
    const waiting = await q`
      SELECT 1 FROM pg_stat_activity
       WHERE datname = current_database() AND cardinality(pg_blocking_pids(pid)) > 0`
    return waiting.length > 0 || fiber.pollUnsafe() !== undefined
  })

describe('recorded events', () => {
  it.live('are published if their account has a subscription in their mode, also a disabled one', () =>
    Effect.gen(function* () {
      const [none, enabled, disabled, deleted] = [account(1), account(2), account(3), account(4)]
      yield* subscribe(enabled)
      const { uuid: disabledUuid } = yield* subscribe(disabled)
      const { uuid: deletedUuid } = yield* subscribe(deleted)
      yield* run(
        (q) => q`
        UPDATE webhooks.endpoints SET status = 'disabled_by_failures', disabled_at = now() WHERE id = ${disabledUuid}`,
      )
      yield* run((q) => q`UPDATE webhooks.endpoints SET deleted_at = now() WHERE id = ${deletedUuid}`)
      const journals: ReadonlyArray<Journal> = [
        { owner: none, mode: 'live' },
        { owner: enabled, mode: 'live' },
        { owner: enabled, mode: 'test' },
        { owner: disabled, mode: 'live' },
        { owner: deleted, mode: 'live' },
      ]
      const facts = yield* Effect.forEach(journals, ({ mode, owner }) =>
        acceptanceOf({ account: owner, mode }),
      )
      // One event of each journal does not come from a message.
      yield* run(
        (q) => q`
        INSERT INTO command.event_inbox (id, account, mode, type, object)
        SELECT gen_random_uuid(), account, mode::command.mode, 'template.approved', '{}'::json
          FROM unnest(${journals.map(({ owner }) => decodeId('acc', owner) ?? '')}::uuid[],
                      ${journals.map(({ mode }) => mode)}::text[]) AS j (account, mode)`,
      )
      const records = facts.flatMap((fact) => [
        laneRecord(environment, fact),
        ...logRecords(environment, fact, deliveryOf(fact)),
      ])
      // Appended before the projector starts, so that one transaction contains several journals.
      const positions = yield* append(records)
      yield* startProjector(environment)
      yield* applied(environment.prefix, positions)
      yield* until(
        async (q) =>
          (await q`SELECT 1 FROM command.event_inbox UNION ALL SELECT 1 FROM read.event_outbox`).length === 0,
      )

      const recorded = yield* Effect.forEach(journals, recordedIn)
      for (const events of recorded) assert.lengthOf(events, 4)
      const sorted = (all: ReadonlyArray<ReadonlyArray<string>>) => all.map((ids) => ids.toSorted())
      const [, ofEnabled = [], , ofDisabled = []] = recorded
      assert.deepStrictEqual(
        sorted(yield* publishedIn(journals)),
        sorted([[], ofEnabled, [], ofDisabled, []]),
      )
    }).pipe(Effect.scoped, Effect.provide(environment.layer)),
  )
})

describe('a subscription that is created while an event is recorded', () => {
  // Rules: DEL-4
  it.live('gets the event: the recording waits for its creation and sees it', () =>
    Effect.gen(function* () {
      const owner = account(5)
      const fact = yield* acceptanceOf({ account: owner })
      const [checkpoint] = yield* run((q) => acquireCheckpoints(q, [{ topic: 'direct', partition: 0 }]))
      assert.isDefined(checkpoint)
      const owned: OwnedPartition = { ...checkpoint, source: 'direct', nextOffset: 0, buffered: [] }
      const create = yield* openTransaction((q) => insertSubscription(q, owner))
      const recording = yield* Effect.forkScoped(
        applyBatch(environment.topics, {
          advances: [{ owned, to: 1, fence: 0 }],
          facts: [fact],
          seals: [],
          personalData: new Map(),
          // A busy machine may miss the deadline of the transaction. A projector tries again, too.
        }).pipe(Effect.retry({ while: ({ _tag }) => _tag === 'StorageUnavailable' })),
      )
      yield* waitsOrEnded(recording)
      const { afterSequence } = yield* create
      const outcome = yield* Fiber.join(recording)
      assert.strictEqual(afterSequence, 0)
      assert.deepInclude(outcome, { kind: 'applied', events: 1 })
      assert.lengthOf((outcome.kind === 'applied' ? outcome.publication?.records : null) ?? [], 1)
    }).pipe(Effect.scoped, Effect.provide(environment.layer)),
  )

  // Rules: DEL-4
  it.live('begins after the event if the recording was first, and gets the next one', () =>
    Effect.gen(function* () {
      const sql = yield* Sql
      const owner = account(6)
      const entryOf = (subject: string) => {
        const type = 'template.approved'
        const event = { id: eventIdOf(subject, type), type, object: {} } as const
        return { account: owner, mode: 'live', event } as const
      }
      const recordFirst = yield* openTransaction((q) =>
        recordEvents(q, recordingOf(environment.topics, [entryOf('first')])),
      )
      const creating = yield* Effect.forkScoped(subscribe(owner))
      yield* waitsOrEnded(creating)
      assert.deepStrictEqual(yield* recordFirst, { events: 1, publication: null })
      assert.strictEqual((yield* Fiber.join(creating)).afterSequence, 1)
      const next = yield* sql.transaction((q) =>
        recordEvents(q, recordingOf(environment.topics, [entryOf('second')])),
      )
      assert.lengthOf(next.publication?.records ?? [], 1)
    }).pipe(Effect.scoped, Effect.provide(environment.layer)),
  )
})
