/** How much a shard keeps in memory, and for how long. Each constant states its reason. */
import { LONGEST_LIFETIME_SECONDS } from '@hub/config'

export interface ShardLimits {
  /** The messages with a payload in memory, for each lane and operator. */
  readonly buffer: number
  readonly open: number
  readonly finished: number
  /** See `RE_APPEND_BEHIND`, which is the default. */
  readonly reAppendBehind?: number
}

/**
 * 2,000 payloads of 1 kB are one or two seconds of work for a fast operator. 120,000 open messages
 * take about 110 MB, and 100,000 final ones (7,700 per second, more than one shard can do) 25 MB.
 * The memory budget bounds all shards of a process.
 */
export const DEFAULT_LIMITS: ShardLimits = { buffer: 2000, open: 120_000, finished: 100_000 }

/** The messages in the memory of a process, over all of its shards. */
export interface MemoryBudget {
  used: number
  /** At this number no lane is read. */
  readonly limit: number
}

/** `otp` is lane 0, `service` is lane 1. */
export const LANES = 2

/**
 * How long a shard remembers a final message and pins its final fact. Most records that a busy
 * shard reads at a restart are such facts. A later repeat is old, so the shard looks it up.
 */
export const REMEMBERED_MS = 13_000

/** How long a final message stays complete, to match repeated reports and early read receipts. */
export const COMPLETE_MS = 10_000

/**
 * The maximum clock difference between PostgreSQL, command-api and the dispatcher. From one second
 * on, command-api is not ready, and `hubctl doctor` warns.
 */
export const CLOCK_SKEW_MS = 3000

/**
 * A lane record is old if it reaches the lane, or is read, later than this after its acceptance. It
 * may repeat a message that became final and that the shard has forgotten, so it is looked up.
 */
export const OLD_AFTER_MS = REMEMBERED_MS - CLOCK_SKEW_MS

/**
 * The longest time to live of any version. If a message became final longer ago, a repeated lane
 * record has expired too, so the shard need not remember the message.
 */
export const LONGEST_LIFETIME_MS = LONGEST_LIFETIME_SECONDS.service * 1000

/**
 * A shard re-appends open messages when a restart would read more log records than this, plus
 * `RE_APPEND_RATIO` for each pinned one. A busy shard appends so many in ten seconds.
 */
export const RE_APPEND_BEHIND = 5000

/** With 100,000 open messages a restart reads 150,000 more records, in less than three seconds. */
export const RE_APPEND_RATIO = 1.5

/** Messages in one re-append record: 20 kB, or about 80 kB if each message has ten parts. */
export const RE_APPENDED_IN_ONE = 100

/** `service` leaves a tenth of all limits to `otp`, so that a campaign cannot stop codes. */
export const SERVICE_SHARE = 0.9

/** A full shard resumes a lane below this share, so that it does not pause for every record. */
export const ROOM_SHARE = 0.9

/**
 * The payload bytes of one lane and operator, more than 2,000 short messages need. It bounds messages
 * of ten parts with many variables.
 */
export const BUFFER_BYTES = 2 * 1024 * 1024

/** Memory of a complete message, and of one of which only the id is left; measured with 100,000. */
export const MESSAGE_BYTES = 910
export const REMEMBERED_BYTES = 260

/** The memory that a queued message takes in addition to its encrypted payload. */
export const ENVELOPE_BYTES = 512
