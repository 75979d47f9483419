/**
 * What is recorded about the use of API keys: the time and the client address of the last use, and an
 * audit entry when a client address is refused. Both are written in the background, so no request waits for them.
 */
import { randomUUID } from 'node:crypto'
import { CommandApiKeys, CommandAudit, Sql } from '@hub/store'
import { Clock, Duration, Effect, Schedule } from 'effect'
import { NetAddress } from 'effect/net'
import type { Caller } from '../accounts/account.ts'
import type { ClientAddress } from './client-address.ts'

/** Keys that were used are written with this interval: one statement, and one row for each key. */
const WRITE_EVERY = Duration.seconds(10)
/** An address is recorded once in this time for a key, however often it tries. */
const RECORD_EVERY_MS = 3_600_000
/** Recorded pairs of key and address in memory; some 100 bytes each. */
const MAX_RECORDED = 10_000
/** Audit entries of a process in a minute: a stolen key may be tried from many addresses. */
const MAX_ENTRIES_PER_MINUTE = 60
const MINUTE_MS = 60_000
const DEADLINE = { deadline: Duration.seconds(2) }

export const makeKeyUse = Effect.gen(function* () {
  const sql = yield* Sql
  const scope = yield* Effect.scope
  /** The client address of the latest use, by the UUID of the key. */
  let used = new Map<string, ClientAddress>()
  const write = Effect.suspend(() => {
    if (used.size === 0) return Effect.void
    const written = used
    used = new Map()
    const uses = Array.from(written, ([id, address]) => ({
      id,
      address: address === null ? null : NetAddress.formatIp(address),
    }))
    return sql
      .run((q) => CommandApiKeys.setLastUses(q, uses), DEADLINE)
      .pipe(
        // The next write has them again. A use meanwhile is later.
        Effect.catch(() => Effect.sync(() => void (used = new Map([...written, ...used])))),
      )
  })
  yield* Effect.addFinalizer(() => write)
  yield* Effect.forkScoped(Effect.repeat(write, Schedule.spaced(WRITE_EVERY)))

  /** The time of the entry by key and address, oldest first. */
  const recorded = new Map<string, number>()
  let minute = { startedAt: 0, entries: 0 }
  const mayRecord = (pair: string, now: number): boolean => {
    const earlier = recorded.get(pair)
    if (earlier !== undefined && now - earlier < RECORD_EVERY_MS) return false
    if (now - minute.startedAt >= MINUTE_MS) minute = { startedAt: now, entries: 0 }
    if (minute.entries >= MAX_ENTRIES_PER_MINUTE) return false
    minute.entries++
    recorded.delete(pair)
    recorded.set(pair, now)
    const oldest = recorded.size > MAX_RECORDED ? recorded.keys().next().value : undefined
    if (oldest !== undefined) recorded.delete(oldest)
    return true
  }

  return {
    /** Notes that a key was used. `uuid`: of the key. */
    note: (uuid: string, address: ClientAddress): void => void used.set(uuid, address),

    /** Records that an address was refused for a valid key. */
    refusedAddress: (caller: Caller, address: string): Effect.Effect<void> =>
      Effect.flatMap(Clock.currentTimeMillis, (now) =>
        mayRecord(`${caller.key} ${address}`, now)
          ? sql
              .run(
                (q) =>
                  CommandAudit.insertRefusedAddress(q, {
                    run: randomUUID(),
                    key: caller.key,
                    account: caller.account,
                    address,
                  }),
                DEADLINE,
              )
              .pipe(
                Effect.catch((error) =>
                  Effect.annotateLogs(
                    Effect.logWarning('access: a refused client address was not recorded in the audit trail'),
                    { key: caller.key, error: error._tag },
                  ),
                ),
                Effect.forkIn(scope),
                Effect.asVoid,
              )
          : Effect.void,
      ),
  }
})
