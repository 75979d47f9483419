/**
 * All keys in Redis. `{…}` is the hash tag: the keys of one script share it, so that a Redis
 * cluster keeps them on one node.
 *
 * | key                                        | type   | content                                       | time to live                                     |
 * | ------------------------------------------ | ------ | --------------------------------------------- | ------------------------------------------------ |
 * | `rate:{<key id>}`                          | string | time of the last token, debt                  | 1 min: a full bucket (1 s) equals no bucket      |
 * | `gate:{<address>}`                         | list   | times of the 21 newest failures               | 2 min: only the last minute counts               |
 * | `gate:{<address>}:attempts`                | zset   | login attempt → end of lease                  | 5 s: a crashed process ends no attempt           |
 * | `{f<bucket>}:flood:<account>:<mode>:<hash>`| zset   | reservation id → time                         | 25 h: the day's window and a margin of an hour   |
 * | `{f<bucket>}:reserved`                     | zset   | reservation id and flood key → end of lease   | 25 h: like the flood key                         |
 * | `{f<bucket>}:generation`                   | string | `ready:…` or `building:…`                     | unlimited: its absence shows a lost store        |
 * | `daily:<date>`                             | string | messages of the day                           | 3 days: the day, and time to inspect it          |
 * | `rebuild`                                  | string | token of the rebuilding process               | 10 s, renewed: a crashed process loses it        |
 * | `shared:{<name>}`                          | string | a shared text, such as the rate at an operator | by its owner                                     |
 *
 * The times to live are longer than the windows, because scores measure the windows, not the expiry
 * of keys.
 *
 * Flood keys have a fixed number of hash tags (buckets), not one per account. So a fixed set of
 * `generation` keys marks all buckets as rebuilt, a new account needs no mark, and a cluster node
 * that has lost its data is detected.
 */
import type { FloodReservation } from './port.ts'

/** Enough to spread over the nodes of a cluster, and few enough to read all generations at once. */
export const BUCKETS = 64

export const TTL = {
  rateMs: 60_000,
  gateMs: 120_000,
  floodMs: 90_000_000,
  dailyMs: 259_200_000,
  rebuildMs: 10_000,
} as const

/** FNV-1a, 32 bits: evenly distributed, and the same in every process. */
const fnv1a = (text: string): number => {
  let hash = 0x811c9dc5
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193)
  return hash >>> 0
}

/** The bucket of the flood windows of an account and mode. */
export const bucketOf = (reservation: Pick<FloodReservation, 'account' | 'mode'>): number =>
  fnv1a(`${reservation.account}:${reservation.mode}`) % BUCKETS

/** The names of the keys, each with `prefix`, which must not contain a brace. */
export const keyNames = (prefix: string) => ({
  rate: (keyId: string) => `${prefix}rate:{${keyId}}`,
  gate: (address: string) => `${prefix}gate:{${address}}`,
  attempts: (address: string) => `${prefix}gate:{${address}}:attempts`,
  flood: (bucket: number, { account, mode, recipient }: FloodReservation) =>
    `${prefix}{f${bucket}}:flood:${account}:${mode}:${recipient}`,
  reserved: (bucket: number) => `${prefix}{f${bucket}}:reserved`,
  generation: (bucket: number) => `${prefix}{f${bucket}}:generation`,
  daily: (day: string) => `${prefix}daily:${day}`,
  rebuild: `${prefix}rebuild`,
  shared: (name: string) => `${prefix}shared:{${name}}`,
})

export type KeyNames = ReturnType<typeof keyNames>
