/**
 * Every key in Redis, in one place. `{…}` is the hash tag: keys that one script touches share it, so that a cluster keeps them on
 * one node.
 *
 * | key                                        | type   | holds                                         | lives                                            |
 * | ------------------------------------------ | ------ | --------------------------------------------- | ------------------------------------------------ |
 * | `rate:{<key id>}`                          | string | time of the last token, debt                  | 1 min: a full bucket (1 s) is the same as none    |
 * | `gate:{<address>}`                         | list   | times of the 21 newest failures               | 2 min: older than the minute they mean nothing    |
 * | `{f<bucket>}:flood:<account>:<mode>:<hash>`| zset   | message id → time                             | 25 h: the day's window and an hour to spare       |
 * | `{f<bucket>}:reserved`                     | zset   | message id and flood key → end of the lease   | 25 h: as what it points to                        |
 * | `{f<bucket>}:generation`                   | string | `ready:…` or `building:…`                     | for ever: its absence is the sign of a lost store |
 * | `daily:<date>`                             | string | messages of the day                           | 3 days: the day, and time to look at it           |
 * | `rebuild`                                  | string | who rebuilds                                  | 10 s, renewed: a dead process does not hold it    |
 *
 * The times are longer than the windows because the windows are measured by scores, not by expiry.
 *
 * Flood keys are spread over a fixed number of buckets by account and mode, rather than one tag for each: so there is a known set of
 * places that are marked as rebuilt, a new account needs no mark, and a cluster node that lost its data shows.
 */
import type { FloodReservation } from './port.ts'

/** Enough to spread over any cluster, few enough to ask for all their marks at once. */
export const BUCKETS = 64

export const TTL = {
  rateMs: 60_000,
  gateMs: 120_000,
  floodMs: 90_000_000,
  dailyMs: 259_200_000,
  rebuildMs: 10_000,
} as const

/** FNV-1a, 32 bits: short, even, and the same in every process. */
const fnv1a = (text: string): number => {
  let hash = 0x811c9dc5
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193)
  return hash >>> 0
}

/** Where the windows of an account and mode are. */
export const bucketOf = (message: Pick<FloodReservation, 'account' | 'mode'>): number =>
  fnv1a(`${message.account}:${message.mode}`) % BUCKETS

/** Names with `prefix` (which must hold no brace) before each. */
export const keyNames = (prefix: string) => ({
  rate: (keyId: string) => `${prefix}rate:{${keyId}}`,
  gate: (address: string) => `${prefix}gate:{${address}}`,
  flood: (bucket: number, message: FloodReservation) =>
    `${prefix}{f${bucket}}:flood:${message.account}:${message.mode}:${message.recipient}`,
  reserved: (bucket: number) => `${prefix}{f${bucket}}:reserved`,
  generation: (bucket: number) => `${prefix}{f${bucket}}:generation`,
  daily: (day: string) => `${prefix}daily:${day}`,
  rebuild: `${prefix}rebuild`,
})

export type KeyNames = ReturnType<typeof keyNames>
