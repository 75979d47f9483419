/**
 * Corrects the counters in Redis from the ledger: lost flood windows, and the hub's daily count.
 * Source: docs/architecture.md, Accepting.
 */
import { Counters, type FloodAcceptance, keepFloodWindowsReady, utcDay } from '@hub/counters'
import { encodeId, recipientHash, SANDBOX_SCENARIOS } from '@hub/domain'
import { Sql, type StorageError } from '@hub/store'
import { Clock, Duration, Effect, Fiber, Layer, Option, Schedule, Stream } from 'effect'
import { HubSettings } from '../../accounts/hub-settings.ts'
import { floodReservationId } from '../check/checked-send.ts'
import { countAcceptancesOf, type FloodRow, selectFloodRows } from '../ledger/tables/acceptances-counters.ts'

/** Rows of one read: they occupy a connection for some milliseconds. */
const ROWS = 5000
/** How long the start of the process waits for the latest confirmations. */
const FIRST_WITHIN = Duration.seconds(1)
/** The longest flood window. */
const DAY_SECONDS = 24 * 60 * 60
/** A crashed process is replaced within seconds. Older reservations are confirmed or expired. */
const LATEST_SECONDS = 120
const DEADLINE = { deadline: Duration.seconds(5) }
/** How often the daily count is compared with the ledger, if there is a daily limit. */
const COUNT_EVERY = Duration.minutes(1)

const toAcceptance = (row: FloodRow): FloodAcceptance => {
  const owner = { account: encodeId('acc', row.account), mode: row.mode }
  return {
    account: row.account,
    mode: row.mode,
    recipient: row.recipient,
    reservationId: floodReservationId(owner, row.client_ref, encodeId('msg', row.id)),
    at: row.at,
  }
}

/** The only number with flood windows in test mode. */
const ANTI_FLOOD_NUMBER = `+790000000${String(SANDBOX_SCENARIOS.indexOf('anti_flood') + 1).padStart(2, '0')}`

/** The acceptances of the last seconds that flood windows count, in the order of ids. */
export const acceptancesSince = (
  sql: Sql['Service'],
  hashSecret: string | Uint8Array,
  seconds: number,
): Stream.Stream<FloodAcceptance, StorageError> => {
  const sandboxRecipient = recipientHash(hashSecret, ANTI_FLOOD_NUMBER)
  return Stream.paginate(null as string | null, (after) =>
    sql
      .run((q) => selectFloodRows(q, { after, seconds, limit: ROWS }, sandboxRecipient), DEADLINE)
      .pipe(
        Effect.map((rows) => {
          const last = rows.length < ROWS ? undefined : rows.at(-1)
          return [rows.map(toAcceptance), last === undefined ? Option.none() : Option.some(last.id)] as const
        }),
      ),
  )
}

export const countersFromLedgerLayer = (
  hashSecret: string | Uint8Array,
): Layer.Layer<never, never, Sql | Counters | HubSettings> =>
  Layer.effectDiscard(
    Effect.gen(function* () {
      const sql = yield* Sql
      const counters = yield* Counters
      const settings = yield* HubSettings

      /** With a count that is too low, the hub would exceed its daily limit. */
      const correctDailyCount = Effect.gen(function* () {
        if ((yield* settings.current).dailyLimit === null) return
        const day = utcDay(yield* Clock.currentTimeMillis)
        yield* counters.daily.raise(day, yield* sql.run((q) => countAcceptancesOf(q, day), DEADLINE))
      }).pipe(
        Effect.catch((error) =>
          Effect.annotateLogs(
            Effect.logDebug(
              'counters: the daily count was not compared with the ledger; the next run does it',
            ),
            { error: error._tag },
          ),
        ),
      )

      /** Confirms the reservations of a process that crashed between its commit and this step. */
      const confirmLatest = Stream.runForEachArray(
        acceptancesSince(sql, hashSecret, LATEST_SECONDS),
        counters.confirmFlood,
      ).pipe(
        Effect.catch((error) =>
          Effect.annotateLogs(
            Effect.logWarning(
              'counters: the latest flood reservations were not confirmed from the ledger; they may expire',
            ),
            { error: error._tag },
          ),
        ),
      )

      yield* Effect.forkScoped(Effect.repeat(correctDailyCount, Schedule.spaced(COUNT_EVERY)))
      yield* keepFloodWindowsReady(acceptancesSince(sql, hashSecret, DAY_SECONDS))
      // Usually done before the first request.
      const confirming = yield* Effect.forkScoped(confirmLatest)
      yield* Effect.timeoutOption(Fiber.await(confirming), FIRST_WITHIN)
    }),
  )
