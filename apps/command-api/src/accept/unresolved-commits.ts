/**
 * Commits with an unknown result: PostgreSQL stopped answering during their transaction.
 *
 * Each commit writes its id into `command.commits`. The hub withdraws a commit by writing the same
 * id. Only one of the two can succeed, so the result is certain afterwards. Sends that still wait
 * are then decided again: a recorded one finds itself in the ledger. Sends that already have their
 * answer are completed in the background: a recorded code is refunded, because it was never
 * published, and a recorded `service` message is published by the relay.
 *
 * Source: AVL-1, AVL-5, AVL-6; docs/decisions/repeats.md#unknown-outcomes.
 */
import type { ApiError } from '@hub/contract'
import { storageCrashPoint } from '@hub/store'
import { Duration, Effect, Result, Schedule } from 'effect'
import type { Corrections } from './corrections.ts'
import type { Ledger } from './ledger.port.ts'
import type { Limits } from './limits.ts'
import type { PreparedSend } from './prepared-send.ts'
import type { PendingSend } from './request.ts'

const AGAIN_AFTER = Duration.millis(250)
/** Above this, new sends are refused: PostgreSQL answers reads, but no commit ends. */
const MAX_UNRESOLVED = 64

export interface UnresolvedCommit {
  /** UUID. */
  readonly id: string
  readonly prepared: ReadonlyArray<PreparedSend>
  /** Sends that follow a prepared one. */
  readonly followers: ReadonlyArray<PendingSend>
}

const atWithdrawn = storageCrashPoint('command-api.withdrawn')

interface UnresolvedCommitsOptions {
  readonly corrections: Corrections
  readonly decideAgain: (sends: ReadonlyArray<PendingSend>) => void
  readonly ledger: Ledger['Service']
  readonly limits: Limits['Service']
  /** For a call that ends at its deadline. */
  readonly runInBackground: (call: Effect.Effect<void>) => Effect.Effect<void>
  /** For work that is repeated until PostgreSQL answers. */
  readonly resolveInBackground: (work: Effect.Effect<void>) => Effect.Effect<void>
}

export const makeUnresolvedCommits = ({
  corrections,
  decideAgain,
  ledger,
  limits,
  resolveInBackground,
  runInBackground,
}: UnresolvedCommitsOptions) => {
  let count = 0

  /** A code that an earlier commit has recorded was never published. */
  const refundCode = ({ checked, recordedBefore }: PendingSend): void => {
    if (checked.class === 'otp' && recordedBefore !== null) corrections.refund([recordedBefore])
  }
  /** A send that got its answer while it waited to be decided again. */
  const abandon = (send: PendingSend): void => {
    refundCode(send)
    send.drop()
  }

  /** Completes the sends of a commit that PostgreSQL has executed. Returns what is left to do in Redis. */
  const completeCommitted = ({ prepared }: UnresolvedCommit): Effect.Effect<void> => {
    const service = prepared.filter(({ entry }) => entry.fact.class === 'service')
    const refusedCodes = prepared.filter(
      ({ entry, send }) => entry.fact.class === 'otp' && send.outcome !== null,
    )
    for (const { duplicate, send } of prepared) if (!duplicate) send.request.record()
    const at = prepared[0]?.view.createdAt
    const reservationsOf = (sends: ReadonlyArray<PreparedSend>) => sends.map(({ reservation }) => reservation)
    const confirmed = at === undefined ? Effect.void : limits.confirm(reservationsOf(service), at)
    return Effect.andThen(confirmed, limits.release(reservationsOf(refusedCodes)))
  }

  /**
   * From the result on, no step waits until all sends are completed or queued. If a deadline ended
   * meanwhile, it would refuse a recorded code that nobody refunds.
   */
  const resolve = Effect.fnUntraced(function* (commit: UnresolvedCommit) {
    const result = yield* ledger
      .withdraw(commit.id)
      .pipe(atWithdrawn, Effect.retry(Schedule.spaced(AGAIN_AFTER)), Effect.orDie)
    const inRedis = result === 'committed' ? completeCommitted(commit) : Effect.void
    const open: Array<PendingSend> = []
    for (const { send } of commit.prepared) {
      send.resolve(result)
      if (send.outcome === null) open.push(send)
      else abandon(send)
    }
    decideAgain([...open, ...commit.followers.filter(({ outcome }) => outcome === null)])
    yield* runInBackground(inRedis)
    yield* Effect.annotateLogs(Effect.logInfo('acceptor: the result of a commit is known'), {
      commit: commit.id,
      result,
      answered: commit.prepared.length - open.length,
    })
  })

  return {
    abandon,
    /** Refuses a send. If an earlier commit has recorded it, a code is refunded. */
    refuse: (send: PendingSend, error: ApiError): void => {
      // A sealed batch would prove the code, so its batch must stay open until the refund.
      if (send.recordedBefore !== null) send.request.doubt()
      refundCode(send)
      send.finish(Result.fail(error))
    },
    isFull: () => count >= MAX_UNRESOLVED,
    add: (commit: UnresolvedCommit): Effect.Effect<void> =>
      Effect.suspend(() => {
        count++
        return resolveInBackground(
          Effect.ensuring(
            resolve(commit),
            Effect.sync(() => count--),
          ),
        )
      }),
  }
}
export type UnresolvedCommits = ReturnType<typeof makeUnresolvedCommits>
