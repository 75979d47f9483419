/**
 * The limits that an acceptance batch applies before it records: the hub's daily limit and the
 * flood windows of recipients. The spend limit is part of the ledger's transaction (`spend.ts`).
 *
 * A flood reservation is confirmed when the message is accepted and released when it is not. If the
 * process does neither, it expires. Its id comes from the `client_ref`, not from the message id. So
 * two concurrent sends with one `client_ref` share one reservation, and a repeat is never refused
 * because of the window that its first send used.
 *
 * Source: specification, Limits, and Errors, rules 3 and 4; contract, Unavailability.
 */
import { type ApiError, apiError } from '@hub/contract'
import { Counters, type FloodReservation, type FloodWindows, secondsToNextDay, utcDay } from '@hub/counters'
import type { MessageClass } from '@hub/domain'
import { Context, Duration, Effect, Layer } from 'effect'
import { HubSettings } from '../accounts/hub-settings.ts'
import { type CheckedSend, floodReservationId, type MessageDraft, paramAt } from './checked-send.ts'

/** What one send reserves before it is accepted. */
export interface SendReservation extends FloodReservation {
  readonly class: MessageClass
  /** `null`: the flood windows do not count this send. */
  readonly windows: FloodWindows | null
  /** Position of the send in the request body. */
  readonly path: string
}

export const reservationOf = (
  { clientRef, owner, path, recipient }: CheckedSend,
  draft: MessageDraft,
  messageId: string,
): SendReservation => ({
  account: owner.accountUuid,
  mode: owner.mode,
  recipient,
  reservationId: floodReservationId(owner, clientRef, messageId),
  class: draft.class,
  windows: draft.windows,
  path,
})

/** The shortest `retry_after` that the specification allows for the daily limit, seconds. */
const DAILY_LIMIT_MIN_SECONDS = 60

/** How long a refused code waits for the release of its reservation. */
const RELEASE_WITHIN = Duration.millis(300)

type CountedReservation = SendReservation & { readonly windows: FloodWindows }
const counted = (reservations: ReadonlyArray<SendReservation>) =>
  reservations.filter((one): one is CountedReservation => one.windows !== null)

export class Limits extends Context.Service<Limits>()('@hub/command-api/Limits', {
  make: Effect.gen(function* () {
    const counters = yield* Counters
    const settings = yield* HubSettings

    /**
     * Seconds until the hub accepts new messages; `null`: now. `at`: PostgreSQL's clock, ms. Never
     * fails: a limit that cannot be read stops nothing.
     */
    const daily = Effect.fnUntraced(function* (at: number) {
      const { dailyLimit, stoppedUntil } = yield* settings.current
      if (stoppedUntil !== null && stoppedUntil > at) {
        return Math.max(DAILY_LIMIT_MIN_SECONDS, Math.ceil((stoppedUntil - at) / 1000))
      }
      if (dailyLimit === null) return null
      const stopped = yield* counters.daily
        .stopped(utcDay(at), dailyLimit)
        .pipe(Effect.catch(() => Effect.succeed(false)))
      return stopped ? Math.max(DAILY_LIMIT_MIN_SECONDS, secondsToNextDay(at)) : null
    })

    const isUnavailable = counters.ping.pipe(
      Effect.as(false),
      Effect.catch(() => Effect.succeed(true)),
    )

    /** Reserves. Returns for each reservation `null`, or the error that refuses its send. */
    const reserve = Effect.fnUntraced(function* (reservations: ReadonlyArray<SendReservation>) {
      const asked = counted(reservations)
      // Without counters the hub refuses every service message, also in test mode.
      const mustPing = reservations.some((one) => one.windows === null && one.class === 'service')
      const [verdicts, unavailable] = yield* Effect.all(
        [
          asked.length === 0
            ? Effect.succeed([])
            : counters.reserveFlood(asked).pipe(Effect.catch(() => Effect.succeed(null))),
          mustPing ? isUnavailable : Effect.succeed(false),
        ],
        { concurrency: 'unbounded' },
      )
      const verdictOf = new Map<SendReservation, NonNullable<typeof verdicts>[number] | undefined>(
        asked.map((one, i) => [one, verdicts?.[i]]),
      )
      return reservations.map((one): ApiError | null => {
        const param = paramAt(one.path, 'to')
        if (one.windows === null ? unavailable : verdicts === null) {
          return one.class === 'otp' ? null : apiError('recipient_flood_limited', { param })
        }
        const verdict = verdictOf.get(one)
        if (verdict === undefined || verdict.reserved) return null
        const { retryAfterSeconds, window } = verdict
        return apiError('recipient_flood_limited', { param, window, retryAfter: retryAfterSeconds })
      })
    })

    /** The sends are accepted: confirms their reservations, and counts them for the daily limit. */
    const confirm = Effect.fnUntraced(function* (reservations: ReadonlyArray<SendReservation>, at: number) {
      if (reservations.length === 0) return
      const floods = counted(reservations)
      yield* Effect.all(
        [
          floods.length === 0 ? Effect.void : counters.confirmFlood(floods.map((one) => ({ ...one, at }))),
          // A lost count is corrected from the ledger (`counters-from-ledger.ts`).
          Effect.ignore(counters.daily.count(utcDay(at), reservations.length)),
        ],
        { concurrency: 'unbounded', discard: true },
      )
    })

    /** The sends are not accepted: releases their reservations, which otherwise expire. */
    const release = (reservations: ReadonlyArray<SendReservation>) => {
      const floods = counted(reservations)
      return floods.length === 0
        ? Effect.void
        : counters.releaseFlood(floods).pipe(Effect.timeoutOption(RELEASE_WITHIN), Effect.ignore)
    }

    return { daily, reserve, confirm, release }
  }),
}) {
  static readonly layer = Layer.effect(this, this.make)
}
