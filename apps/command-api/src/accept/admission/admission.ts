/**
 * Admission control: decides whether the process can answer a send in time, before it does any work
 * for it. Pure: no clock, no I/O. `admission-control.ts` gives it samples, and the HTTP pipeline asks it.
 *
 * **Expected wait.** The process counts the sends in progress and measures how many get their outcome
 * per second. By Little's law, a new send waits for the sends before it, divided by this rate. The
 * delay of the event loop is added, because a request waits there before it is counted, but it uses at
 * most half of a limit. Otherwise a busy process would admit less and less.
 *
 * **Slow servers.** While PostgreSQL or Kafka answers late, each send is in progress for longer, but it
 * waits for no other send. So the limits are longer by the server delay (`server-delay.ts`).
 *
 * **Order.** Codes (`otp`) come before other single sends, and these before batches. So a send waits
 * only for work that is at least as urgent, and has only the part of the rate that more urgent work
 * leaves. Less urgent work is refused first: it is admitted only while the more urgent work uses less
 * than `URGENT` of its own limit.
 *
 * **Shares.** An account may have at most `SHARE` times as much work in progress as there is room left,
 * times its weight. A single account stops at two thirds of the limit, each of ten accounts at a
 * tenth. An account that wants clearly more than its fair rate (`fair-rate.ts`) stops earlier: a part
 * of the room (`RESERVED`) is not for it, and the most work in progress of the last two samples counts
 * instead of the present work. Requests arrive, and sends finish, some hundred at a time. Without this,
 * the account that sends most would take all room that an acceptance batch leaves at its end.
 *
 * **Liveness.** A process without work admits everything. `ALWAYS` sends are admitted whatever was
 * measured, and their outcomes correct a measurement that was too low.
 *
 * Source: AVL-7 to AVL-10; docs/decisions/overload.md.
 */
import { type Demand, fairRate } from './fair-rate.ts'
import { makeServerDelay } from './server-delay.ts'
import { WORK_KINDS, type WorkKind } from './work-kinds.ts'

/** Work for which a client asks. */
export interface Work {
  readonly kind: WorkKind
  /** Any id of the account and mode. */
  readonly account: string
  readonly sends: number
}

/**
 * Why work is refused. `wait`: the answer would come too late. `urgent`: more urgent work waits.
 * `share`: its account uses more than its share.
 */
export type RefusalReason = 'wait' | 'urgent' | 'share'

/** `send`: a single send whose class is not read. `other`: a request that a bound of memory refuses. */
export type RefusedWork = WorkKind | 'send' | 'other'

type WaitLimits = Readonly<Record<WorkKind, number>>
/**
 * The longest expected wait of an admitted send, milliseconds: of a burst, and while the process is
 * busy for longer than that. A burst ends by itself, so it may wait. A standing queue gains nothing and
 * delays everybody, because acceptance batches are large enough without it. The contract promises a
 * single send within 3 s and a batch within 10 s. The goals are a p99 of 0.5 s for codes and of 1.5 s
 * for others.
 */
export const BURST_LIMIT_MS: WaitLimits = { otp: 400, service: 750, batch: 3000 }
export const STANDING_LIMIT_MS: WaitLimits = { otp: 400, service: 300, batch: 1500 }
/** A process has a standing queue after it was busy for so much longer than it was not. */
const STANDING_AFTER_MS = 500
/** Sends in progress below which everything is admitted: the work of some milliseconds. */
export const ALWAYS = 64
/** The share of its limit that more urgent work may use. A single account gets two thirds of it. */
const URGENT = 0.6
/** How many times the free room an account may use. Higher values leave less room unused. */
const SHARE = 2
/**
 * The part of the room that accounts above their fair rates leave to the others. The rest is more than
 * the two acceptance batches that are in progress at a time.
 */
