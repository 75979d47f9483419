/**
 * The reconciler: compares the ledger with the read model, and corrects what differs.
 *
 * - A `service` message that is not in Kafka and can still be sent is republished under its id.
 * - A message that is not in Kafka and has expired is refunded.
 * - A refunded code that is in Kafka nevertheless (its append timed out) is charged again.
 *
 * So `spent` is: charges of the month, minus reversals, plus what is accepted and not projected
 * yet.
 *
 * The reconciler proves that a message is not in Kafka. First its outbox row is gone. Then the
 * reconciler reads the end offsets of the lanes. When the projector's checkpoint has passed the end
 * offset of the partition and the read model still does not contain the message, its record does
 * not exist. Until then the message is only late.
 *
 * Bounded: suspects in memory, and rows of a turn. Several processes may reconcile at once: each
 * change is one statement that has no effect the second time.
 */
import type { MessageClass } from '@hub/domain'
import {
  acceptedRecord,
  encodeOutboxRow,
  EventLog,
  type KafkaConnection,
  type KafkaRequestRejected,
  type KafkaUnavailable,
  topicEndOffsets,
  topicNames,
  type TopicNames,
} from '@hub/kafka'
import { CommandOutbox, ReadCheckpoints, Sql, type StorageError } from '@hub/store'
import { Context, Duration, Effect, Layer, Schedule } from 'effect'
import { OutboxMode } from './outbox-mode.ts'
import {
  chargeProjected,
  markRepublished,
  refundExpired,
  selectLate,
  selectSuspects,
} from './tables/acceptances-reconciliation.ts'

/** The lanes as the projector's checkpoints name them: without the prefix of the deployment. */
const LANES: Readonly<Record<MessageClass, string>> = {
  otp: topicNames().acceptedOtp,
  service: topicNames().acceptedService,
}
const EVERY = Duration.seconds(30)
/** Seconds. A younger message is usually still on its way to the read model. */
const LATE_AFTER_SECONDS = 60
/** How far back a process looks at its start: the longest lifetime, and an hour. */
const LOOK_BACK_HOURS = 25
/** Rows of one statement. */
const ROWS = 5000
/** Suspects in memory. With more, the scan of the ledger pauses until some are resolved. */
const MAX_SUSPECTS = 5000
/** Messages republished in one turn: few beside what is accepted. */
const REPUBLISHED_PER_TURN = 500
/** A republished message has this time to reach the read model before it is republished again. */
const AGAIN_AFTER_MINUTES = 60
const DEADLINE = { deadline: Duration.seconds(5) }

/** The end offsets of the lanes, by class and partition. */
export type LaneEnds = Readonly<Record<MessageClass, ReadonlyArray<number>>>

/** Reads the end offsets of the lanes, for which `EventLog` has no operation. */
export class Lanes extends Context.Service<
  Lanes,
  { readonly ends: Effect.Effect<LaneEnds, KafkaUnavailable | KafkaRequestRejected> }
>()('@hub/command-api/Lanes') {
  static readonly layer = (connection: KafkaConnection, topics: TopicNames): Layer.Layer<Lanes> =>
    Layer.succeed(Lanes)({
      ends: Effect.all({
        otp: topicEndOffsets(connection, topics.acceptedOtp),
        service: topicEndOffsets(connection, topics.acceptedService),
      }),
    })
}

/** A late message that the read model does not contain. */
interface Suspect {
  readonly class: MessageClass
  readonly partition: number
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
  readonly suspects: number
}

