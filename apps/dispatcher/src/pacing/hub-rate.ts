/**
 * Divides the rate of the hub at one operator among the dispatchers. Pure: no clock and no I/O. All
 * dispatchers change one shared state, one after the other.
 *
 * The rate is a timetable: a part may be submitted each 1/rate seconds. A dispatcher asks for a grant,
 * which is the next free piece of the timetable, and asks again before the grant is used up. Grants do
 * not overlap, so all dispatchers together never exceed the rate, however many there are, and nobody
 * owns a fraction of a part. A grant ends by itself: a process that has died or paused costs nothing
 * else.
 *
 * The next grant goes to the dispatcher that has had the least in proportion to what waits at it.
 * Dispatchers with waiting codes come before all others.
 *
 * Sources: the timetable is the virtual scheduling algorithm of ITU-T I.371 (2004), the turns are those
 * of stride scheduling (C. A. Waldspurger, W. E. Weihl, MIT/LCS/TM-528, 1995), and a grant that ends by
 * itself is a lease (C. G. Gray, D. R. Cheriton, SOSP 1989).
 */
import { Schema } from 'effect'
import { type Answers, learn, LearnedRate, UNLIMITED } from './learned-rate.ts'

/** A request for a grant: what waits at a dispatcher, and what it knows. Messages of granted parts do not wait. */
export interface GrantRequest extends Answers {
  readonly member: string
  /** Waiting messages. */
  readonly otp: number
  readonly service: number
  /** The parts of the next message, which a grant must not split. */
  readonly nextParts: number
  /** The share of all shards that the dispatcher owns, 0 to 1. */
  readonly shards: number
}

const Member = Schema.Struct({
  otp: Schema.Number,
  service: Schema.Number,
  shards: Schema.Number,
  /** The parts that the member has had, divided by what waited at it. */
  served: Schema.Number,
  /** Without a request until this time, the member counts as gone, ms. */
  expectedBy: Schema.Number,
})
type Member = typeof Member.Type

/** The shared state, as JSON in Redis. */
export const HubRate = Schema.Struct({
  learned: LearnedRate,
  /** The end of the last grant, ms. */
  grantedTo: Schema.Number,
  /** While single parts are tried: not before this time, ms. */
  tryAt: Schema.Number,
  /** When the known members owned all shards for the last time, ms. */
  completeAt: Schema.Number,
  members: Schema.Record(Schema.String, Member),
})
export type HubRate = typeof HubRate.Type

export interface Grant {
  /** The reaction to throttled answers that the grant takes into account. */
  readonly reaction: number
  /** Parts per second of the whole hub. `null`: no limit. */
  readonly rate: number | null
  /** The share of the rate that the member gets while as much waits as now, 0 to 1. */
  readonly share: number
  readonly parts: number
  /** From now until the first part, ms. Negative: it is late. */
  readonly startsInMs: number
  /** The time between two parts, ms. */
  readonly everyMs: number
  /** Nothing may be submitted for this time, ms. */
  readonly pausedMs: number
  /** The part only finds out whether the operator accepts parts again. */
  readonly isTry: boolean
  /** A request in less time gets nothing new, ms. */
  readonly retryInMs: number
}

/** The length of the grants of all members together: they are used in turn. */
const ROUND_MS = 100
/** How far grants reach into the future: codes and throttled answers wait no longer. */
const AHEAD_MS = 150
/** At a low rate, a member asks for each part separately, a little before its time. */
const AHEAD_SLOW_MS = 25
/** A grant may begin this late: a process cannot ask at an exact time. */
const LATE_MS = 50
/** If the member whose turn it is does not come in this time, another may. */
const YIELD_MS = 100
/** A member requests a grant at least each tenth of a second, and each second if nothing waits. */
const EXPECTED_MS = 500
const EXPECTED_IDLE_MS = 1500
/**
 * A member without Redis submits the part of the rate that corresponds to its shards. Members that
 * cannot know about it leave that part to it for so long.
 */
const COMPLETE_MS = 3000
/** A part at the lowest rate. */
const LONGEST_PAUSE_MS = 10_000
/** A grant is shorter: ten parts of one message, at a low rate of which a member has a small part. */
const LONGEST_GRANT_MS = 300_000
/** Members own all shards, but for the inexact sum of their shares. */
const ALL_SHARDS = 0.999
/** Other members change the state meanwhile. */
const SOONEST_MS = 5

export const newHubRate = (now: number, learned: LearnedRate = UNLIMITED): HubRate => ({
  learned,
  grantedTo: now,
  tryAt: now,
  completeAt: now,
  members: {},
})

/**
 * The state without times that lie too far in the future. The clock of the shared state may have been
 * set back, and a wait for those times could take hours.
 */
const withoutFuture = (state: HubRate, now: number): HubRate => {
  const { learned } = state
  return {
    ...state,
    grantedTo: state.grantedTo > now + LONGEST_GRANT_MS ? now : state.grantedTo,
    tryAt: state.tryAt > now + LONGEST_PAUSE_MS ? now : state.tryAt,
    completeAt: Math.min(state.completeAt, now),
    members: Object.fromEntries(
      Object.entries(state.members).filter(([, { expectedBy }]) => expectedBy <= now + EXPECTED_IDLE_MS),
    ),
    learned: {
      ...learned,
      fellAt: Math.min(learned.fellAt, now),
      tenthAt: Math.min(learned.tenthAt, now),
      pausedUntil: learned.pausedUntil > now + LONGEST_PAUSE_MS ? now : learned.pausedUntil,
    },
  }
}

