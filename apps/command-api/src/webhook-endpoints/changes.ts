/**
 * Changes of a subscription, told to the fan-out: the row and the fact are one transaction, and who changed it is answered when the
 * change is in force, or after a bound. Source: architecture, Accepting; docs/decisions/0011.
 */
import {
  encodeOutboxRow,
  EventLog,
  type OutgoingRecord,
  type Position,
  type SubscriptionChange,
  subscriptionChangedRecord,
  type TopicNames,
} from '@hub/kafka'
import { CommandOutbox, type Queries, Sql } from '@hub/store'
import { Duration, Effect, Schedule } from 'effect'
import type { Owner } from '../accounts/account.ts'

/** What publishing may take; what takes longer is published from the outbox. */
const PUBLISH_WITHIN_MS = 1000
/** For how long an answer waits for the fan-out. Longer than a batch fills, for which a position waits. */
const IN_FORCE_WITHIN = Duration.seconds(2)
const LOOK_EVERY = Duration.millis(50)
const LOOK_DEADLINE = { deadline: Duration.millis(500) }

/** A fact in the outbox of the transaction that made it. */
export interface Told {
  readonly outboxId: string
  readonly record: OutgoingRecord
}

/** Writes the fact of a change. To be called in the transaction of the change. */
export const tell = async (
  q: Queries,
  topics: TopicNames,
  owner: Owner,
  what: { readonly subscription: string; readonly change: SubscriptionChange; readonly at: number },
): Promise<Told> => {
  const { account, mode } = owner
  const record = subscriptionChangedRecord(topics, { type: 'SubscriptionChanged', account, mode, ...what })
  return { outboxId: await CommandOutbox.insert(q, encodeOutboxRow([record])), record }
}

/** True once the fan-out has read on behind a record. */
const isPassed = (sql: Sql['Service'], { offset, partition }: Position) =>
  sql.run(async (q) => {
    const [row] = await q<{ passed: boolean }[]>`
      SELECT position > ${offset} AS passed FROM webhooks.positions WHERE partition = ${partition}`
    // Nobody has ever read this partition; whoever will begins with what is in the database now.
    return row?.passed ?? true
  }, LOOK_DEADLINE)

/**
 * Publishes a fact whose transaction has been committed, and waits until it is in force, for so long as a client can be
 * kept waiting. Never fails: what is not published here is published from the outbox, in a few seconds or when Kafka is back.
 */
export const makeInForce = Effect.gen(function* () {
  const sql = yield* Sql
  const log = yield* EventLog
  return Effect.fnUntraced(
    function* ({ outboxId, record }: Told) {
      const [landed] = yield* log.append([record], { deadlineMs: PUBLISH_WITHIN_MS })
      yield* sql.run((q) => q`DELETE FROM command.outbox WHERE id = ${outboxId}`, LOOK_DEADLINE)
      if (landed === undefined) return
      yield* Effect.repeat(isPassed(sql, landed), {
        until: (passed) => passed,
        schedule: Schedule.spaced(LOOK_EVERY),
      }).pipe(Effect.timeoutOption(IN_FORCE_WITHIN))
    },
    Effect.catch((error) =>
      Effect.logWarning('a change of a subscription will be in force a little later').pipe(
        Effect.annotateLogs({ error: error._tag, ...('detail' in error ? { detail: error.detail } : {}) }),
      ),
    ),
  )
})
