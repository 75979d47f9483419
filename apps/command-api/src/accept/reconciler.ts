/**
 * The reconciler: compares the ledger with the read model, and mends what does not agree.
 *
 * - A `service` message that never landed and can still be sent is published again, under its id, marked.
 * - What never landed and can no longer be sent is given back: nobody is to pay for it.
 * - A code that was given back and landed all the same (its publication had timed out) is charged after all.
 *
 * So an account's `spent` comes to: charges minus reversals of the month, plus what is accepted and still under way.
 *
 * That a message did *not* land is shown, not guessed: its outbox row is gone, then the ends of the lanes are read, and the projector's
 * checkpoint has passed the end of its partition while the read model still has no such message. Before that it is merely late.
 *
 * Everything is bounded: suspects in memory, rows of a turn. Several processes may do this at once: each change is made
 * by one statement that finds it undone.
 */
import { encodeId, type MessageAccepted, type MessageClass, type Mode, republish } from '@hub/domain'
import {
  acceptedRecord,
  type KafkaUnavailable,
  encodeOutboxRow,
  EventLog,
  type KafkaConnection,
  topicEndOffsets,
  topicNames,
  type TopicNames,
  type KafkaRequestRejected,
} from '@hub/kafka'
import { ReadCheckpoints, Sql, type StorageError } from '@hub/store'
import { Context, Duration, Effect, Layer, Schedule } from 'effect'
import { OutboxMode } from './outbox-mode.ts'

/** The lanes as its checkpoints name them: without the deployment's prefix. */
const LANES: Readonly<Record<MessageClass, string>> = {
  otp: topicNames().acceptedOtp,
  service: topicNames().acceptedService,
}
const EVERY = Duration.seconds(30)
/** A message this young is on its way as a rule, seconds. */
const LATE_AFTER_SECONDS = 60
/** How far back a process looks when it starts: the longest lifetime before hand-over, and an hour. */
const LOOK_BACK_HOURS = 25
/** Rows compared in one statement. */
const ROWS = 5000
/** Suspects in memory; with more, the look at the ledger waits until some are cleared. */
const MAX_SUSPECTS = 5000
/** Messages published again in one turn: a trickle beside what is accepted. */
const REPUBLISHED_A_TURN = 500
/** How long a message that was published again is given to land before it is published once more. */
const AGAIN_AFTER_MINUTES = 60
const DEADLINE = { deadline: Duration.seconds(5) }

/** The ends of the lanes, by class and partition. */
export type LaneEnds = Readonly<Record<MessageClass, ReadonlyArray<number>>>

/** Where the lanes end; a port, because the event log itself has no such question. */
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

interface Suspect {
  /** UUID. */
  readonly id: string
  readonly class: MessageClass
  readonly partition: number
}

interface SuspectRow {
  readonly id: string
  readonly class: MessageClass
  readonly recipient: string
  /** Or given up. */
  readonly landed: boolean
  readonly in_outbox: boolean
}

interface AcceptanceRow {
  readonly id: string
  readonly account: string
  readonly mode: Mode
  readonly class: MessageClass
  readonly recipient: string
  readonly template: string
  readonly sender: string
  readonly client_ref: string | null
  readonly batch_id: string | null
  readonly parts: number
  readonly price: string
  readonly currency: string
  readonly variables: ReadonlyArray<string>
  readonly created_at: Date
  readonly expires_at: Date
  readonly sealing_key: string
  readonly sealed: Buffer
}

const factOf = (row: AcceptanceRow): MessageAccepted =>
  republish({
    type: 'MessageAccepted',
    messageId: encodeId('msg', row.id),
    at: row.created_at.getTime(),
    account: encodeId('acc', row.account),
    mode: row.mode,
    class: row.class,
    recipient: row.recipient,
    template: row.template,
    sender: row.sender,
    clientRef: row.client_ref,
    batch: row.batch_id === null ? null : encodeId('bat', row.batch_id),
    parts: row.parts,
    price: { amount: row.price, currency: row.currency },
    variables: row.variables,
    expiresAt: row.expires_at.getTime(),
    sealingKey: row.sealing_key,
    sealed: row.sealed,
    republished: false,
  })

export interface ReconcilerOptions {
  readonly topics: TopicNames
  /** For tests. */
  readonly lateAfterSeconds?: number
}

/** What a turn has done, in messages. */
export interface Reconciled {
  readonly republished: number
  readonly givenBack: number
  readonly charged: number
  readonly suspects: number
}

