/**
 * The limits that an acceptance batch applies before it records: the hub's daily limit and the
 * flood windows of recipients. The spend limit is part of the ledger's transaction (`spend.ts`).
 *
 * A flood reservation is confirmed when the message is accepted and released when it is not. If the
 * process does neither, it expires. Its id comes from the `client_ref`, not from the message id. So
 * two concurrent sends with one `client_ref` share one reservation, and a repeat is never refused
 * because of the window that its first send used.
 *
 * Source: LIM-6 to LIM-12, LIM-20 to LIM-24, AVL-17.
 */
import { type ApiError, apiError, paramAt } from '@hub/contract'
import {
  Counters,
  CountersUnavailable,
  type FloodReservation,
  type FloodVerdict,
  type FloodWindows,
  secondsToNextDay,
  utcDay,
} from '@hub/counters'
import { crashPoint } from '@hub/crash-points'
import { type MessageClass, toTimestamp } from '@hub/domain'
import { Array as Arr, Context, Duration, Effect, Layer } from 'effect'
import { HubSettings } from '../../accounts/hub-settings.ts'
import { uncheckedSends } from '../../metrics.ts'
import { type CheckedSend, floodReservationId, type MessageDraft } from '../check/checked-send.ts'

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

/** The shortest `retry_after` for the daily limit, seconds. Source: LIM-21. */
const DAILY_LIMIT_MIN_SECONDS = 60

/** Staff have stopped the hub. Its end is known to the second, and is not midnight. */
const stopped = (until: number, at: number): ApiError =>
  apiError('hub_daily_limit_reached', {
    message: `The hub accepts no new messages for now. It accepts them again at ${toTimestamp(until)}.`,
    retryAfter: (until - at) / 1000,
  })

/** Reservations of one call, which keeps Redis busy for about a millisecond. Each call has its own deadline. */
const RESERVATIONS_PER_CALL = 100

const UNCHECKED =
  'The hub cannot check at present how many messages this recipient was sent. Repeat the send after a minute, with a new Idempotency-Key.'

/**
 * The error of a service message whose flood windows were not checked, whatever the reason is. A Redis
 * that hangs cannot be told from a slow one at the first refusal. Source: LIM-12.
 */
const uncheckedError = (param: string): ApiError =>
  apiError('recipient_flood_limited', { param, message: UNCHECKED })

const redisTimedOut = () => new CountersUnavailable({ reason: 'timeout', detail: 'crash point' })
const atFloodReserved = crashPoint('command-api.flood-reserved', redisTimedOut)
const atDayCounted = crashPoint('command-api.day-counted', redisTimedOut)

/** How long a refused code waits for the release of its reservation. */
const RELEASE_WITHIN = Duration.millis(300)

type CountedReservation = SendReservation & { readonly windows: FloodWindows }
const counted = (reservations: ReadonlyArray<SendReservation>) =>
  reservations.filter((one): one is CountedReservation => one.windows !== null)

export class SendLimits extends Context.Service<SendLimits>()('@hub/command-api/SendLimits', {
  make: Effect.gen(function* () {
    const counters = yield* Counters
    const settings = yield* HubSettings
    const scope = yield* Effect.scope

    /**
     * The error of new messages while the hub is stopped or has reached its daily limit; `null`: it
     * accepts them. `at`: PostgreSQL's clock, ms. Never fails: a limit that cannot be read stops
     * nothing.
     */
    const daily = Effect.fnUntraced(function* (at: number) {
      const { dailyLimit, stoppedUntil } = yield* settings.current
      if (stoppedUntil !== null && stoppedUntil > at) return stopped(stoppedUntil, at)
      if (dailyLimit === null) return null
      const isReached = yield* counters.daily
        .stopped(utcDay(at), dailyLimit)
        .pipe(Effect.catch(() => Effect.succeed(false)))
      const retryAfter = Math.max(DAILY_LIMIT_MIN_SECONDS, secondsToNextDay(at))
      return isReached ? apiError('hub_daily_limit_reached', { retryAfter }) : null
    })

    /** The sends are not accepted: releases their reservations, which otherwise expire. */
    const release = (reservations: ReadonlyArray<SendReservation>) => {
      const floods = counted(reservations)
      return floods.length === 0
        ? Effect.void
        : counters.releaseFlood(floods).pipe(Effect.timeoutOption(RELEASE_WITHIN), Effect.ignore)
    }

    /** `null` if the counters answer. */
    const ping = counters.ping.pipe(
      Effect.as(null),
      Effect.catch((cause) => Effect.succeed(cause)),
    )

    /** The verdict on each reservation, or why there is none. */
    const verdictsOn = (asked: ReadonlyArray<CountedReservation>) =>
      Effect.map(
        Effect.forEach(
          Arr.chunksOf(asked, RESERVATIONS_PER_CALL),
          (portion) =>
            counters.reserveFlood(portion).pipe(
              atFloodReserved,
              Effect.catch((cause) => Effect.succeed(portion.map((): CountersUnavailable => cause))),
            ),
          { concurrency: 'unbounded' },
        ),
        (portions) => {
          const verdicts = portions.flat<ReadonlyArray<ReadonlyArray<FloodVerdict | CountersUnavailable>>>()
          return new Map(asked.map((one, i) => [one as SendReservation, verdicts[i]]))
        },
      )

    /** Reserves. Returns for each reservation `null`, or the error that refuses its send. */
    const reserve = Effect.fnUntraced(function* (reservations: ReadonlyArray<SendReservation>) {
      // Without counters the hub refuses every service message, also in test mode.
      const mustPing = reservations.some((one) => one.windows === null && one.class === 'service')
      const [verdicts, pinged] = yield* Effect.all(
        [verdictsOn(counted(reservations)), mustPing ? ping : Effect.succeed(null)],
        { concurrency: 'unbounded' },
      )
      const unused: Array<SendReservation> = []
      const errors = reservations.map((one): ApiError | null => {
        const param = paramAt(one.path, 'to')
        const verdict = one.windows === null ? pinged : verdicts.get(one)
        if (verdict instanceof CountersUnavailable) {
          if (one.windows !== null || one.class === 'service') {
            uncheckedSends.add({ class: one.class, reason: verdict.reason })
          }
          if (one.class === 'otp') return null
          unused.push(one)
          return uncheckedError(param)
        }
        if (verdict === null || verdict === undefined || verdict.reserved) return null
        const { retryAfterSeconds, window } = verdict
        return apiError('recipient_flood_limited', { param, window, retryAfter: retryAfterSeconds })
      })
      // A call without an answer may still make the reservation, which would refuse a repeat.
      if (unused.length > 0) yield* Effect.forkIn(release(unused), scope)
      return errors
    })

    /** The sends are accepted: confirms their reservations, and counts them for the daily limit. */
    const confirm = Effect.fnUntraced(function* (reservations: ReadonlyArray<SendReservation>, at: number) {
      if (reservations.length === 0) return
      const floods = counted(reservations)
      yield* Effect.all(
        [
          floods.length === 0 ? Effect.void : counters.confirmFlood(floods.map((one) => ({ ...one, at }))),
          // A lost count is corrected from the ledger (`counters-from-ledger.ts`).
          Effect.ignore(atDayCounted(counters.daily.count(utcDay(at), reservations.length))),
        ],
        { concurrency: 'unbounded', discard: true },
      )
    })

    return { daily, reserve, confirm, release }
  }),
}) {
  static readonly layer = Layer.effect(this, this.make)
}
