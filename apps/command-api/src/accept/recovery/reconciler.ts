/**
 * The reconciler: compares the ledger with the read model, and corrects what differs.
 *
 * - A `service` message that is not in Kafka and can still be sent is republished under its id.
 * - A code that is not in Kafka is refunded, and so is an expired `service` message.
 * - A refunded code that is in Kafka nevertheless (its append timed out) is charged again.
 *
 * So `spent` is: charges of the month, minus reversals, plus what is accepted and not projected
 * yet.
 *
 * The reconciler proves that a message is not in Kafka. First its outbox row is gone. Then the
 * reconciler reads where the logs of the lanes end, behind the records that are not on all replicas yet.
 * When the projector's checkpoint has passed the end of the partition and the read model still does not
 * contain the message, its record does not exist. Until then the message is only late.
 *
 * It compares the whole ledger in intervals. A code whose append has an unknown result in this
 * process is examined at once, so its charge is correct within seconds after an outage.
 *
 * Bounded: late messages in memory, and rows of a turn. Several processes may reconcile at once: each
 * change is one statement that has no effect the second time.
 */
import type { MessageClass } from '@hub/domain'
import {
  acceptedRecord,
  encodeOutboxRow,
  EventLog,
  type KafkaConnection,
  kafkaCrashPoint,
  type KafkaRequestRejected,
  type KafkaUnavailable,
  topicLogEnds,
  topicNames,
  type TopicNames,
} from '@hub/kafka'
import { Outbox } from '@hub/outbox'
import { CommandOutbox, ReadCheckpoints, Sql, storageCrashPoint, type StorageError, uuidOf } from '@hub/store'
import { Clock, Context, Duration, Effect, Layer, Schedule } from 'effect'
import { LedgerScan, LOOK_BACK_HOURS } from '../../messages/ledger-scan.ts'
import {
  chargeProjected,
  markRepublished,
  refundMissing,
  selectLate,
  selectLateAgain,
} from '../ledger/tables/acceptances-reconciliation.ts'
import { UnprovenCodes } from './unproven-codes.ts'

/** The lanes as the projector's checkpoints name them: without the prefix of the deployment. */
const LANES: Readonly<Record<MessageClass, string>> = {
  otp: topicNames().acceptedOtp,
  service: topicNames().acceptedService,
}
const EVERY_MS = 30_000
/** Interval while codes of this process have an unknown result. */
const UNPROVEN_EVERY = Duration.seconds(1)
/** Seconds. A younger message is usually still on its way to the read model. */
const LATE_AFTER_SECONDS = 60
/** Rows of one statement. */
const ROWS = 5000
/** Late messages in memory. With more, the scan of the ledger pauses until some are resolved. */
const MAX_LATE_MESSAGES = 5000
/** Messages republished in one turn: few beside what is accepted. */
const REPUBLISHED_PER_TURN = 500
/** A republished message has this time to reach the read model before it is republished again. */
const AGAIN_AFTER_MINUTES = 60
const DEADLINE = { deadline: Duration.seconds(5) }

const atLaneEndsRead = kafkaCrashPoint('command-api.lane-ends-read')
const atRepublished = storageCrashPoint('command-api.republished', (done: object | null) => done !== null)

/** The ends of the logs of the lanes, by class and partition. */
export type LaneEnds = Readonly<Record<MessageClass, ReadonlyArray<number>>>

/** Reads the ends of the lanes, for which `EventLog` has no operation. */
export class Lanes extends Context.Service<
  Lanes,
  { readonly ends: Effect.Effect<LaneEnds, KafkaUnavailable | KafkaRequestRejected> }
>()('@hub/command-api/Lanes') {
  static readonly layer = (connection: KafkaConnection, topics: TopicNames): Layer.Layer<Lanes> =>
    Layer.succeed(Lanes)({
      ends: Effect.all({
        otp: topicLogEnds(connection, topics.acceptedOtp),
        service: topicLogEnds(connection, topics.acceptedService),
      }),
    })
}

export interface ReconcilerOptions {
  readonly topics: TopicNames
  /** For tests. */
  readonly lateAfterSeconds?: number
}

/** What a turn has done, in messages. */
export interface Reconciled {
  readonly republished: number
  readonly refunded: number
  readonly charged: number
  readonly late: number
}

/**
 * Creates a reconciler. Each run of the effect is one turn. `only unproven`: without the comparison of
 * the whole ledger.
 */
