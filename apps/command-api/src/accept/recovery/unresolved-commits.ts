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
import { storageCrashPoint } from '@hub/store'
import { Duration, Effect, Schedule } from 'effect'
import type { Corrections } from './corrections.ts'
import type { Ledger } from '../ledger/ledger.port.ts'
import type { PreparedSend } from '../batch/prepared-send.ts'
import { dropSend } from '../batch/refuse-send.ts'
import type { PendingSend } from '../request.ts'
import type { Reservations } from '../batch/reservations.ts'

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
  readonly ledger: Pick<Ledger['Service'], 'withdraw'>
  readonly reservations: Reservations
  /** Forks work that is repeated until PostgreSQL answers. */
  readonly fork: (work: Effect.Effect<void>) => void
}

export const makeUnresolvedCommits = ({
  corrections,
  decideAgain,
  fork,
  ledger,
  reservations,
}: UnresolvedCommitsOptions) => {
  let count = 0

  /** Completes the requests and the reservations of a commit that PostgreSQL has executed. */
  const completeCommitted = ({ prepared }: UnresolvedCommit): void => {
    const service = prepared.filter(({ entry }) => entry.fact.class === 'service')
    const refusedCodes = prepared.filter(
      ({ entry, send }) => entry.fact.class === 'otp' && send.outcome !== null,
    )
    for (const { duplicate, send } of prepared) if (!duplicate) send.request.record()
    const at = prepared[0]?.view.createdAt
    const reservationsOf = (sends: ReadonlyArray<PreparedSend>) => sends.map(({ reservation }) => reservation)
    if (at !== undefined) reservations.confirm(reservationsOf(service), at)
    reservations.release(reservationsOf(refusedCodes))
  }

  /**
   * From the result on, no step waits until all sends are completed or queued. If a deadline ended
   * meanwhile, it would refuse a recorded code that nobody refunds.
   */
  const resolve = Effect.fnUntraced(function* (commit: UnresolvedCommit) {
    const result = yield* ledger
      .withdraw(commit.id)
      .pipe(atWithdrawn, Effect.retry(Schedule.spaced(AGAIN_AFTER)), Effect.orDie)
    if (result === 'committed') completeCommitted(commit)
    const open: Array<PendingSend> = []
    for (const { send } of commit.prepared) {
      send.resolve(result)
      if (send.outcome === null) open.push(send)
      else dropSend(corrections, send)
    }
    decideAgain([...open, ...commit.followers.filter(({ outcome }) => outcome === null)])
    yield* Effect.annotateLogs(Effect.logInfo('acceptor: the result of a commit is known'), {
      commit: commit.id,
      result,
      answered: commit.prepared.length - open.length,
    })
  })

  return {
    isFull: () => count >= MAX_UNRESOLVED,
    add: (commit: UnresolvedCommit): void => {
      count++
      fork(
        Effect.ensuring(
          resolve(commit),
          Effect.sync(() => count--),
        ),
      )
    },
  }
}
export type UnresolvedCommits = ReturnType<typeof makeUnresolvedCommits>
