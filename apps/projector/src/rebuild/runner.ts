/**
 * Rebuilds the read models when it is asked for: one projector at a time, which holds a lease on the request. What it has come to stands in the
 * database with every portion, so that another goes on there. Source: docs/decisions/0020.
 *
 * requested → the tables beside the live ones are made → folding: the log up to where the live projection stands → comparing, in a snapshot of a moment
 * in which both stand at the same place → swapping: both at the same place once more → ended.
 */
import { randomUUID } from 'node:crypto'
import { KafkaUnavailable, type ConsumerGroups } from '@hub/kafka'
import { type PayloadEncryption, Sql, type StorageError } from '@hub/store'
import { Cause, Clock, Data, Duration, Effect, type Scope } from 'effect'
import { makePersonalData } from '../messages/personal-data.ts'
import {
  clearEnded,
  end,
  type Held,
  hold,
  noteHorizon,
  release,
  RENEW_EVERY_MS,
  takeRebuild,
} from '../tables/rebuilds.ts'
import { type Horizon, horizonOf } from './horizon.ts'
import { keyOf, makeReader, type Reader, type ReaderOptions } from './reader.ts'
import { Lost, makeRebuild, opened, owned } from './rebuild.ts'
import { lastApplied } from './swap.ts'

export interface RebuildOptions extends ReaderOptions {
  /** Most records of a portion. */
  readonly portion?: number
}

/** How often an idle runner looks whether something was asked for. */
const LOOK_EVERY = Duration.seconds(1)
/** After something stood in the way. */
const TROUBLE_PAUSE = Duration.seconds(2)

/** While the beginning of a topic has not been read yet. */
const READ_PAUSE = Duration.millis(20)

/** Makes the tables, or drops them. */
const TABLES_WITHIN = { deadline: Duration.seconds(60) }

/** The topics hold too little of the past. */
class LogTooShort extends Data.TaggedError('LogTooShort')<{}> {}

/** Rebuilds what is asked for until the scope closes. */
export const runRebuilds = Effect.fnUntraced(function* (
  options: RebuildOptions,
): Effect.fn.Return<void, never, Sql | ConsumerGroups | PayloadEncryption | Scope.Scope> {
  const sql = yield* Sql
  const personalData = yield* makePersonalData

  const turn = Effect.gen(function* () {
    yield* sql.transaction(async (q) => {
      await q`SELECT set_config('statement_timeout', '60s', true)`
      return clearEnded(q)
    }, TABLES_WITHIN)
    const held = yield* sql.run((q) => takeRebuild(q, randomUUID()))
    if (held === null) return LOOK_EVERY
    yield* Effect.logInfo('rebuilding the read models').pipe(
      Effect.annotateLogs({ rebuild: held.id, policy: held.policy, state: held.state }),
    )
    yield* make(held).pipe(
      Effect.raceFirst(renew(held)),
      Effect.catchTag('LogTooShort', () => sql.run((q) => end(q, held, 'failed', 'log_too_short'))),
      Effect.catchTag('Lost', () =>
        Effect.logInfo('the rebuild has ended, or another projector is at it').pipe(
          Effect.annotateLogs({ rebuild: held.id }),
        ),
      ),
      Effect.scoped,
      Effect.ensuring(Effect.ignore(sql.run((q) => release(q, held)))),
    )
    return Duration.zero
  }).pipe(
    Effect.catchCause((cause) =>
      Cause.hasInterruptsOnly(cause)
        ? Effect.interrupt
        : Effect.as(Effect.logWarning('rebuilds have to wait', cause), TROUBLE_PAUSE),
    ),
  )

  /** Keeps the lease while the work goes on; fails when it is lost. */
  const renew = (held: Held): Effect.Effect<never, Lost> =>
    Effect.sleep(RENEW_EVERY_MS).pipe(
      Effect.andThen(
        // While the database is away the lease runs out by itself, and every transaction asks for it.
        sql.run((q) => hold(q, held)).pipe(Effect.orElseSucceed(() => true)),
      ),
      Effect.flatMap((ours) => (ours ? Effect.void : Effect.fail(new Lost()))),
      Effect.forever,
    )

  const make = Effect.fnUntraced(function* (held: Held) {
    if (held.state === 'requested') {
      yield* owned(
        sql.transaction(async (q) => {
          if (!(await hold(q, held))) return false
          await q`SELECT set_config('statement_timeout', '60s', true)`
          await q`SELECT command.open_rebuild()`
          return true
        }, TABLES_WITHIN),
      )
    }
    const reader = yield* makeReader(held, options)
    const horizon = held.state === 'requested' ? yield* lookForHorizon(held, reader) : held
    const rebuild = yield* makeRebuild({
      held,
      reader,
      horizon,
      personalData,
      ...(options.portion === undefined ? {} : { portion: options.portion }),
    })
    if (held.state !== 'swapping') {
      if (!(yield* rebuild.compare)) return
    }
    yield* rebuild.swap
  })

  /** Looks where the topics begin, and keeps what can be rebuilt. */
  const lookForHorizon = Effect.fnUntraced(function* (
    held: Held,
    reader: Reader,
  ): Effect.fn.Return<Horizon, StorageError | KafkaUnavailable | Lost | LogTooShort> {
    yield* opened(reader)
    const extents = yield* reader.extents
    const applied = yield* sql.run(lastApplied)
    const now = yield* Clock.currentTimeMillis
    const firsts: Array<number> = []
    for (const extent of extents) {
      if (extent.low === 0) continue
      if (extent.low === extent.high) {
        firsts.push(applied.get(keyOf(extent)) ?? now)
        continue
      }
      const first = yield* Effect.sync(
        () => reader.claims().find((claim) => keyOf(claim) === keyOf(extent))?.waiting[0],
      ).pipe(
        Effect.tap((record) => (record === undefined ? Effect.sleep(READ_PAUSE) : Effect.void)),
        Effect.repeat({ until: (record) => record !== undefined || !reader.isOpen() }),
      )
      if (first === undefined) {
        return yield* new KafkaUnavailable({
          reason: 'refused',
          detail: 'the beginning of a topic could not be read',
        })
      }
      firsts.push(first.appendedAt)
    }
    const horizon = horizonOf(firsts, now)
    if (horizon === null) return yield* new LogTooShort()
    yield* owned(sql.run((q) => noteHorizon(q, held, horizon)))
    return horizon
  })

  yield* Effect.forkScoped(Effect.forever(Effect.flatMap(turn, Effect.sleep)))
})