/** A reconciler; each run of the effect is one turn. */
export const makeReconciler = Effect.fnUntraced(function* (options: ReconcilerOptions) {
  const sql = yield* Sql
  const log = yield* EventLog
  const lanes = yield* Lanes
  const outboxMode = yield* OutboxMode
  const { lateAfterSeconds = LATE_AFTER_SECONDS, topics } = options

  let cursor: string | null = null
  const suspects = new Map<string, Suspect>()
  /** Suspects whose outbox rows were gone when the fence was read. */
  let fenced: ReadonlySet<string> = new Set()
  /** Where the lanes ended then. */
  let fence: LaneEnds | null = null

  /** Walks on through the ledger; whatever is late and not in the read model is a suspect. */
  const look = Effect.gen(function* () {
    while (suspects.size < MAX_SUSPECTS) {
      const rows: ReadonlyArray<SuspectRow> = yield* sql.run(
        (q) => q<SuspectRow[]>`
          SELECT a.message_id AS id, a.class, encode(a.recipient, 'hex') AS recipient, m.account IS NOT NULL AS landed,
                 false AS in_outbox
            FROM (SELECT message_id, class, recipient FROM command.acceptances
                   WHERE message_id > coalesce(${cursor}::uuid,
                                               command.uuid_floor(now() - make_interval(hours => ${LOOK_BACK_HOURS})))
                     AND message_id < command.uuid_floor(now() - make_interval(secs => ${lateAfterSeconds}))
                   ORDER BY message_id LIMIT ${ROWS}) AS a
            LEFT JOIN LATERAL (SELECT account FROM read.messages WHERE id = a.message_id LIMIT 1) AS m ON true
           ORDER BY a.message_id`,
        DEADLINE,
      )
      for (const row of rows) {
        if (row.landed) continue
        suspects.set(row.id, { id: row.id, class: row.class, partition: log.partitionOf(row.recipient) })
      }
      cursor = rows.at(-1)?.id ?? cursor
      if (rows.length < ROWS) return
    }
  })

  /** Clears those that landed meanwhile; answers those whose records have left the outbox. */
  const ask = Effect.gen(function* () {
    if (suspects.size === 0) return new Set<string>()
    const rows = yield* sql.run(
      (q) => q<SuspectRow[]>`
        SELECT a.message_id AS id, a.class, '' AS recipient,
               m.account IS NOT NULL OR (a.given_back AND a.expires_at < now()) AS landed,
               coalesce((SELECT min(o.created_at) FROM command.outbox o) < greatest(a.created_at, a.republished_at)
                                                                          + interval '1 minute', false) AS in_outbox
          FROM command.acceptances a
          LEFT JOIN LATERAL (SELECT account FROM read.messages WHERE id = a.message_id LIMIT 1) AS m ON true
         WHERE a.message_id = ANY (${[...suspects.keys()]}::uuid[])`,
      DEADLINE,
    )
    const there = new Map(rows.map((row) => [row.id, row]))
    for (const id of suspects.keys()) {
      const row = there.get(id)
      if (row === undefined || row.landed) suspects.delete(id)
    }
    return new Set(rows.filter((row) => !row.landed && !row.in_outbox).map((row) => row.id))
  })

  /** Those that the projector has shown not to have landed: it is past the fence, and still does not know them. */
  const shown = Effect.fnUntraced(function* (ends: LaneEnds) {
    const rows = yield* sql.run(ReadCheckpoints.readPositions, DEADLINE)
    const positions = new Map(
      rows.map(({ partition, position, topic }) => [`${topic}/${partition}`, position]),
    )
    // Asked after the checkpoint: what it has passed is in the read model by now.
    const gone = yield* ask
    return [...fenced].filter((id) => {
      const suspect = suspects.get(id)
      if (suspect === undefined || !gone.has(id)) return false
      const end = ends[suspect.class][suspect.partition] ?? Infinity
      return end === 0 || (positions.get(`${LANES[suspect.class]}/${suspect.partition}`) ?? -1) >= end
    })
  })

  /** Publishes again what can still be sent, through the outbox. */
  const publishAgain = Effect.fnUntraced(function* (ids: ReadonlyArray<string>) {
    const done = yield* sql.transaction(async (q) => {
      const rows = await q<AcceptanceRow[]>`
        UPDATE command.acceptances a SET republished_at = clock_timestamp()
         WHERE a.message_id = ANY (${ids.slice(0, REPUBLISHED_A_TURN)}::uuid[])
           AND a.class = 'service' AND a.sealed IS NOT NULL AND NOT a.given_back AND a.expires_at > now()
           -- Another process may have done it since, or it lands and cannot be read: not time and again.
           AND (a.republished_at IS NULL OR a.republished_at < now() - make_interval(mins => ${AGAIN_AFTER_MINUTES}))
           AND NOT coalesce((SELECT m.account IS NOT NULL FROM read.messages m WHERE m.id = a.message_id), false)
        RETURNING a.message_id AS id, a.account, a.mode, a.class, encode(a.recipient, 'hex') AS recipient, a.template, a.sender,
                  a.client_ref, a.batch_id, a.parts, a.price, a.currency, a.variables, a.created_at, a.expires_at,
                  a.sealing_key, a.sealed`
      if (rows.length === 0) return null
      const records = rows
        .toSorted((a, b) => (a.id < b.id ? -1 : 1))
        .map((row) => acceptedRecord(topics, factOf(row)))
      const [outbox] = await q<{ id: string }[]>`
        INSERT INTO command.outbox (records) VALUES (${encodeOutboxRow(records)}) RETURNING id`
      return { count: rows.length, outboxRow: Number(outbox?.id) }
    }, DEADLINE)
    if (done === null) return 0
    outboxMode.leaveToRelay(done.outboxRow)
    return done.count
  })

  /** Gives back what can no longer be sent. */
  const giveUp = (ids: ReadonlyArray<string>) =>
    sql.run(async (q) => {
      const rows = await q`
        WITH undone AS (
          UPDATE command.acceptances a SET given_back = true
           WHERE a.message_id = ANY (${[...ids]}::uuid[]) AND NOT a.given_back AND a.expires_at < now()
             AND NOT coalesce((SELECT m.account IS NOT NULL FROM read.messages m WHERE m.id = a.message_id), false)
          RETURNING a.message_id, a.account, a.mode, a.created_at, a.price),
        months AS (
          SELECT account, date_trunc('month', created_at AT TIME ZONE 'UTC')::date AS period, sum(price) AS amount
            FROM undone WHERE mode = 'live' GROUP BY 1, 2),
        lowered AS (
          UPDATE command.spend_periods p SET spent = p.spent - months.amount
            FROM months WHERE p.account = months.account AND p.period = months.period)
        SELECT message_id FROM undone`
      return rows.length
    }, DEADLINE)

  /** Charges codes that were given back and landed all the same. */
  const chargeAfterAll = sql.run(async (q) => {
    const rows = await q`
      WITH landed AS (
        UPDATE command.acceptances a SET given_back = false
         WHERE a.given_back AND a.message_id > command.uuid_floor(now() - make_interval(hours => ${LOOK_BACK_HOURS}))
           AND coalesce((SELECT m.account IS NOT NULL FROM read.messages m WHERE m.id = a.message_id), false)
        RETURNING a.message_id, a.account, a.mode, a.created_at, a.price),
      months AS (
        SELECT account, date_trunc('month', created_at AT TIME ZONE 'UTC')::date AS period, sum(price) AS amount
          FROM landed WHERE mode = 'live' GROUP BY 1, 2),
      raised AS (
        INSERT INTO command.spend_periods AS p (account, period, spent)
        SELECT account, period, amount FROM months ORDER BY account, period
        ON CONFLICT (account, period) DO UPDATE SET spent = p.spent + excluded.spent)
      SELECT message_id FROM landed`
    return rows.length
  }, DEADLINE)

  return Effect.gen(function* () {
    const charged = yield* chargeAfterAll
    yield* look
    let republished = 0
    let givenBack = 0
    if (fence !== null) {
      const lost = yield* shown(fence)
      if (lost.length > 0) {
        republished = yield* publishAgain(lost)
        givenBack = yield* giveUp(lost)
      }
    }
    const gone = yield* ask
    if (gone.size === 0) fence = null
    else {
      // After the rows are gone: what was in them lies before these ends.
      fence = yield* lanes.ends
      fenced = gone
    }
    return { republished, givenBack, charged, suspects: suspects.size } satisfies Reconciled
  }) as Effect.Effect<Reconciled, StorageError | KafkaUnavailable | KafkaRequestRejected>
})

/** Runs until its scope closes. */
export const reconcilerLayer = (
  options: ReconcilerOptions,
): Layer.Layer<never, never, Sql | EventLog | Lanes | OutboxMode> =>
  Layer.effectDiscard(
    Effect.gen(function* () {
      const turn = yield* makeReconciler(options)
      const loop = turn.pipe(
        Effect.flatMap(({ charged, givenBack, republished, suspects }) =>
          charged + givenBack + republished === 0
            ? Effect.void
            : Effect.annotateLogs(Effect.logWarning('the ledger and the read model did not agree'), {
                charged,
                given_back: givenBack,
                republished,
                suspects,
              }),
        ),
        Effect.catchCause((cause) => Effect.logWarning('the ledger could not be reconciled', cause)),
      )
      yield* Effect.forkScoped(Effect.repeat(loop, Schedule.spaced(EVERY)))
    }),
  )
