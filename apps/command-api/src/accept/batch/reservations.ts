/**
 * Confirms and releases reservations in the background: the acceptance batches do not wait for Redis.
 * Each call ends at its deadline. The process awaits them when it ends.
 */
import { Effect, FiberSet } from 'effect'
import { SendLimits, type SendReservation } from './limits.ts'

export const makeReservations = Effect.gen(function* () {
  const limits = yield* SendLimits
  const calls = yield* FiberSet.make<void>()
  const fork = yield* FiberSet.runtime(calls)()
  return {
    /** The sends are accepted. `at`: the time of acceptance, milliseconds since the epoch. */
    confirm: (reservations: ReadonlyArray<SendReservation>, at: number): void => {
      if (reservations.length > 0) fork(limits.confirm(reservations, at))
    },
    /** The sends are not accepted. */
    release: (reservations: ReadonlyArray<SendReservation>): void => {
      if (reservations.length > 0) fork(limits.release(reservations))
    },
    /** Waits for the calls in progress. */
    ended: FiberSet.awaitEmpty(calls),
  }
})
export type Reservations = Effect.Success<typeof makeReservations>
