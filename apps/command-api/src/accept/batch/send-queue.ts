/**
 * The sends that wait for an acceptance batch, and the order in which acceptance batches take them.
 * Pure: no clock, no I/O.
 *
 *  1. Sends that must be decided again. They have waited longest.
 *  2. Sends that have waited too long for their place in the order, the one that is overdue for longest
 *     first. Admission control bounds all sends in progress, so these never delay the others for long.
 *  3. Codes (`otp`) before `service`, and within a class single sends before batches. A batch with
 *     sends of both classes counts as `service`.
 *
 * Accounts take turns, in proportion to their weights, so an account with many sends delays only itself. Its codes count for its turns
 * with other sends too. The sends of a request keep their order.
 *
 * Source: docs/decisions/overload.md.
 */
import { FairTurns } from '@hub/actor'
import { ownerKey } from '../../accounts/account.ts'
import { isOnlyCodes, type PendingRequest, type PendingSend } from '../request.ts'

/**
 * The queues, in the order of 3. `turn`: the sends that an account may add in its turn. A larger turn
 * lets the batches of several accounts end one after the other instead of all at the end. `overdueMs`:
 * the wait after which a send goes first: just before its request could not be recorded in time any
 * more (`request.ts`).
 */
const QUEUES = [
  { turn: 1, overdueMs: 300 },
  { turn: 250, overdueMs: 4000 },
  { turn: 1, overdueMs: 1200 },
  { turn: 250, overdueMs: 4000 },
] as const

const queueOf = (request: PendingRequest): number =>
  (isOnlyCodes(request) ? 0 : 2) + (request.context.batch === undefined ? 0 : 1)

/** The sends of an account, in the order of arrival. */
interface Waiting {
  readonly account: string
  readonly sends: Array<PendingSend>
  /** Index of the next send. */
  next: number
}

/** Adds a send to the acceptance batch; false if there is no room. */
type Add = (send: PendingSend) => boolean

interface Overdue {
  readonly send: PendingSend
  /** Milliseconds, by the clock of `arrivedAt`. */
  readonly since: number
  readonly remove: () => void
}

/** Taken sends of an account that stay in memory before the others are moved. */
const MAX_TAKEN = 1000

/** One queue, in which accounts take turns. */
const makeTurns = (
  { overdueMs, turn }: (typeof QUEUES)[number],
  /** A send of the account was taken. `cost`: the part of a turn that it uses. */
  onTaken: (account: string, cost: number) => void,
) => {
  let count = 0
  const accounts = new Map<string, Waiting>()
  const turns = new FairTurns<null>()

  /** Removes the next send of an account. */
  const shift = (waiting: Waiting): void => {
    const { account, sends } = waiting
    const { weight = 1 } = sends[waiting.next]!.request.context
    waiting.next++
    count--
    onTaken(account, 1 / weight)
    if (waiting.next === sends.length) {
      accounts.delete(account)
      turns.emptied(account, null)
    } else if (waiting.next > MAX_TAKEN) {
      sends.splice(0, waiting.next)
      waiting.next = 0
    }
  }

  return {
    count: () => count,
    /** The account has used a part of its turn, also by a send of another queue. */
    charge: (account: string, cost: number): void => turns.served(account, cost),
    push: (account: string, sends: ReadonlyArray<PendingSend>): void => {
      count += sends.length
      const waiting = accounts.get(account)
      if (waiting === undefined) accounts.set(account, { account, sends: [...sends], next: 0 })
      else for (const send of sends) waiting.sends.push(send)
      turns.add(account, null)
    },
    /** The overdue sends. Those of an account must be removed in their order. */
    overdue: (now: number): ReadonlyArray<Overdue> => {
      const found: Array<Overdue> = []
      for (const waiting of accounts.values()) {
        for (let i = waiting.next; i < waiting.sends.length; i++) {
          const send = waiting.sends[i]!
          const since = send.request.arrivedAt + overdueMs
          if (since > now) break
          found.push({ send, since, remove: () => shift(waiting) })
        }
      }
      return found
    },
    /** Adds all sends, in turns. False if one has no room. */
    addAll: (add: Add): boolean => {
      for (;;) {
        const next = turns.next()
        if (next === null) return true
        const waiting = accounts.get(next.account)!
        for (let i = 0; i < turn && accounts.has(next.account); i++) {
          if (!add(waiting.sends[waiting.next]!)) return false
          shift(waiting)
        }
      }
    },
  }
}

/** Which sends an acceptance batch takes: those of requests with only codes, the others, or all. */
export type Taken = 'codes' | 'others' | 'all'

export interface QueueOptions {
  /** Sends of an acceptance batch. */
  readonly sends: number
  /** Requests with sends in an acceptance batch. */
  readonly requests: number
  /** Bytes of an acceptance batch. A larger send has one of its own. */
  readonly bytes: number
  /** Estimated bytes of a send. */
  readonly bytesOf: (send: PendingSend) => number
}

export const makeSendQueue = (options: QueueOptions) => {
  const queues: ReadonlyArray<ReturnType<typeof makeTurns>> = QUEUES.map((queue, index) =>
    makeTurns(queue, (account, cost) => {
      for (const charged of queues.slice(index)) charged.charge(account, cost)
    }),
  )
  const of: Readonly<Record<Taken, typeof queues>> = {
    codes: queues.slice(0, 2),
    others: queues.slice(2),
    all: queues,
  }
  /** Always taken with the others. */
  const again: Array<PendingSend> = []
  return {
    /** The number of sends that wait. */
    count: (taken: Taken): number =>
      of[taken].reduce((sum, queue) => sum + queue.count(), taken === 'codes' ? 0 : again.length),
    /** Adds the sends of a request. */
    push: (request: PendingRequest): void => {
      const [first] = request.sends
      if (first !== undefined) queues[queueOf(request)]!.push(ownerKey(first.checked.owner), request.sends)
    },
    /** Adds sends that must be decided again. */
    pushFirst: (sends: ReadonlyArray<PendingSend>): void => void again.unshift(...sends),
    /**
     * Takes the sends of an acceptance batch. `isOpen`: whether a send still waits for its outcome;
     * others are dropped. `now`: milliseconds, by the clock of `arrivedAt`.
     */
    take: (taken: Taken, now: number, isOpen: (send: PendingSend) => boolean): ReadonlyArray<PendingSend> => {
      const sends: Array<PendingSend> = []
      let bytes = 0
      const requests = new Set<PendingRequest>()
      const hasRoomFor = (send: PendingSend): boolean =>
        sends.length === 0 ||
        (sends.length < options.sends &&
          bytes + options.bytesOf(send) <= options.bytes &&
          (requests.size < options.requests || requests.has(send.request)))
      const add = (send: PendingSend): boolean => {
        if (!isOpen(send)) return true
        if (!hasRoomFor(send)) return false
        bytes += options.bytesOf(send)
        requests.add(send.request)
        sends.push(send)
        return true
      }
      if (taken !== 'codes') {
        const noRoomAt = again.findIndex((send) => !add(send))
        again.splice(0, noRoomAt < 0 ? again.length : noRoomAt)
        if (noRoomAt >= 0) return sends
      }
      const overdue = of[taken].flatMap((queue) => queue.overdue(now)).toSorted((a, b) => a.since - b.since)
      for (const { remove, send } of overdue) {
        if (!add(send)) return sends
        remove()
      }
      of[taken].every((queue) => queue.addAll(add))
      return sends
    },
  }
}
export type SendQueue = ReturnType<typeof makeSendQueue>
