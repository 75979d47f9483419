/**
 * Dispatchers, the shared state of their rate, and an operator that throttles, in virtual time: a
 * minute takes milliseconds, and the same seed gives the same run.
 */
import type { SubmitOutcome } from '@hub/operator'
import { type Answer, Pace } from '../handover/pace.ts'
import { grant, type HubRate, newHubRate, type GrantRequest } from '../pacing/hub-rate.ts'

/** How an operator counts the parts that it accepts in a second. */
export const COUNTERS = ['clock second', 'own second', 'last second', 'token bucket'] as const
export type Counter = (typeof COUNTERS)[number]

export interface VirtualHubOptions {
  readonly seed: number
  readonly seconds: number
  readonly counter: Counter
  /** Parts per second that the operator accepts at a time, ms. */
  readonly allowed: (now: number) => number
  readonly dispatchers: number
  /** The parts of a message. Default: 1. */
  readonly parts?: (random: number) => number
  /** Codes per second of the whole hub. Each dispatcher has `service` messages without end. */
  readonly otpPerSecond?: number
  /** From the write of a part to its answer, ms. Default: 20. */
  readonly roundTripMs?: number
  /** The share of answers that get lost. */
  readonly lost?: number
  readonly configured?: number
  /** When a dispatcher joins, dies or stands still, ms. Default: all join at 0. */
  readonly joinsAt?: (dispatcher: number) => number
  readonly diesAt?: (dispatcher: number) => number
  readonly standsStill?: (dispatcher: number) => { readonly from: number; readonly to: number } | null
}

interface Run {
  /** When the operator accepted or throttled a part, ms. */
  readonly accepted: ReadonlyArray<number>
  readonly throttled: ReadonlyArray<number>
  /** When a part was written, ms. */
  readonly written: ReadonlyArray<number>
  /** From the acceptance of a code by the hub until the operator accepted it, ms, with its time. */
  readonly codes: ReadonlyArray<{ readonly at: number; readonly ms: number }>
  /** The rate of the hub after each request. */
  readonly rates: ReadonlyArray<{ readonly at: number; readonly rate: number | null }>
}

/** A random number in [0, 1), always the same sequence for a seed. */
const randomOf = (seed: number) => {
  let state = seed
  return (): number => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
}

/** Actions in the order of their times. */
class Agenda {
  readonly #heap: Array<{ readonly at: number; readonly id: number; readonly run: () => void }> = []
  #ids = 0

  #isBefore(one: number, other: number): boolean {
    const [a, b] = [this.#heap[one]!, this.#heap[other]!]
    return a.at < b.at || (a.at === b.at && a.id < b.id)
  }

  #swap(one: number, other: number): void {
    const [a, b] = [this.#heap[one]!, this.#heap[other]!]
    this.#heap[one] = b
    this.#heap[other] = a
  }