const RESERVED = 0.25
/** Sends per second before anything was measured: a process that has just started. */
export const INITIAL_RATE = 2000
/** A rate below this is not measured: one send per sample. */
const LOWEST_RATE = 10
/** The process is busy while the sends in progress are the work of at least this time and the server delay. */
const BUSY_MS = 100
/** In this time, a measured rate follows two thirds of a change. One acceptance batch ends at once. */
const FOLLOWS_WITHIN_MS = 500
/** The same for a process that is not busy, where the rate is only a lower bound. */
const SMOOTHED_OVER_MS = 1000
/** In this time, the demand of an account follows two thirds of a change. Its sends arrive in bursts. */
const DEMAND_FOLLOWS_WITHIN_MS = 500
/**
 * At most this part of all demand counts as capacity. So the accounts that want most are clearly above
 * their fair rate also while the rate is measured too high, as in a burst after the start of a process.
 */
const SHARED_DEMAND = 0.7
/**
 * How many times its fair rate an account may want before it is limited. Measured demands vary by a
 * tenth, so accounts just below their fair rate would often be taken for heavy ones.
 */
const TOLERATED = 1.25
/** An account that wants fewer sends per second is forgotten. */
const LOWEST_DEMAND = 0.1
/** In this time, the share of the capacity in use follows two thirds of a change: half a scrape. */
const USE_FOLLOWS_WITHIN_MS = 5000
/** The highest demand that is shown, in times of the capacity. */
const HIGHEST_DEMAND = 10
/** A rate that was measured too low doubles in this time while the process is not busy. */
const RECOVERS_WITHIN_MS = 500

/** What was measured since the last sample. */
export interface Sample {
  /** Length of the sample. */
  readonly ms: number
  /** How late the event loop was, milliseconds. */
  readonly eventLoopDelayMs: number
  /** The share of the time in which the event loop had work, from 0 to 1. */
  readonly eventLoopUtilization: number
}

interface Counts {
  readonly otp: number
  readonly service: number
  readonly batch: number
}
const NONE: Counts = { otp: 0, service: 0, batch: 0 }
const UNLIMITED: Counts = { otp: Infinity, service: Infinity, batch: Infinity }

/** The work that is at least as urgent as `kind`. */
const upTo = (kind: WorkKind, { batch, otp, service }: Counts): number =>
  kind === 'otp' ? otp : kind === 'service' ? otp + service : otp + service + batch

/** For each kind, the work that is at least as urgent. */
const cumulated = (counts: Counts): Counts => ({
  otp: upTo('otp', counts),
  service: upTo('service', counts),
  batch: upTo('batch', counts),
})

interface AccountWork {
  /** In progress. */
  counts: Counts
  weight: number
  /** Admitted and refused in this sample. */
  wanted: Counts
  /** The same as sends per second, smoothed. */
  demand: Counts
}

const add = (counts: Counts, kind: WorkKind, sends: number): Counts => ({
  ...counts,
  [kind]: counts[kind] + sends,
})

/** The share of a change that a measurement follows in a sample. */
const followed = (ms: number, withinMs: number): number => 1 - Math.exp(-ms / withinMs)

/** Smoothed sends per second of each kind, after a sample with `counts` sends. */
const follow = (smoothed: Counts, counts: Counts, ms: number, withinMs: number): Counts => {
  const of = (kind: WorkKind): number =>
    smoothed[kind] + followed(ms, withinMs) * ((1000 * counts[kind]) / ms - smoothed[kind])
  return { otp: of('otp'), service: of('service'), batch: of('batch') }
}

