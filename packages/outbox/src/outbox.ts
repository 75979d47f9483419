/**
 * An outbox of a process. A transaction writes records into a row of the table, together with the change
 * that they describe. After the commit, the process appends them to Kafka itself (`appending`) and the row
 * is deleted. When an append fails, its rows are left to the relay, which appends rows in their order.
 *
 * From the first row that is left to the relay until it has appended all of these rows, the process leaves
 * its later rows to the relay as well (`isRelaying`). So the records of a key reach Kafka in the order of
 * the rows of this process, and only repeats of earlier records can follow later ones. Readers drop repeats
 * by id.
 */
import { makeWakeSignal } from '@hub/flow'
import type { KafkaUnavailable, OutgoingRecord } from '@hub/kafka'
import type { StorageError } from '@hub/store'
import { Cause, Clock, Context, Effect, Layer } from 'effect'
import { OutboxStore, type OutboxStatus } from './store.port.ts'

/** How long appended rows wait for their deletion. It costs the same for one row as for many. */
const DELETE_AFTER_MS = 500
/** While rows are too young, another process relays, or a server is down. */
const PAUSE_MS = 250
/** Records of one append of the relay: the event log sends as many in one produce. */
const APPEND_RECORDS = 2000
/** How long the end of the process waits for the deletion of appended rows. */
const END_WITHIN_MS = 1500

interface OutboxOptions {
  /** The table, for logs. */
  readonly table: string
  /** Appends the records of rows that were left to the relay. */
  readonly append: (records: ReadonlyArray<OutgoingRecord>) => Effect.Effect<unknown, KafkaUnavailable>
  /** A living process has appended and deleted its row before it is so old. Then any process relays it. */
  readonly abandonedAfterMs: number
  /**
   * The rows that were left are relayed at once, together with all rows before them. Another process may
   * be appending some of these itself: then they are repeated. False: only abandoned rows are relayed.
   */
  readonly relaysAtOnce: boolean
  /** How often a process that left no row looks for abandoned ones. */
  readonly lookEveryMs: number
  /** Observes the table after each look. */
  readonly onStatus: (status: OutboxStatus) => Effect.Effect<void>
}

/** The rows that the relay must append before others: up to this one; `null`: all that exist. */
interface Left {
  readonly upTo: number | null
}