const waitingAt = ({ otp, service }: Pick<Member, 'otp' | 'service'>): number => otp + service

/** Applies the request of a member, and gives it a grant. `configured`: parts per second. */
export const grant = (
  stored: HubRate,
  request: GrantRequest,
  configured: number | null,
  now: number,
): { readonly state: HubRate; readonly grant: Grant } => {
  const before = withoutFuture(stored, now)
  const learned = learn(before.learned, request, now)
  const others = Object.entries(before.members).filter(
    ([id, { expectedBy }]) => id !== request.member && expectedBy >= now,
  )
  const waiting = others.map(([, member]) => member).filter((member) => waitingAt(member) > 0)
  const wanted = waitingAt(request)
  const total = waiting.reduce((sum, member) => sum + waitingAt(member), wanted)

  const shards = others.reduce((sum, [, member]) => sum + member.shards, request.shards)
  const completeAt = shards >= ALL_SHARDS ? now : before.completeAt
  const known = now - completeAt < COMPLETE_MS ? Math.min(1, shards) : 1
  const limit = Math.min(configured ?? Number.POSITIVE_INFINITY, learned.rate ?? Number.POSITIVE_INFINITY)
  const rate = limit * known
  const everyMs = 1000 / rate

  // A member that comes back has not saved anything up meanwhile.
  const mine = before.members[request.member]
  const least = waiting.length === 0 ? 0 : Math.min(...waiting.map(({ served }) => served))
  const hasWaited = mine !== undefined && mine.expectedBy >= now && waitingAt(mine) > 0
  const served = hasWaited ? mine.served : Math.max(mine?.served ?? 0, least)

  const result = (granted: Partial<Grant>, times: Pick<HubRate, 'grantedTo' | 'tryAt'>) => {
    const parts = granted.parts ?? 0
    const otp = Math.max(0, request.otp - parts)
    const service = Math.max(0, wanted - otp - parts)
    const member: Member = {
      otp,
      service,
      shards: request.shards,
      served: wanted === 0 ? served : served + parts / wanted,
      expectedBy: now + (otp + service > 0 ? EXPECTED_MS : EXPECTED_IDLE_MS),
    }
    return {
      state: {
        ...times,
        learned,
        completeAt,
        members: { ...Object.fromEntries(others), [request.member]: member },
      },
      grant: {
        reaction: learned.reaction,
        rate: limit === Number.POSITIVE_INFINITY ? null : rate,
        share: wanted === 0 ? 0 : wanted / total,
        parts: 0,
        startsInMs: 0,
        everyMs: 0,
        pausedMs: Math.max(0, learned.pausedUntil - now),
        isTry: learned.tryEveryMs > 0,
        retryInMs: ROUND_MS,
        ...granted,
      },
    }
  }

  if (limit === Number.POSITIVE_INFINITY) return result({}, { grantedTo: now, tryAt: now })
  // Each reaction makes the grants before it void.
  const grantedTo = learned.reaction === before.learned.reaction ? before.grantedTo : now
  const nothing = (retryInMs = ROUND_MS) => result({ retryInMs }, { grantedTo, tryAt: before.tryAt })
  if (wanted === 0) return nothing(SOONEST_MS)
  if (!Number.isFinite(everyMs)) return nothing()
  if (now < learned.pausedUntil) return nothing(learned.pausedUntil - now)

  const isTry = learned.tryEveryMs > 0
  const partsOf = (messages: number) =>
    Math.max(1, Math.min(messages, Math.floor((ROUND_MS / everyMs) * (messages / total))))
  const earliest = isTry ? Math.max(now, before.tryAt) : Math.max(now - LATE_MS, learned.pausedUntil)
  const start = Math.max(grantedTo, earliest)
  // The members whose turn is before this one's: by class, and then by what they have had.
  const hasCodes = request.otp > 0
  const earlier = waiting.filter(({ otp, served: had }) => {
    const theyHave = otp > 0
    return theyHave === hasCodes ? had < served : theyHave
  })
  const isLate = Math.max(grantedTo, learned.pausedUntil) + YIELD_MS <= now
  const theirs = isLate ? 0 : earlier.reduce((sum, member) => sum + partsOf(waitingAt(member)) * everyMs, 0)
  const ahead = everyMs > AHEAD_SLOW_MS ? AHEAD_SLOW_MS : AHEAD_MS
  const roomInMs = start + theirs - (now + ahead)
  if (roomInMs > 0) return nothing(Math.max(SOONEST_MS, Math.min(ROUND_MS, roomInMs)))

  const parts = Math.max(request.nextParts, isTry ? 1 : partsOf(wanted))
  return result(
    { parts, startsInMs: start - now, everyMs, retryInMs: SOONEST_MS },
    { grantedTo: start + parts * everyMs, tryAt: isTry ? start + learned.tryEveryMs : before.tryAt },
  )
}