export const makeAdmission = (initialRate = INITIAL_RATE) => {
  /** Sends per second that get their outcome at full load. */
  let rate = initialRate
  /** Sends per second, smoothed: with an outcome, and admitted by kind. */
  let smoothed = 0
  let arriving = NONE
  let eventLoopDelayMs = 0
  /** How much longer the process was busy than not, up to twice `STANDING_AFTER_MS`. */
  let busyMs = 0
  let total = NONE
  /** The accounts with work in progress, or with a demand. */
  const byAccount = new Map<string, AccountWork>()
  /** The fair rate of an account of weight 1, for each kind with the more urgent ones. */
  let fair: Counts = UNLIMITED
  let used = 0
  /** Since the last sample. */
  let finished = 0
  let refused = 0
  let arrived = NONE
  let fewest = 0
  /** The most work in progress in this sample and in the one before, for each kind and more urgent ones. */
  let most = NONE
  let mostBefore = NONE
  const serverDelay = makeServerDelay()

  const sum = (): number => upTo('batch', total)
  const limits = (): WaitLimits => (busyMs > STANDING_AFTER_MS ? STANDING_LIMIT_MS : BURST_LIMIT_MS)
  const isAlwaysAdmitted = (sends: number): boolean => sum() === 0 || sum() + sends <= ALWAYS
  /** The part of the rate that more urgent work leaves, sends per second. */
  const rateLeft = (kind: WorkKind): number => Math.max(0, rate - (upTo(kind, arriving) - arriving[kind]))
  /** The longest expected wait, milliseconds. */
  const limit = (kind: WorkKind): number => limits()[kind] + serverDelay.addedMs(kind)
  /** The sends that the process can finish within the limit of a kind, without the delay of the event loop. */
  const room = (kind: WorkKind): number => {
    const limitMs = limits()[kind]
    const leftMs = Math.max(limitMs / 2, limitMs - eventLoopDelayMs)
    return (rateLeft(kind) * (leftMs + serverDelay.addedMs(kind))) / 1000
  }
  const waitMs = (kind: WorkKind): number =>
    (1000 * upTo(kind, total)) / Math.max(LOWEST_RATE, rateLeft(kind)) + eventLoopDelayMs

  const workOf = (account: string): AccountWork => {
    const known = byAccount.get(account)
    if (known !== undefined) return known
    const own = { counts: NONE, weight: 1, wanted: NONE, demand: NONE }
    byAccount.set(account, own)
    return own
  }
  const want = ({ account, kind, sends }: Work): void => {
    const own = workOf(account)
    own.wanted = add(own.wanted, kind, sends)
  }
  const change = (kind: WorkKind, account: string, sends: number): void => {
    total = add(total, kind, sends)
    const own = workOf(account)
    own.counts = add(own.counts, kind, sends)
    fewest = Math.min(fewest, sum())
    const now = cumulated(total)
    most = {
      otp: Math.max(most.otp, now.otp),
      service: Math.max(most.service, now.service),
      batch: Math.max(most.batch, now.batch),
    }
  }
  const highest = (kind: WorkKind): number => Math.max(most[kind], mostBefore[kind])

  /** Ends the sample of each account. */
  const measureDemands = (ms: number): void => {
    for (const [account, own] of byAccount) {
      own.demand = follow(own.demand, own.wanted, ms, DEMAND_FOLLOWS_WITHIN_MS)
      own.wanted = NONE
      const isIdle = upTo('batch', own.counts) === 0 && upTo('batch', own.demand) < LOWEST_DEMAND
      if (isIdle) byAccount.delete(account)
    }
    const accounts = [...byAccount.values()]
    const fairOf = (kind: WorkKind): number => {
      const demands = accounts.map(({ demand, weight }): Demand => ({ rate: upTo(kind, demand), weight }))
      const all = demands.reduce((sum, demand) => sum + demand.rate, 0)
      return fairRate(demands, Math.min(rate, SHARED_DEMAND * all))
    }
    fair = { otp: fairOf('otp'), service: fairOf('service'), batch: fairOf('batch') }
  }

  /** Why the limits of its own kind refuse the work. */
  const refusalOfKind = ({ account, kind, sends }: Work): 'wait' | 'share' | null => {
    const all = room(kind)
    const free = all - upTo(kind, total)
    if (sends > free) return 'wait'
    const { counts = NONE, demand = NONE, weight = 1 } = byAccount.get(account) ?? {}
    const own = upTo(kind, counts)
    if (own === 0) return null
    const isAboveFairRate = byAccount.size > 1 && upTo(kind, demand) > TOLERATED * weight * fair[kind]
    const left = isAboveFairRate ? (1 - RESERVED) * all - highest(kind) : free
    return own + sends > SHARE * weight * left ? 'share' : null
  }

  return {
    /** Why the work must be refused; `null`: it is admitted. Changes nothing. */
    refusal: ({ account, kind, sends }: Work): RefusalReason | null => {
      if (isAlwaysAdmitted(sends)) return null
      for (const urgent of WORK_KINDS) {
        if (urgent === kind) break
        if (upTo(urgent, total) + 1 > URGENT * room(urgent)) return 'urgent'
        if (refusalOfKind({ account, kind: urgent, sends: 1 }) !== null) return 'share'
      }
      return refusalOfKind({ account, kind, sends })
    },
    /** Sets the weight of an account that has work in progress or a demand. Default 1. */
    weigh: (account: string, weight: number): void => {
      const own = byAccount.get(account)
      if (own !== undefined) own.weight = weight
    },
    /** Admitted work begins. It counts as an arrival, so each work begins once. */
    begin: (work: Work): void => {
      const { account, kind, sends } = work
      arrived = add(arrived, kind, sends)
      want(work)
      change(kind, account, sends)
    },
    /** The number of sends of work in progress was an estimate, and is known now. */
    resize: ({ account, kind, sends }: Work, known: number): void => change(kind, account, known - sends),
    /** Work ends without an outcome, such as a request that a later check refused. */
    end: ({ account, kind, sends }: Work): void => change(kind, account, -sends),
    /** Sends get their outcome. */
    finish: ({ account, kind, sends }: Work): void => {
      change(kind, account, -sends)
      finished += sends
    },
    /** A new message of this kind was accepted so many milliseconds after its acceptance batch began. */
    accepted: serverDelay.accepted,

    /** Work was refused. */
    refused: (work: Work): void => {
      refused += work.sends
      want(work)
    },

    /** Ends a sample, in which the rate is measured. */
    sample: ({ eventLoopDelayMs: delay, eventLoopUtilization, ms }: Sample): void => {
      eventLoopDelayMs = delay
      const perSecond = (1000 * finished) / ms
      smoothed += followed(ms, SMOOTHED_OVER_MS) * (perSecond - smoothed)
      arriving = follow(arriving, arrived, ms, FOLLOWS_WITHIN_MS)
      // Only a process that always had work shows how much it can do. Otherwise the rate is that of
      // the clients, which is a lower bound.
      if (fewest >= Math.max(ALWAYS, (rate * (BUSY_MS + serverDelay.addedMs('batch'))) / 1000)) {
        busyMs = Math.min(2 * STANDING_AFTER_MS, busyMs + ms)
        rate += followed(ms, FOLLOWS_WITHIN_MS) * (perSecond - rate)
      } else {
        busyMs = Math.max(0, busyMs - ms)
        const recovered = Math.min(initialRate, rate * 2 ** (ms / RECOVERS_WITHIN_MS))
        rate = Math.max(rate, recovered, smoothed)
      }
      rate = Math.max(LOWEST_RATE, rate)
      measureDemands(ms)
      // Below the limits, the busier of the event loop and the servers behind it counts.
      const demand =
        refused === 0 ? 0 : Math.min(HIGHEST_DEMAND, (finished + refused) / Math.max(1, finished))
      const use = Math.max(eventLoopUtilization, waitMs('service') / limit('service'), demand)
      used += followed(ms, USE_FOLLOWS_WITHIN_MS) * (use - used)
      finished = 0
      refused = 0
      arrived = NONE
      fewest = sum()
      mostBefore = most
      most = cumulated(total)
      serverDelay.sample(ms, eventLoopUtilization)
    },

    /** Sends per second that the process can do, as measured. */
    rate: (): number => rate,
    inProgress: (): number => sum(),
    /** Milliseconds that a new send would wait. */
    expectedWaitMs: waitMs,
    /**
     * The share of the capacity in use. Below 1, the share of the event loop or of the wait for a single
     * `service` send, whichever is higher. Above 1, the sends of the clients ÷ those that were done.
     */
    capacityUsed: (): number => used,
    /** False if work of so many sends is admitted at present, whatever its kind and account. */
    mayRefuse: (sends: number): boolean => !isAlwaysAdmitted(sends),
  }
}
export type Admission = ReturnType<typeof makeAdmission>
