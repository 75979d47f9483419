/**
 * One rebuild in the hands of a projector: the log folded up to where the live projection stands, the comparison, the swap. Source: docs/decisions/0020.
 */
import { KafkaUnavailable } from '@hub/kafka'
import {
  operatorIdsCutoff,
  type Queries,
  type RebuildComparison,
  Sql,
  type StorageError,
  StorageUnavailable,
} from '@hub/store'
import { Clock, Data, Deferred, Duration, Effect } from 'effect'
import type { makePersonalData } from '../messages/personal-data.ts'
import { observeRebuildLag, rebuiltRecords } from '../metrics.ts'
import { read } from '../projection/apply.ts'
import { bisect, type Claim, type Poll, sizeOf } from '../projection/record-buffer.ts'
import type { Checkpoint } from '../tables/all.ts'
import { compareAll, differencesOf, takeSnapshot } from './compare.ts'
import { end, enter, type Held, noteComparison } from '../tables/rebuilds.ts'
import { boundsOf, type Horizon } from './horizon.ts'
import { foldPortion, restorePersonalData, withoutPersonalData } from './fold-batch.ts'
import { keyOf, type Reader } from './reader.ts'
import * as tables from './swap.ts'

export interface RebuildParts {
  readonly held: Held
  readonly reader: Reader
  readonly horizon: Horizon
  readonly personalData: Effect.Success<typeof makePersonalData>
  /** Most records of a portion. */
  readonly portion?: number
}

/** Most records of a portion, as of a poll of the live projection. */
const PORTION = 2000

/** After a moment that could not be kept. */
const TROUBLE_PAUSE = Duration.seconds(1)
/** While nothing that may be folded has been read. */
const READ_PAUSE = Duration.millis(20)
/** The live projection goes first: behind each portion the rebuild rests for as long as it took, this long at most. */
const LONGEST_REST_MS = 500
/** With so many records before the live projection, a few seconds of its work, the rebuild waits. */
const LIVE_LAG = 10_000
const LOOK_AT_LAG_EVERY_MS = 1000

/**
 * With so few records left to fold the live projection may be held for the rest of them: a fraction of a second. And for how long it is held at
 * most before it is let go and another moment tried.
 */
const NEAR = 500
const MEET_WITHIN = Duration.seconds(3)
/** The transaction that holds it: what it waits for and the swap included. */
const HELD_WITHIN = { deadline: Duration.seconds(9) }

/** Payload keys of the log live for two days; what is older than this is not tried to be opened. */
const PAYLOADS_LIVE_FOR = 3 * 24 * 3_600_000

/** A comparison reads every row once. Beyond this something is wrong, and its snapshot holds up vacuum. */
const COMPARED_WITHIN = { deadline: Duration.hours(12) }
const PREPARED_WITHIN = { deadline: Duration.hours(1) }

/** The rebuild is another's by now, or has ended. */
export class Lost extends Data.TaggedError('Lost')<{}> {}
/** A change of the rebuild's row, which must still be ours. */
export const owned = <E>(change: Effect.Effect<boolean, E>): Effect.Effect<void, E | Lost> =>
  Effect.flatMap(change, (ours) => (ours ? Effect.void : Effect.fail(new Lost())))

/** Waits until the reader reads from where the rebuild has come to. */
export const opened = Effect.fnUntraced(function* (reader: Reader) {
  while (!reader.isOpen()) {
    const state = yield* reader.open
    if (state === 'lost') return yield* new Lost()
    if (state === 'not_yet') yield* Effect.sleep(READ_PAUSE)
  }
})

/** A comparison under way. */
interface Comparison {
  isWanted: boolean
  readonly found: Deferred.Deferred<ReadonlyArray<RebuildComparison> | null, StorageError>
}