export const makeReconciler = Effect.fnUntraced(function* (options: ReconcilerOptions) {
  const sql = yield* Sql
  const log = yield* EventLog
  const lanes = yield* Lanes
  const outbox = yield* Outbox
  const unprovenCodes = yield* UnprovenCodes
  const { lateAfterSeconds = LATE_AFTER_SECONDS, topics } = options

  const ledgerScan = yield* LedgerScan
  const { lateMessages } = ledgerScan
  /**
   * The late messages without an outbox row when the end offsets were read, with the times of their
   * acceptance, which a repeat changes.
   */
  let candidates: ReadonlyMap<string, string> = new Map()
  let laneEnds: LaneEnds | null = null

  /** Continues the scan of the ledger and collects late messages. */
  const scan = Effect.gen(function* () {
    while (lateMessages.size < MAX_LATE_MESSAGES) {
      const page = {
        after: ledgerScan.cursor,
        lookBackHours: LOOK_BACK_HOURS,
        lateAfterSeconds,
        limit: ROWS,
      }
      const rows = yield* sql.run((q) => selectLate(q, page), DEADLINE)
      for (const row of rows) {
        if (row.projected) continue
        const partition = log.partitionOf(row.recipient)
        lateMessages.set(row.id, { class: row.class, partition })
      }
      ledgerScan.cursor = rows.at(-1)?.id ?? ledgerScan.cursor
      if (rows.length < ROWS) return
    }
  })

  /** Removes late messages that are resolved. Returns those whose outbox row is gone, with their times. */
  const recheck = Effect.gen(function* () {
    if (lateMessages.size === 0) return new Map<string, string>()
    const rows = yield* sql.run((q) => selectLateAgain(q, [...lateMessages.keys()]), DEADLINE)
    const byId = new Map(rows.map((row) => [row.id, row]))
    for (const id of lateMessages.keys()) if (byId.get(id)?.resolved ?? true) lateMessages.delete(id)
    return new Map(
      rows.filter((row) => !row.resolved && !row.inOutbox).map(({ acceptedAt, id }) => [id, acceptedAt]),
    )
  })

  /** The candidates that are proven not to be in Kafka. */
  const findMissing = Effect.fnUntraced(function* (ends: LaneEnds) {
    const checkpoints = yield* sql.run(ReadCheckpoints.readPositions, DEADLINE)
    const positions = new Map(
      checkpoints.map(({ partition, position, topic }) => [`${topic}/${partition}`, position]),
    )
    // Read after the checkpoints: the read model contains everything that they have passed.
    const outsideOutbox = yield* recheck
    return [...candidates].filter(([id, acceptedAt]) => {
      const late = lateMessages.get(id)
      if (late === undefined || outsideOutbox.get(id) !== acceptedAt) return false
      const end = ends[late.class][late.partition] ?? Infinity
      return end === 0 || (positions.get(`${LANES[late.class]}/${late.partition}`) ?? -1) >= end
    })
  })

  /** Republishes what can still be sent, through the outbox. */
  const republish = Effect.fnUntraced(function* (ids: ReadonlyArray<string>) {
    const republishing = sql.transaction(async (q) => {
      const facts = await markRepublished(q, ids.slice(0, REPUBLISHED_PER_TURN), AGAIN_AFTER_MINUTES)
      if (facts.length === 0) return null
      const records = encodeOutboxRow(facts.map((fact) => acceptedRecord(topics, fact)))
      return { count: facts.length, outboxRow: Number(await CommandOutbox.insert(q, records)) }
    }, DEADLINE)
    const done = yield* atRepublished(republishing)
    if (done === null) return 0
    outbox.leave(done.outboxRow)
    return done.count
  })

  return Effect.fnUntraced(function* (turn: 'all' | 'only unproven') {
    const unproven = unprovenCodes.all()
    for (const { messageId, recipient } of unproven) {
      lateMessages.set(uuidOf('msg', messageId), { class: 'otp', partition: log.partitionOf(recipient) })
    }
    const charged = turn === 'all' ? yield* sql.run((q) => chargeProjected(q, LOOK_BACK_HOURS), DEADLINE) : 0
    if (turn === 'all') yield* scan
    let republished = 0
    let refunded = 0
    if (laneEnds !== null) {
      const missing = yield* findMissing(laneEnds)
      if (missing.length > 0) {
        republished = yield* republish(missing.map(([id]) => id))
        refunded = yield* sql.run((q) => refundMissing(q, missing), DEADLINE)
      }
    }
    const outsideOutbox = yield* recheck
    if (outsideOutbox.size === 0) laneEnds = null
    else {
      // Read after the outbox rows are gone: their records are below these offsets.
      laneEnds = yield* atLaneEndsRead(lanes.ends)
      candidates = outsideOutbox
    }
    unprovenCodes.remove(unproven.filter(({ messageId }) => !lateMessages.has(uuidOf('msg', messageId))))
    return { republished, refunded, charged, late: lateMessages.size } satisfies Reconciled
  }) as (
    turn: 'all' | 'only unproven',
  ) => Effect.Effect<Reconciled, StorageError | KafkaUnavailable | KafkaRequestRejected>
})

/** Reconciles until its scope closes. */
export const reconcilerLayer = (
  options: ReconcilerOptions,
): Layer.Layer<never, never, Sql | EventLog | Lanes | LedgerScan | Outbox | UnprovenCodes> =>
  Layer.effectDiscard(
    Effect.gen(function* () {
      const reconcile = yield* makeReconciler(options)
      const codes = yield* UnprovenCodes
      let nextAll = 0
      const turn = Effect.gen(function* () {
        const now = yield* Clock.currentTimeMillis
        const isAll = now >= nextAll
        if (!isAll && codes.isEmpty()) return
        // Set first: the next turn must not repeat the comparison at once after a failure.
        if (isAll) nextAll = now + EVERY_MS
        const { charged, late, refunded, republished } = yield* reconcile(isAll ? 'all' : 'only unproven')
        if (charged + refunded + republished === 0) return
        yield* Effect.annotateLogs(
          Effect.logWarning('reconciler: the ledger and the read model differed; corrected'),
          { charged, refunded, republished, suspects: late },
        )
      }).pipe(
        Effect.catchCause((cause) =>
          Effect.logWarning('reconciler: a turn failed; the next turn tries again', cause),
        ),
      )
      yield* Effect.forkScoped(Effect.repeat(turn, Schedule.spaced(UNPROVEN_EVERY)))
    }),
  )
