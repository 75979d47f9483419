/**
 * The limits between a decision to accept and the ledger: the hub's daily limit and the flood windows. What a flush asks before it
 * records, and what it says afterwards. Money is the ledger's (`spend.ts`).
 *
 * A place in the windows is a reservation: final once the message is accepted, given back when it is not, and lapsing by
 * itself when the process does not come to either. It stands under the send's reference, not under its message id, so that two
 * concurrent sends with one `client_ref` have one place between them, whichever is recorded: a repeat is never
 * refused for the window that its first spent.
 *
 * Source: specification, Limits, and Errors, rules 3 and 4; contract, Unavailability.
 */
import { type ApiError, apiError } from '@hub/contract'
import { Counters, type FloodReservation, secondsToNextDay, utcDay } from '@hub/counters'
import { Context, Duration, Effect, Layer } from 'effect'
import { HubSettings } from '../accounts/hub-settings.ts'
import { type CheckedSend, type MessageDraft, floodKey } from './checked-send.ts'

/** A send that is about to be accepted under an id. */
export interface SendReservation {
  readonly checked: CheckedSend
  readonly draft: MessageDraft
  readonly messageId: string
}

/** The least that the specification lets a client wait at the hub's daily limit, seconds. */
const DAILY_LIMIT_MIN_SECONDS = 60

/** For how long giving back may keep a code's refusal waiting; it goes on behind it. */
const GIVE_BACK_WITHIN = Duration.millis(300)

const placeOf = ({
  checked,
  messageId,
}: Pick<SendReservation, 'checked' | 'messageId'>): FloodReservation => ({
  account: checked.owner.accountUuid,
  mode: checked.owner.mode,
  recipient: checked.recipient,
  reservationId: floodKey(checked.owner, checked.clientRef, messageId),
})

export class Limits extends Context.Service<
  Limits,
  {
    /** Whether anything new may be accepted: `null`, or seconds until it may. `at`: PostgreSQL's clock. Never fails: what cannot be read does not stop. */
    readonly daily: (at: number) => Effect.Effect<number | null>
    /** Takes places in the windows. One answer for each, in order: `null`, or why it is refused. */
    readonly reserve: (
      reservations: ReadonlyArray<SendReservation>,
    ) => Effect.Effect<ReadonlyArray<ApiError | null>>
    /** They are accepted: makes places final and counts the day. */
    readonly accepted: (reservations: ReadonlyArray<SendReservation>, at: number) => Effect.Effect<void>
    /** They are not accepted after all. Bounded; what fails lapses by itself. */
    readonly giveBack: (reservations: ReadonlyArray<SendReservation>) => Effect.Effect<void>
  }
>()('@hub/command-api/Limits') {
  static readonly layer: Layer.Layer<Limits, never, Counters | HubSettings> = Layer.effect(
    Limits,
    Effect.gen(function* () {
      const counters = yield* Counters
      const settings = yield* HubSettings

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

      /** The sandbox counts for one number only, but a hub without its counter refuses what is not a code in both modes. */
      const isAway = counters.ping.pipe(
        Effect.as(false),
        Effect.catch(() => Effect.succeed(true)),
      )

      const reserve = Effect.fnUntraced(function* (reservations: ReadonlyArray<SendReservation>) {
        const counted = reservations.filter(({ draft }) => draft.windows !== null)
        const asksOnly = reservations.some(({ draft }) => draft.windows === null && draft.class === 'service')
        const [verdicts, away] = yield* Effect.all(
          [
            counted.length === 0
              ? Effect.succeed([])
              : counters
                  .reserveFlood(counted.map((one) => ({ ...placeOf(one), windows: one.draft.windows! })))
                  .pipe(Effect.catch(() => Effect.succeed(null))),
            asksOnly ? isAway : Effect.succeed(false),
          ],
          { concurrency: 'unbounded' },
        )
        const byClaimant = new Map(counted.map((one, i) => [one, verdicts?.[i]]))
        return reservations.map((one): ApiError | null => {
          const { checked, draft } = one
          const param = checked.path === '' ? 'to' : `${checked.path}.to`
          const unavailable = draft.windows === null ? away : verdicts === null
          if (unavailable) {
            return draft.class === 'otp' ? null : apiError('recipient_flood_limited', { param })
          }
          const verdict = byClaimant.get(one)
          if (verdict === undefined || verdict.reserved) return null
          const { retryAfterSeconds, window } = verdict
          return apiError('recipient_flood_limited', { param, window, retryAfter: retryAfterSeconds })
        })
      })

      const finalise = (reservations: ReadonlyArray<SendReservation>, at: number) => {
        const counted = reservations.filter(({ draft }) => draft.windows !== null)
        return counted.length === 0
          ? Effect.void
          : counters.confirmFlood(counted.map((one) => ({ ...placeOf(one), at })))
      }

      return {
        daily,
        reserve,
        accepted: (reservations, at) =>
          reservations.length === 0
            ? Effect.void
            : Effect.all(
                [
                  finalise(reservations, at),
                  // A count that is lost is made good when the counters are rebuilt.
                  Effect.ignore(counters.daily.count(utcDay(at), reservations.length)),
                ],
                { concurrency: 'unbounded', discard: true },
              ),
        giveBack: (reservations) => {
          const counted = reservations.filter(({ draft }) => draft.windows !== null)
          return counted.length === 0
            ? Effect.void
            : counters
                .releaseFlood(counted.map(placeOf))
                .pipe(Effect.timeoutOption(GIVE_BACK_WITHIN), Effect.ignore)
        },
      }
    }),
  )
}