/** Creates an outbox. Its relay runs until the scope closes. */
export const makeOutbox = Effect.fnUntraced(function* (options: OutboxOptions) {
  const { abandonedAfterMs, lookEveryMs, onStatus, relaysAtOnce, table } = options
  const store = yield* OutboxStore
  const clock = yield* Clock.Clock
  const now = () => clock.currentTimeMillisUnsafe()
  const signal = makeWakeSignal()
  /** `null`: the process appends its rows itself. The rows of earlier processes are relayed first. */
  let left: Left | null = { upTo: null }
  let appended: Array<number> = []
  /** When the oldest of them is to be deleted, and when to look for abandoned rows. */
  let deleteAt = Infinity
  let lookAt = 0

  const addAppended = (rows: ReadonlyArray<number>): void => {
    if (rows.length === 0) return
    if (appended.length === 0) {
      deleteAt = now() + DELETE_AFTER_MS
      signal.notify()
    }
    appended.push(...rows)
  }

  const takeAppended = (): ReadonlyArray<number> => {
    const taken = appended
    appended = []
    deleteAt = Infinity
    return taken
  }

  const deleteAppended = Effect.suspend(() => {
    const rows = takeAppended()
    if (rows.length === 0) return Effect.void
    return store
      .remove(rows)
      .pipe(
        Effect.catch((error) =>
          Effect.logWarning('outbox: appended rows were not deleted; the relay appends them again').pipe(
            Effect.annotateLogs({ table, rows: rows.length, error: error._tag }),
          ),
        ),
      )
  })

  /** Leaves a row to the relay; `null`: rows that exist, and whose ids the process does not know. */
  const leave = (row: number | null): void => {
    const isKnown = row !== null && left?.upTo !== null
    left = { upTo: isKnown ? Math.max(row, left?.upTo ?? 0) : null }
    signal.notify()
  }

  const append = Effect.fnUntraced(function* (records: ReadonlyArray<OutgoingRecord>) {
    for (let from = 0; from < records.length; from += APPEND_RECORDS) {
      yield* options.append(records.slice(from, from + APPEND_RECORDS))
    }
  })

  /** Relays some rows, and returns to the direct mode if none is left. Returns how long to pause, ms. */
  const relay = Effect.gen(function* () {
    // Otherwise the relay would append them again.
    yield* deleteAppended
    let before = left
    if (before?.upTo === null) {
      const existing: Left = { upTo: (yield* store.status(0)).highest }
      if (left === before) left = existing
      before = existing
    }
    const upTo = before?.upTo ?? 0
    const relayed = yield* store.relay(
      { upTo: relaysAtOnce ? upTo : 0, olderThanMs: abandonedAfterMs },
      append,
    )
    if (relayed > 0) {
      yield* Effect.logInfo(`relay: appended rows of ${table} to Kafka`).pipe(
        Effect.annotateLogs({ rows: relayed }),
      )
    }
    const status = yield* store.status(upTo)
    yield* onStatus(status)
    // A row that was left meanwhile may not be in the status.
    if (left === before && status.rowsUpTo === 0) left = null
    return relayed > 0 ? 0 : PAUSE_MS
  })

  const failed = (error: KafkaUnavailable | StorageError) =>
    Effect.logWarning(`relay: rows of ${table} were not appended; the relay tries again`).pipe(
      Effect.annotateLogs({ error: error._tag, ...('detail' in error ? { detail: error.detail } : {}) }),
      Effect.as(PAUSE_MS),
    )
  const failedUnexpectedly = (cause: Cause.Cause<never>) =>
    Cause.hasInterruptsOnly(cause)
      ? Effect.failCause(cause)
      : Effect.as(
          Effect.logError('relay: a turn failed unexpectedly; the relay tries again', cause),
          PAUSE_MS,
        )

  const step = Effect.gen(function* () {
    if (left === null) {
      yield* signal.waitUntil(Math.min(lookAt, deleteAt))
      if (now() >= deleteAt) yield* deleteAppended
      if (left === null && now() < lookAt) return
    }
    const pause = yield* relay.pipe(Effect.catch(failed), Effect.catchCause(failedUnexpectedly))
    lookAt = now() + lookEveryMs
    if (left !== null) yield* Effect.sleep(pause)
  })
  yield* Effect.addFinalizer(() => Effect.timeoutOption(deleteAppended, END_WITHIN_MS))
  yield* Effect.forkScoped(Effect.forever(step))

  return {
    /** True while the process must leave its rows to the relay. */
    isRelaying: (): boolean => left !== null,
    leave,
    /**
     * Appends the records of rows with an effect of the caller, in the order of its calls. Afterwards the
     * rows are deleted, or left to the relay if the effect fails.
     */
    appending: <A, E, R>(
      rows: ReadonlyArray<number>,
      effect: Effect.Effect<A, E, R>,
    ): Effect.Effect<A, E, R> =>
      effect.pipe(
        Effect.tap(() => Effect.sync(() => addAppended(rows))),
        Effect.tapCause((cause) =>
          Effect.sync(() => {
            if (!Cause.hasInterruptsOnly(cause)) for (const row of rows) leave(row)
          }),
        ),
      ),
    /** Takes over the deletion of appended rows. */
    takeAppended,
    /** Gives it back: they were not deleted. */
    addAppended,
  }
})

/** The outbox of a process. */
export class Outbox extends Context.Service<Outbox, Effect.Success<ReturnType<typeof makeOutbox>>>()(
  '@hub/outbox/Outbox',
) {
  static readonly layer = (options: OutboxOptions): Layer.Layer<Outbox, never, OutboxStore> =>
    Layer.effect(this, makeOutbox(options))
}
