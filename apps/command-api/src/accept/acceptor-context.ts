/**
 * What the steps of an acceptance batch share: services, the queue of sends, and the requests and
 * codes in progress. `acceptor.ts` creates it once per process.
 */
import type { Lifetimes } from '@hub/domain'
import type { TopicNames } from '@hub/kafka'
import type { PayloadEncryption } from '@hub/store'
import type { TracingShape } from '@hub/telemetry'
import { type Duration, Effect } from 'effect'
import type { MakeId } from '../ids/ids.ts'
import type { Ledger } from './ledger.port.ts'
import type { Limits, SendReservation } from './limits.ts'
import type { OtpInProgress } from './otp-in-progress.ts'
import type { Publisher } from './publish.ts'
import type { PendingSend } from './request.ts'
import type { Slices } from './slices.ts'
import type { UnresolvedCommits } from './unresolved-commits.ts'

export interface AcceptorOptions {
  readonly topics: TopicNames
  readonly lifetimes: Lifetimes
  readonly makeMessageId: MakeId
  /** Runs the work of this process in its event loop. */
  readonly slices: Slices
  /**
   * How long an acceptance batch of few sends waits for more. `ACCEPTANCE_GATHER` is for production.
   */
  readonly gather: Duration.Duration
}

export interface AcceptorContext extends AcceptorOptions {
  readonly ledger: Ledger['Service']
  readonly limits: Limits['Service']
  readonly encryption: PayloadEncryption['Service']
  readonly tracing: TracingShape
  /** Puts sends first into the queue, and starts an acceptance batch if it is worth it. */
  readonly decideAgain: (sends: ReadonlyArray<PendingSend>) => void
  readonly otpInProgress: OtpInProgress
  readonly publisher: Publisher
  readonly unresolved: UnresolvedCommits
  /** For a call that ends at its deadline. The process awaits it when it ends. */
  readonly runInBackground: (call: Effect.Effect<void>) => Effect.Effect<void>
}

/** The code will not be published: the next batch takes the sends that joined it first. */
export const cancelOtp = ({ decideAgain, otpInProgress }: AcceptorContext, messageId: string): void =>
  decideAgain(otpInProgress.cancel(messageId))

export const releaseInBackground = (
  { limits, runInBackground }: AcceptorContext,
  reservations: ReadonlyArray<SendReservation>,
): Effect.Effect<void> =>
  reservations.length === 0 ? Effect.void : runInBackground(limits.release(reservations))