/** What is done with a rebuild, in this order. */
export const makeRebuild = Effect.fnUntraced(function* (parts: RebuildParts) {
  const { held, horizon, personalData, reader } = parts
  const sql = yield* Sql
  const context = yield* Effect.context<Sql>()
  const bounds = Effect.map(Clock.currentTimeMillis, (now) => boundsOf(horizon, operatorIdsCutoff(now)))
  const folded = yield* bounds
  const portion = parts.portion ?? PORTION
  const near = Math.min(NEAR, portion)

  /** The offset at which a claim's partition is not to be read further. */
  const endOf = (live: ReadonlyArray<Checkpoint>) => {
    const ends = new Map(live.map((checkpoint) => [keyOf(checkpoint), checkpoint.position]))
    return (claim: Claim): number => ends.get(keyOf(claim)) ?? 0
  }
  const behind = (endOfClaim: (claim: Claim) => number): number =>
    reader.claims().reduce((sum, claim) => sum + Math.max(0, endOfClaim(claim) - claim.position), 0)

  const restore = Effect.fnUntraced(function* (accepted: ReturnType<typeof read>['accepted']) {
    if (held.policy === 'compare_only') return
    const since = (yield* Clock.currentTimeMillis) - PAYLOADS_LIVE_FOR
    const recent = accepted.filter(({ at }) => at >= since)
    if (recent.length === 0) return
    const missing = yield* sql.run((q) => withoutPersonalData(q, recent))
    if (missing.length === 0) return
    const boxes = yield* personalData.boxesOf(missing)
    if ((yield* restorePersonalData(held, missing, boxes)) === 'lost') return yield* new Lost()
  })

  type Faults = Parameters<typeof read>[1]
  /** Folds a poll; records that PostgreSQL refuses are left out, as the live projection has left them out. */
  const fold = (
    poll: Poll,
    faults: Faults = new Map(),
  ): Effect.Effect<void, StorageError | Lost | KafkaUnavailable, Sql> =>
    Effect.gen(function* () {
      const { accepted, advances, facts, seals } = read(poll, faults)
      yield* restore(accepted)
      const outcome = yield* foldPortion(held, folded, { advances, facts, seals, records: sizeOf(poll) })
      if (outcome === 'lost') return yield* new Lost()
      if (outcome === 'moved') {
        return yield* new KafkaUnavailable({ reason: 'rejected', detail: 'the positions were moved' })
      }
      for (const { claim, fence, to } of advances) {
        claim.position = to
        claim.fence = fence
      }
      yield* rebuiltRecords.add(sizeOf(poll))
    }).pipe(
      Effect.catchTag('StorageRejected', (error) => {
        const record = poll[0]?.records[0]
        if (sizeOf(poll) > 1) {
          const [first, second] = bisect(poll)
          return Effect.andThen(
            fold(first, faults),
            Effect.suspend(() => fold(second, faults)),
          )
        }
        return record === undefined || faults.has(record)
          ? Effect.die(error)
          : fold(poll, new Map([...faults, [record, `storage_rejected_${error.code}`]]))
      }),
    )

  let lookedAt = 0
  /** The live projection goes first. */
  const yieldToLive = Effect.fnUntraced(function* () {
    for (;;) {
      const now = yield* Clock.currentTimeMillis
      if (now - lookedAt < LOOK_AT_LAG_EVERY_MS) return
      lookedAt = now
      const at = endOf(yield* sql.run(tables.livePositions))
      yield* observeRebuildLag(behind(at))
      const ends = new Map((yield* reader.extents).map((extent) => [keyOf(extent), extent.high]))
      const lag = reader
        .claims()
        .reduce((sum, claim) => sum + Math.max(0, (ends.get(keyOf(claim)) ?? 0) - at(claim)), 0)
      if (lag < LIVE_LAG) return
      yield* Effect.sleep(LOOK_AT_LAG_EVERY_MS)
    }
  })

  /** Folds what the live projection has applied, until little of it is left. */
  const catchUp = Effect.gen(function* () {
    for (;;) {
      yield* opened(reader)
      const at = endOf(yield* sql.run(tables.livePositions))
      if (behind(at) <= near) return
      const began = yield* Clock.currentTimeMillis
      const poll = reader.take(portion, at)
      if (poll.length === 0) {
        yield* Effect.sleep(READ_PAUSE)
        continue
      }
      yield* fold(poll)
      yield* Effect.sleep(Math.min(LONGEST_REST_MS, (yield* Clock.currentTimeMillis) - began))
      yield* yieldToLive()
    }
  })

  /** Folds all that the live projection has applied, while it is held. */
  const foldRest = Effect.fnUntraced(function* (live: ReadonlyArray<Checkpoint>) {
    const at = endOf(live)
    while (behind(at) > 0) {
      if (!reader.isOpen())
        return yield* new KafkaUnavailable({ reason: 'refused', detail: 'the group is being joined' })
      const poll = reader.take(portion, at)
      if (poll.length === 0) yield* Effect.sleep(READ_PAUSE)
      else yield* fold(poll)
    }
  })

  /**
   * A moment in which both stand at the same place: the live projection is held, the rest is folded, `act` is done, and the live projection goes
   * on when that is over. Where that takes too long it is let go, and what it has applied meanwhile is folded first.
   */
  const meet = (
    before: (q: Queries) => Promise<void>,
    act: (q: Queries) => Promise<boolean>,
  ): Effect.Effect<void, StorageError | KafkaUnavailable | Lost, Sql> =>
    Effect.gen(function* () {
      for (;;) {
        yield* catchUp
        const met = yield* sql
          .transaction(async (q) => {
            await before(q)
            const live = await tables.holdLive(q)
            await Effect.runPromiseWith(context)(
              foldRest(live).pipe(
                Effect.timeoutOrElse({
                  duration: MEET_WITHIN,
                  orElse: () => Effect.fail(new StorageUnavailable({ reason: 'timeout', detail: 'meeting' })),
                }),
              ),
            )
            return act(q)
          }, HELD_WITHIN)
          .pipe(
            Effect.catchTag('StorageUnavailable', ({ detail, reason }) =>
              Effect.as(
                Effect.logInfo('the live tables could not be held this time; trying again').pipe(
                  Effect.annotateLogs({ rebuild: held.id, reason, detail }),
                ),
                null,
              ),
            ),
          )
        if (met === false) return yield* new Lost()
        if (met === true) return
        yield* Effect.sleep(TROUBLE_PAUSE)
      }
    })

  /** Compares; answers whether the swap is to follow. */
  const compare = Effect.gen(function* () {
    yield* catchUp
    yield* owned(sql.run((q) => enter(q, held, 'comparing')))
    const within = yield* bounds
    const scope = yield* Effect.scope
    /** A moment that was not kept to its end leaves its comparison behind. */
    const begun: Array<Comparison> = []
    const forget = () => {
      for (const one of begun) one.isWanted = false
    }
    yield* Effect.addFinalizer(() => Effect.sync(forget))
    const begin = Effect.gen(function* () {
      forget()
      const comparison: Comparison = {
        isWanted: true,
        found: yield* Deferred.make<ReadonlyArray<RebuildComparison> | null, StorageError>(),
      }
      const snapshot = yield* Deferred.make<void, StorageError>()
      begun.push(comparison)
      yield* sql
        .transaction(async (q) => {
          await takeSnapshot(q)
          Deferred.doneUnsafe(snapshot, Effect.void)
          return compareAll(q, within, () => comparison.isWanted)
        }, COMPARED_WITHIN)
        .pipe(
          Effect.tapError((error) => Deferred.fail(snapshot, error)),
          Effect.onExit((exit) => Deferred.done(comparison.found, exit)),
          Effect.forkIn(scope),
        )
      yield* Deferred.await(snapshot)
      return true
    })
    yield* meet(
      async () => {},
      () => Effect.runPromiseWith(context)(begin),
    )
    const last = begun.at(-1)
    const compared = last === undefined ? null : yield* Deferred.await(last.found)
    if (compared === null) return yield* new Lost()
    const differences = differencesOf(compared)
    const goesOn = held.policy === 'swap' || (held.policy === 'swap_if_equal' && differences === 0)
    yield* owned(
      sql.transaction(async (q) => {
        if (!(await noteComparison(q, held, compared))) return false
        return goesOn
          ? enter(q, held, 'swapping')
          : end(q, held, held.policy === 'compare_only' ? 'compared' : 'refused')
      }),
    )
    yield* Effect.logInfo('the rebuilt read models were compared with the live ones').pipe(
      Effect.annotateLogs({ rebuild: held.id, differences, swap: goesOn }),
    )
    return goesOn
  })

  const swap = Effect.gen(function* () {
    const { sumsSince } = horizon
    if (sumsSince !== null) {
      for (let after: string | null = tables.FIRST; after !== null;) {
        const from: string = after
        after = yield* sql.run((q) => tables.carryBatches(q, sumsSince, from), HELD_WITHIN)
      }
      yield* sql.transaction((q) => tables.carryStats(q, sumsSince), PREPARED_WITHIN)
    }
    yield* sql.transaction(tables.prepareSwap, PREPARED_WITHIN)
    const within = yield* bounds
    yield* meet(tables.holdMaintenance, async (q) => {
      if (!(await end(q, held, 'swapped'))) return false
      await tables.swap(q, horizon, within.operatorIdsFrom)
      return true
    })
    yield* Effect.logInfo('the rebuilt read models are live').pipe(Effect.annotateLogs({ rebuild: held.id }))
  })

  return { compare, swap }
})
