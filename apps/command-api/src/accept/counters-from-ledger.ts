/**
 * The flood windows as the ledger knows them: from here a Redis that has lost them is rebuilt, and a day's count is corrected.
 *
 * Source: architecture, Accepting.
 */
import { Counters, type FloodAcceptance, keepFloodWindowsReady, utcDay } from '@hub/counters'
import { encodeId, type Mode, recipientHash, SANDBOX_SCENARIOS } from '@hub/domain'
import { Sql, type StorageError } from '@hub/store'
import { Clock, Duration, Effect, Fiber, Layer, Option, Schedule, Stream } from 'effect'
import { HubSettings } from '../accounts/hub-settings.ts'
import { floodKey } from './checked-send.ts'

/** Rows of one read: some milliseconds of a connection. */
const ROWS = 5000
/** A start waits so long for it. */
const FIRST_WITHIN = Duration.seconds(1)
/** The longest window. */
const DAY_SECONDS = 24 * 60 * 60
/** A process is started anew within seconds after another has died; what is older was made final or has lapsed. */
const LATEST_SECONDS = 120
const DEADLINE = { deadline: Duration.seconds(5) }
/** How often a day's count is compared with the ledger, where there is a limit to keep. */
const COUNT_EVERY = Duration.minutes(1)

interface Row {
  readonly id: string
  readonly account: string
  readonly mode: Mode
  readonly recipient: string
  readonly client_ref: string | null
  readonly at: number
}

const toAcceptance = (row: Row): FloodAcceptance => {
  const owner = { account: encodeId('acc', row.account), mode: row.mode }
  return {
    account: row.account,
    mode: row.mode,
    recipient: row.recipient,
    reservationId: floodKey(owner, row.client_ref, encodeId('msg', row.id)),
    at: row.at,
  }
}

/** The one number of the sandbox that has windows. */
const ANTI_FLOOD_NUMBER = `+790000000${String(SANDBOX_SCENARIOS.indexOf('anti_flood') + 1).padStart(2, '0')}`

/** What was accepted in the last seconds and spends windows, in the order of ids. `hashSecret`: that of the recipient hash. */
export const acceptancesSince = (
  sql: Sql['Service'],
  hashSecret: string | Uint8Array,
  seconds: number,
): Stream.Stream<FloodAcceptance, StorageError> => {
  const sandbox = recipientHash(hashSecret, ANTI_FLOOD_NUMBER)
  const read = (after: string | null) =>
    sql.run(
      (q) => q<Row[]>`
        SELECT message_id AS id, account, mode, encode(recipient, 'hex') AS recipient, client_ref,
               (extract(epoch FROM created_at) * 1000)::float8 AS at
          FROM command.acceptances
         WHERE message_id > coalesce(${after}::uuid, command.uuid_floor(now() - make_interval(secs => ${seconds})))
           AND NOT given_back AND (mode = 'live' OR recipient = decode(${sandbox}, 'hex'))
         ORDER BY message_id LIMIT ${ROWS}`,
      DEADLINE,
    )
  return Stream.paginate(null as string | null, (after) =>
    Effect.map(read(after), (rows) => {
      const last = rows.length < ROWS ? undefined : rows.at(-1)
      return [rows.map(toAcceptance), last === undefined ? Option.none() : Option.some(last.id)] as const
    }),
  )
}

/** Keeps the counters true to the ledger. */
export const countersFromLedgerLayer = (
  hashSecret: string | Uint8Array,
): Layer.Layer<never, never, Sql | Counters | HubSettings> =>
  Layer.effectDiscard(
    Effect.gen(function* () {
      const sql = yield* Sql
      const counters = yield* Counters
      const settings = yield* HubSettings

      /** A count that got lost on its way would let the hub exceed its day. */
      const correct = Effect.gen(function* () {
        if ((yield* settings.current).dailyLimit === null) return
        const day = utcDay(yield* Clock.currentTimeMillis)
        const [row] = yield* sql.run(
          (q) => q<{ count: number }[]>`
            SELECT count(*)::integer AS count FROM command.acceptances
             WHERE message_id >= command.uuid_floor(${day}::date::timestamp AT TIME ZONE 'UTC') AND NOT given_back`,
          DEADLINE,
        )
        yield* counters.daily.raise(day, row?.count ?? 0)
      }).pipe(
        Effect.catch((error) =>
          Effect.annotateLogs(Effect.logDebug("the day's count could not be compared with the ledger"), {
            error: error._tag,
          }),
        ),
      )
      /** A process that died between its commit and this left places that lapse, of messages that go out. */
      const recordLatest = Stream.runForEachArray(
        acceptancesSince(sql, hashSecret, LATEST_SECONDS),
        counters.confirmFlood,
      ).pipe(
        Effect.catch((error) =>
          Effect.annotateLogs(Effect.logWarning('the latest places in the windows were not made final'), {
            error: error._tag,
          }),
        ),
      )

      yield* Effect.forkScoped(Effect.repeat(correct, Schedule.spaced(COUNT_EVERY)))
      yield* keepFloodWindowsReady(acceptancesSince(sql, hashSecret, DAY_SECONDS))
      // Before the first request is taken, unless it takes long.
      const recording = yield* Effect.forkScoped(recordLatest)
      yield* Effect.timeoutOption(Fiber.await(recording), FIRST_WITHIN)
    }),
  )