/** Creates a reconciler. Each run of the effect is one turn. */
export const makeReconciler = Effect.fnUntraced(function* (options: ReconcilerOptions) {
  const sql = yield* Sql
  const log = yield* EventLog
  const lanes = yield* Lanes
  const outboxMode = yield* OutboxMode
  const { lateAfterSeconds = LATE_AFTER_SECONDS, topics } = options

  /** The last acceptance (UUID) that was scanned. */
  let scanCursor: string | null = null
  /** By UUID of the message. */
  const suspects = new Map<string, Suspect>()
  /** The suspects without an outbox row when the end offsets were read. */
  let candidates: ReadonlySet<string> = new Set()
  let laneEnds: LaneEnds | null = null

  /** Continues the scan of the ledger and collects suspects. */
  const scan = Effect.gen(function* () {
    while (suspects.size < MAX_SUSPECTS) {
      const page = {
        after: scanCursor,
        lookBackHours: LOOK_BACK_HOURS,
        lateAfterSeconds,
        limit: ROWS,
      }
      const rows = yield* sql.run((q) => selectLate(q, page), DEADLINE)
      for (const row of rows) {
        if (row.projected) continue
        suspects.set(row.id, { class: row.class, partition: log.partitionOf(row.recipient) })
      }
      scanCursor = rows.at(-1)?.id ?? scanCursor
      if (rows.length < ROWS) return
    }
  })

  /** Removes suspects that are resolved. Returns those whose outbox row is gone. */
  const recheck = Effect.gen(function* () {
    if (suspects.size === 0) return new Set<string>()
    const rows = yield* sql.run((q) => selectSuspects(q, [...suspects.keys()]), DEADLINE)
    const byId = new Map(rows.map((row) => [row.id, row]))
    for (const id of suspects.keys()) if (byId.get(id)?.resolved ?? true) suspects.delete(id)
    return new Set(rows.filter((row) => !row.resolved && !row.inOutbox).map((row) => row.id))
  })

  /** The candidates that are proven not to be in Kafka. */
  const findMissing = Effect.fnUntraced(function* (ends: LaneEnds) {
    const checkpoints = yield* sql.run(ReadCheckpoints.readPositions, DEADLINE)
    const positions = new Map(
      checkpoints.map(({ partition, position, topic }) => [`${topic}/${partition}`, position]),
    )
    // Read after the checkpoints: the read model contains everything that they have passed.
    const outsideOutbox = yield* recheck
    return [...candidates].filter((id) => {
      const suspect = suspects.get(id)
      if (suspect === undefined || !outsideOutbox.has(id)) return false
      const end = ends[suspect.class][suspect.partition] ?? Infinity
      return end === 0 || (positions.get(`${LANES[suspect.class]}/${suspect.partition}`) ?? -1) >= end
    })
  })

  /** Republishes what can still be sent, through the outbox. */
  const republish = Effect.fnUntraced(function* (ids: ReadonlyArray<string>) {
    const done = yield* sql.transaction(async (q) => {
      const facts = await markRepublished(q, ids.slice(0, REPUBLISHED_PER_TURN), AGAIN_AFTER_MINUTES)
      if (facts.length === 0) return null
      const records = encodeOutboxRow(facts.map((fact) => acceptedRecord(topics, fact)))
      return { count: facts.length, outboxRow: Number(await CommandOutbox.insert(q, records)) }
    }, DEADLINE)
    if (done === null) return 0
    outboxMode.leaveToRelay(done.outboxRow)
    return done.count
  })

  return Effect.gen(function* () {
    const charged = yield* sql.run((q) => chargeProjected(q, LOOK_BACK_HOURS), DEADLINE)
    yield* scan
    let republished = 0
    let refunded = 0
    if (laneEnds !== null) {
      const missing = yield* findMissing(laneEnds)
      if (missing.length > 0) {
        republished = yield* republish(missing)
        refunded = yield* sql.run((q) => refundExpired(q, missing), DEADLINE)
      }
    }
    const outsideOutbox = yield* recheck
    if (outsideOutbox.size === 0) laneEnds = null
    else {
      // Read after the outbox rows are gone: their records are below these offsets.
      laneEnds = yield* lanes.ends
      candidates = outsideOutbox
    }
    return { republished, refunded, charged, suspects: suspects.size } satisfies Reconciled
  }) as Effect.Effect<Reconciled, StorageError | KafkaUnavailable | KafkaRequestRejected>
})

/** Reconciles until its scope closes. */
export const reconcilerLayer = (
  options: ReconcilerOptions,
): Layer.Layer<never, never, Sql | EventLog | Lanes | OutboxMode> =>
  Layer.effectDiscard(
    Effect.gen(function* () {
      const reconcile = yield* makeReconciler(options)
      const turn = reconcile.pipe(
        Effect.flatMap(({ charged, refunded, republished, suspects }) =>
          charged + refunded + republished === 0
            ? Effect.void
            : Effect.annotateLogs(
                Effect.logWarning('reconciler: the ledger and the read model differed; corrected'),
                { charged, refunded, republished, suspects },
              ),
        ),
        Effect.catchCause((cause) =>
          Effect.logWarning('reconciler: a turn failed; the next turn tries again', cause),
        ),
      )
      yield* Effect.forkScoped(Effect.repeat(turn, Schedule.spaced(EVERY)))
    }),
  )