  add(at: number, run: () => void): void {
    this.#heap.push({ at, id: this.#ids++, run })
    for (let i = this.#heap.length - 1; i > 0;) {
      const parent = (i - 1) >> 1
      if (!this.#isBefore(i, parent)) break
      this.#swap(i, parent)
      i = parent
    }
  }

  next(): { readonly at: number; readonly run: () => void } | undefined {
    const heap = this.#heap
    if (heap.length === 0) return undefined
    this.#swap(0, heap.length - 1)
    const first = heap.pop()
    for (let i = 0; ;) {
      let least = i
      for (const child of [2 * i + 1, 2 * i + 2]) {
        if (child < heap.length && this.#isBefore(child, least)) least = child
      }
      if (least === i) return first
      this.#swap(i, least)
      i = least
    }
  }
}

/** Returns whether the operator accepts a part now. Below 1 part per second, its second is longer. */
const makeOperator = (counter: Counter, allowed: (now: number) => number, phase: number) => {
  let begun = Number.NEGATIVE_INFINITY
  let count = 0
  let tokens: number | null = null
  let refilledAt = 0
  const recent: Array<number> = []
  return (now: number): boolean => {
    const rate = allowed(now)
    const second = Math.max(1000, 1000 / rate)
    const most = Math.max(1, rate)
    switch (counter) {
      case 'clock second':
      case 'own second': {
        const clock = Math.floor((now + phase) / second) * second - phase
        const next = counter === 'clock second' ? clock : now - begun >= second ? now : begun
        if (next !== begun) count = 0
        begun = next
        if (count + 1 > most) return false
        count++
        return true
      }
      case 'last second':
        while (recent[0] !== undefined && recent[0] <= now - second) recent.shift()
        if (recent.length + 1 > most) return false
        recent.push(now)
        return true
      case 'token bucket':
        tokens = Math.min(most, (tokens ?? most) + ((now - refilledAt) / 1000) * rate)
        refilledAt = now
        if (tokens < 1) return false
        tokens--
        return true
    }
  }
}

const WINDOW = 100
/** As in a shard with a long backlog. */
const WAITING = 4000
const OTP = 0
const SERVICE = 1
/** After a death, the others own its shards: the session timeout, and the time of a rebalance. */
const TAKEN_OVER_AFTER_MS = 7000

export const runVirtualHub = (options: VirtualHubOptions): Run => {
  const {
    allowed,
    configured = null,
    counter,
    diesAt = () => Number.POSITIVE_INFINITY,
    joinsAt = () => 0,
    lost = 0,
    otpPerSecond = 0,
    parts: partsOf = () => 1,
    roundTripMs = 20,
    seconds,
    seed,
    standsStill = () => null,
  } = options
  const random = randomOf(seed)
  const agenda = new Agenda()
  let now = 0
  const after = (ms: number, run: () => void) => agenda.add(now + Math.max(0, ms), run)
  const between = (least: number, most: number) => least + random() * (most - least)
  const accepts = makeOperator(counter, allowed, between(0, 1000))
  let shared: HubRate = newHubRate(0)
  const accepted: Array<number> = []
  const throttled: Array<number> = []
  const written: Array<number> = []
  const codes: Array<{ readonly at: number; readonly ms: number }> = []
  const rates: Array<{ readonly at: number; readonly rate: number | null }> = []

  /** The share of the shards: the living members own all, but those of a member that died recently. */
  const shardsOf = (dispatcher: number): number => {
    const members = Array.from({ length: options.dispatchers }, (_, i) => i)
    const isMember = (i: number) => now >= joinsAt(i) && now < diesAt(i) + TAKEN_OVER_AFTER_MS
    return isMember(dispatcher) ? 1 / members.filter(isMember).length : 0
  }

  const start = (dispatcher: number) => {
    const pace = new Pace({ dedupesByReference: false, isPaced: true, window: WINDOW })
    const granted = pace.granted!
    const waitingCodes: Array<number> = []
    let nextParts = partsOf(random())
    let inProgress = 0
    let isRequesting = false
    let held: Array<() => void> = []
    let timer = { at: Number.POSITIVE_INFINITY, id: 0 }
    const isAlive = () => now < diesAt(dispatcher)
    const stillness = standsStill(dispatcher)
    /** Runs an action when the process runs. */
    const whenRunning = (ms: number, run: () => void) =>
      after(ms, () => {
        if (!isAlive()) return
        if (stillness !== null && now >= stillness.from && now < stillness.to)
          agenda.add(stillness.to, () => isAlive() && run())
        else run()
      })

    const submit = (parts: number, codeAt: number | null, attempts: number) => {
      const { reaction } = pace
      const gapMs = pace.partGapMs(parts)
      let open = parts
      let throttledParts = 0
      const onPart = (isLost: boolean) => {
        if (--open > 0) return
        inProgress--
        const outcome: SubmitOutcome = isLost
          ? { type: 'unknown' }
          : throttledParts === parts
            ? { type: 'refused', submitted: true, retryAfterMs: 250, throttledParts }
            : { type: 'accepted', operatorIds: ['1'], ...(throttledParts > 0 ? { throttledParts } : {}) }
        const answer: Answer = { attempts, outcome, parts, reaction }
        pace.answered([answer], now)
        if (outcome.type === 'refused') {
          whenRunning(250 * 2 ** (attempts - 1), () => {
            if (codeAt === null) retries.push(attempts + 1)
            else waitingCodes.unshift(codeAt)
            dispatch()
          })
        }
        dispatch()
      }
      const submitPart = (tries: number) => {
        written.push(now)
        after(between(0.35, 0.65) * roundTripMs, () => {
          const isAccepted = accepts(now)
          ;(isAccepted ? accepted : throttled).push(now)
          if (isAccepted && codeAt !== null) codes.push({ at: codeAt, ms: now - codeAt })
          if (!isAccepted) throttledParts++
          const isLost = random() < lost
          // The SMPP adapter repeats a throttled part of a message of which another part was accepted.
          const repeats = !isAccepted && parts > 1 && throttledParts < parts
          whenRunning(between(0.35, 0.65) * roundTripMs, () => {
            if (!isAccepted && parts > 1) {
              pace.throttled({ attempts, reaction })
              dispatch()
            }
            if (repeats) whenRunning(250 * 2 ** tries, () => submitPart(tries + 1))
            else onPart(isLost)
          })
        })
      }
      for (let part = 0; part < parts; part++) whenRunning(part * gapMs, () => submitPart(0))
    }

    /** The attempts of throttled messages that may be submitted again. */
    const retries: Array<number> = []

    const dispatch = () => {
      if (!isAlive()) return
      if (!pace.isHeld(now)) for (const write of held.splice(0)) write()
      for (const lane of [OTP, SERVICE]) {
        while (pace.room(lane, inProgress, now) > 0 && pace.mayTake(now)) {
          if (lane === OTP && waitingCodes.length === 0) break
          const codeAt = lane === OTP ? waitingCodes.shift()! : null
          const parts = lane === OTP ? 1 : nextParts
          const attempts = lane === OTP ? 1 : (retries.shift() ?? 1)
          if (lane === SERVICE) nextParts = partsOf(random())
          pace.took(parts)
          inProgress++
          // The claim, with its acknowledgement by Kafka.
          whenRunning(between(4, 12), () => {
            const write = () => submit(parts, codeAt, attempts)
            if (pace.isHeld(now)) held.push(write)
            else write()
          })
        }
      }
      settled()
    }

    const waiting = () => ({ otp: waitingCodes.length, service: WAITING })
    const request = () => {
      isRequesting = true
      const own: GrantRequest = {
        ...granted.request(waiting(), now),
        member: String(dispatcher),
        nextParts: waitingCodes.length > 0 ? 1 : nextParts,
        shards: shardsOf(dispatcher),
      }
      after(between(0.3, 2), () => {
        const next = grant(shared, own, configured, now)
        shared = next.state
        rates.push({ at: now, rate: next.grant.rate })
        whenRunning(between(0.2, 1.2), () => {
          isRequesting = false
          granted.accept(next.grant, now)
          dispatch()
        })
      })
    }

    const settled = () => {
      if (!isRequesting && granted.requestAt(waiting()) <= now) request()
      const next = Math.min(
        isRequesting ? Number.POSITIVE_INFINITY : granted.requestAt(waiting()),
        granted.mayTake(now) ? Number.POSITIVE_INFINITY : granted.nextAt(now),
      )
      if (next >= timer.at || next === Number.POSITIVE_INFINITY) return
      const id = timer.id + 1
      timer = { at: next, id }
      // The event loop is busy for some milliseconds.
      whenRunning(Math.max(1, next - now) + between(0, 10), () => {
        if (timer.id !== id) return
        timer = { at: Number.POSITIVE_INFINITY, id }
        dispatch()
      })
    }

    const nextCode = () =>
      whenRunning((-Math.log(1 - random()) * 1000 * options.dispatchers) / otpPerSecond, () => {
        waitingCodes.push(now)
        nextCode()
        dispatch()
      })
    if (otpPerSecond > 0) nextCode()
    dispatch()
  }

  for (let i = 0; i < options.dispatchers; i++) agenda.add(joinsAt(i) + between(0, 50), () => start(i))
  for (let next = agenda.next(); next !== undefined && next.at < seconds * 1000; next = agenda.next()) {
    now = next.at
    next.run()
  }
  return { accepted, throttled, written, codes, rates }
}

/** The number of times in [from, to). */
export const countIn = (times: ReadonlyArray<number>, from: number, to: number): number =>
  times.reduce((count, at) => (at >= from && at < to ? count + 1 : count), 0)

/** The most times in any interval of this length. `times` ascend. */
export const mostWithin = (times: ReadonlyArray<number>, ms: number): number => {
  let first = 0
  let most = 0
  for (let last = 0; last < times.length; last++) {
    while (times[last]! - times[first]! >= ms) first++
    most = Math.max(most, last - first + 1)
  }
  return most
}
