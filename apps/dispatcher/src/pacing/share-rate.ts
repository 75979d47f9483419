/**
 * One rate for the whole hub: each request of a dispatcher changes the state of the operator
 * (`hub-rate.ts`), which all dispatchers share. While a dispatcher cannot reach it, it keeps to the
 * part of the rate that corresponds to its shards, in a state of its own. No two dispatchers own a
 * shard, so these parts add up to the rate.
 */
import type { SharedTextsShape } from '@hub/counters'
import { Effect, Result, Schema } from 'effect'
import { type Grant, grant, HubRate, newHubRate, type GrantRequest } from './hub-rate.ts'
import { type LearnedRate, UNLIMITED } from './learned-rate.ts'

/** A limit hardly changes within a day. Without it, the hub has no limit until it is throttled. */
const TTL_MS = 86_400_000
/**
 * A dispatcher uses its last grants, and then submits nothing for the rest of this time, before it
 * continues alone. Others may still count on it, and a connection to Redis is replaced this soon.
 */
const ALONE_AFTER_MS = 500

const decode = Schema.decodeUnknownResult(Schema.fromJsonString(HubRate))

/** The state in a text of this version. `null`: there is none, so nothing was learned yet. */
const stateOf = (text: string | null): HubRate | null => {
  if (text === null) return null
  const read = decode(text)
  return Result.isSuccess(read) ? read.success : null
}

/** The learned rate on a clock that is this much ahead. */
const moved = (learned: LearnedRate, byMs: number): LearnedRate => ({
  ...learned,
  fellAt: learned.fellAt + byMs,
  pausedUntil: learned.pausedUntil + byMs,
  tenthAt: learned.tenthAt + byMs,
})

export interface RateSharing {
  /** Returns `null` if the request did not arrive. */
  readonly request: (request: Omit<GrantRequest, 'member'>) => Effect.Effect<Grant | null>
  /** Whether the last request changed the shared state. */
  readonly isShared: () => boolean
}

export const makeRateSharing = (options: {
  readonly operator: string
  /** Parts per second of the whole hub; `null`: no limit is configured. */
  readonly configured: number | null
  /** Identifies this process. */
  readonly member: string
  readonly shared: SharedTextsShape
  /** Milliseconds of a clock that never jumps. */
  readonly now: () => number
}): RateSharing => {
  const { configured, member, now, shared } = options
  let sharedAt = Number.NEGATIVE_INFINITY
  /** What was learned last, on the clock of this process. */
  let learned = UNLIMITED
  let own: HubRate | null = null

  const change = (request: GrantRequest) =>
    shared.change(`rate:1:${options.operator}`, TTL_MS, (text, storeNow) => {
      const ahead = storeNow - now()
      const before = stateOf(text) ?? newHubRate(storeNow, moved(learned, ahead))
      const next = grant(before, request, configured, storeNow)
      const result = { grant: next.grant, learned: moved(next.state.learned, -ahead) }
      return { text: JSON.stringify(next.state), result }
    })

  const alone = (request: GrantRequest): Grant => {
    const at = now()
    own ??= newHubRate(at, learned)
    // The answers to this process stand for those to all.
    const scale = request.shards > 0 ? 1 / request.shards : 1
    const scaled = { ...request, passed: request.passed * scale, newPassed: request.newPassed * scale }
    const next = grant({ ...own, completeAt: at }, scaled, configured, at)
    own = next.state
    learned = next.state.learned
    return next.grant
  }

  return {
    isShared: () => own === null && sharedAt !== Number.NEGATIVE_INFINITY,
    request: (request) => {
      const full = { ...request, member }
      return change(full).pipe(
        Effect.map((result): Grant | null => {
          sharedAt = now()
          own = null
          learned = result.learned
          return result.grant
        }),
        Effect.catch(() =>
          Effect.sync(() => (own === null && now() - sharedAt < ALONE_AFTER_MS ? null : alone(full))),
        ),
      )
    },
  }
}
