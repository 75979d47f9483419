/**
 * The clients of the API: they send messages and batches, repeat what they got no answer to, and
 * recipients opt out. Then the checks of what they were told.
 */
import { type CheckedSend, type SendOutcome } from '@hub/command-api'
import { checkedSend, otpSend, owner, templateOf } from '@hub/command-api/testing'
import type { FloodWindows } from '@hub/counters'
import {
  DEFAULT_SETTINGS,
  encodeId,
  minorUnits,
  type MessageAccepted,
  type MessageClass,
  type Money,
  recipientHash,
} from '@hub/domain'
import { decodeFact, topicNames } from '@hub/kafka'
import { decodePayload } from '@hub/store'
import { Cause, Effect, Exit, Result } from 'effect'
import { plainOf } from '../dispatching/stores.ts'
import type { SimulatedProcess } from '../world/process.ts'
import type { Simulation } from '../world/simulation.ts'
import type { CommandApis } from './command-apis.ts'

/** A client waits this long for an answer, and repeats a send with a reference. */
const ANSWER_WITHIN_MS = { single: 4000, batch: 11_000 }
/** The windows count from the reservation, which is before the time of acceptance. */
const RESERVED_BEFORE_MS = 5000

const OTP_TEMPLATE = templateOf()
const SERVICE_TEMPLATE = templateOf({
  name: 'order_ready',
  class: 'service',
  body: 'Order {{order}} is ready',
})

/** One send of a client, with all answers to it and its repeats. */
interface ClientSend {
  /** It is in the text of the message, by which its records are recognized. */
  readonly code: string
  readonly clientRef: string | null
  readonly class: MessageClass
  readonly to: string
  readonly accepted: Set<string>
  attempts: number
  /** Attempts that ended without an answer, or with an unknown outcome. */
  uncertain: number
  isSettled: boolean
}

interface ClientsOptions {
  /** The number of sends. */
  readonly count: number
  readonly numbers: ReadonlyArray<string>
  readonly hashSecret: string
  /** The sends begin within this time. */
  readonly withinMs: number
  /** Stores that hub staff opted a recipient out. Default: in the ledger only. */
  readonly optOutByStaff?: (recipient: string) => void
}

export const startClients = (
  simulation: Simulation,
  { acceptors, ledger, processes, recordersOf }: CommandApis,
  { count, hashSecret, numbers, optOutByStaff, withinMs }: ClientsOptions,
) => {
  const { broker, faults, violations, world } = simulation
  const random = simulation.random('clients')
  const topics = topicNames()
  const windows: FloodWindows = random.chance(0.5)
    ? { pauseSeconds: 0, perHour: null, perDay: null }
    : {
        pauseSeconds: random.pick([0, 0, 8, 20]),
        perHour: random.between(1, 6),
        perDay: random.between(1, 9),
      }
  const spendLimit: Money | null = random.chance(0.6)
    ? null
    : { amount: `${random.between(4, 40)}.00`, currency: 'RUB' }
  const settings = {
    ...DEFAULT_SETTINGS,
    spendLimit,
    floodWindows: windows as typeof DEFAULT_SETTINGS.floodWindows,
  }
  /** When recipients were opted out, by recipient hash. */
  const optOuts = new Map<string, Array<{ readonly from: number; until: number }>>()
  const setOptOut = (recipient: string, isOptedOut: boolean) => {
    const periods = optOuts.get(recipient) ?? []
    optOuts.set(recipient, periods)
    if (isOptedOut) {
      periods.push({ from: world.now(), until: Number.POSITIVE_INFINITY })
      ledger.optedOut.add(recipient)
    } else {
      const last = periods.at(-1)
      if (last !== undefined) last.until = world.now()
      ledger.optedOut.delete(recipient)
    }
  }
  let batchIds = 0
  /** The process that got each batch. */
  const processOfBatch = new Map<string, SimulatedProcess>()

  const checked = (send: ClientSend, batch: string | null): CheckedSend => {
    const { clientRef, code, to } = send
    const context = { settings, hashSecret, ...(batch === null ? {} : { batch }) }
    return send.class === 'otp'
      ? checkedSend(otpSend({ clientRef, to, variables: { code } }), OTP_TEMPLATE, owner, context)
      : checkedSend(
          otpSend({ clientRef, to, class: 'service', template: 'order_ready', variables: { order: code } }),
          SERVICE_TEMPLATE,
          owner,
          context,
        )
  }

  /** Requests that are repeated until they have a final answer. Two of them may be about one send. */
  let open = 0
  const begin = (request: ReadonlyArray<ClientSend>) => {
    open++
    attempt(request)
  }
  const attemptLater = (sends: ReadonlyArray<ClientSend>) => {
    if (sends.length === 0) open--
    else world.after(random.between(50, 3000), () => attempt(sends))
  }
  /** Returns whether the client repeats the send. */
  const onAnswer = (send: ClientSend, outcome: SendOutcome | null): boolean => {
    if (outcome !== null && Result.isSuccess(outcome)) {
      const { duplicate, view } = outcome.success
      world.note('client', () => `${send.code} is accepted as ${view.id}${duplicate ? ', a duplicate' : ''}`)
      send.accepted.add(view.id)
      // Some clients lose the answer and repeat.
      if (send.clientRef !== null && !faults.isOver && random.chance(0.2)) return true
      send.isSettled = true
      return false
    }
    const code = outcome?.failure.code
    const isUncertain = outcome === null || outcome.failure.outcome === 'unknown'
    world.note(
      'client',
      () =>
        `${send.code} ${code === undefined ? 'gets no answer' : `fails: ${code}`}${isUncertain ? ', unknown' : ''}`,
    )
    if (isUncertain) send.uncertain++
    const isFinal =
      send.clientRef === null ||
      code === 'recipient_opted_out' ||
      code === 'spend_limit_reached' ||
      (code === 'recipient_flood_limited' && (faults.isOver || send.attempts > 6))
    // Some clients give up after a refusal, and then nothing may be sent.
    const givesUp = !isUncertain && random.chance(0.2)
    if (isFinal || givesUp) send.isSettled = true
    return !isFinal && !givesUp
  }

  const attempt = (sends: ReadonlyArray<ClientSend>) => {
    const [process, acceptor] = random.pick([...acceptors, [null, null] as const])
    if (process === null || process.isPaused) return attemptLater(sends)
    const isBatch = sends.length > 1
    const batch = isBatch
      ? { id: encodeId('bat', uuidOf(++batchIds)), owner, total: sends.length, malformed: 0 }
      : null
    if (batch !== null) processOfBatch.set(batch.id, process)
    for (const send of sends) send.attempts++
    const checkedSends = sends.map((send) => checked(send, batch?.id ?? null))
    let isOver = false
    const answer = (outcomes: ReadonlyArray<SendOutcome> | null) => {
      if (isOver) return
      isOver = true
      attemptLater(sends.filter((send, i) => onAnswer(send, outcomes?.[i] ?? null)))
    }
    world.after(ANSWER_WITHIN_MS[isBatch ? 'batch' : 'single'], () => answer(null))
    world.after(random.between(1, 20), () =>
      process.post(() => {
        world.note(
          process.name,
          () =>
            `gets ${sends.map((send) => `${send.code} (${send.class}, ${send.clientRef ?? 'no reference'})`).join(', ')}`,
        )
        const context = batch === null ? {} : { batch }
        const fiber = Effect.runForkWith(process.context)(acceptor.accept(checkedSends, context))
        fiber.addObserver((exit) => {
          if (Exit.isSuccess(exit)) {
            world.after(random.between(1, 20), () => answer(exit.value.outcomes))
          } else if (!Cause.hasInterruptsOnly(exit.cause)) {
            violations.add('a send dies', `${sends[0]?.code ?? ''}: ${Cause.pretty(exit.cause)}`)
          }
        })
      }),
    )
  }

  // ---- the workload

  /** How many of the requests are batches. */
  const batches = simulation.random('batches').pick([0.2, 0.2, 0.7])
  const sends: Array<ClientSend> = []
  while (sends.length < count) {
    const size = random.chance(batches) ? Math.min(random.between(2, 5), count - sends.length) : 1
    const request = Array.from({ length: size }, (_, i): ClientSend => {
      const number = sends.length + i
      return {
        code: String(10_000 + number),
        clientRef: random.chance(0.8) ? `ref-${number}` : null,
        class: random.pick(['otp', 'service']),
        to: random.pick(numbers),
        accepted: new Set(),
        attempts: 0,
        uncertain: 0,
        isSettled: false,
      }
    })
    sends.push(...request)
    world.after(random.between(0, withinMs), () => {
      begin(request)
      // An impatient client sends twice at once.
      if (request.every(({ clientRef }) => clientRef !== null) && random.chance(0.2)) begin(request)
    })
  }
  if (random.chance(0.4)) {
    const recipient = recipientHash(hashSecret, random.pick(numbers))
    world.after(random.between(0, withinMs), () => {
      world.note('hub staff', () => 'opt a recipient out')
      if (optOutByStaff === undefined) setOptOut(recipient, true)
      else optOutByStaff(recipient)
    })
  }

  // ---- the checks

  /** The text of a message contains the code of its send. */
  const codeOf = ({ ciphertext }: MessageAccepted): string =>
    /\d{5}/u.exec(decodePayload(plainOf(ciphertext))?.text ?? '')?.[0] ?? 'none'

  /** The accepted messages in the lanes, by code. */
  const published = () => {
    const byCode = new Map<string, Map<string, MessageAccepted>>()
    for (const topic of [topics.acceptedOtp, topics.acceptedService]) {
      for (const record of broker.topic(topic).flat()) {
        const fact = decodeFact(record)
        if (Result.isFailure(fact) || fact.success.type !== 'MessageAccepted') continue
        const code = codeOf(fact.success)
        const known = byCode.get(code) ?? new Map<string, MessageAccepted>()
        byCode.set(code, known)
        // The read model keeps the first record of a message, with its batch.
        if (!known.has(fact.success.messageId)) known.set(fact.success.messageId, fact.success)
      }
    }
    return byCode
  }

  const checkSends = (byCode: ReturnType<typeof published>) => {
    for (const { accepted, clientRef, code, uncertain } of sends) {
      const ids = new Set(byCode.get(code)?.keys())
      for (const id of accepted) {
        if (!ids.has(id)) violations.add('an acknowledged send is lost', `${code}: ${id}`)
      }
      if (clientRef !== null && new Set([...accepted, ...ids]).size > 1) {
        violations.add('a reference identifies two messages', `${clientRef}: ${[...accepted, ...ids].join()}`)
      }
      if (accepted.size === 0 && uncertain === 0 && ids.size > 0) {
        violations.add('a refused send is published', `${code}: ${[...ids].join()}`)
      }
    }
  }

  /**
   * Charges equal what is published, but for codes with an unknown outcome, and codes of a process that
   * ended before it refunded them. The reconciler, which is not simulated, refunds or charges these.
   */
  const checkCharges = (byCode: ReturnType<typeof published>) => {
    const messages = new Map([...byCode.values()].flatMap((known) => [...known]))
    const unknown = new Set(sends.filter(({ uncertain }) => uncertain > 0).map(({ code }) => code))
    const isLeftToReconciler = (fact: MessageAccepted) =>
      fact.class === 'otp' &&
      (unknown.has(codeOf(fact)) ||
        [...recordersOf(fact.messageId)].some((process) => !processes.isUnharmed(process)))
    for (const [id, fact] of messages) {
      if (!ledger.charged.has(id) && !isLeftToReconciler(fact)) violations.add('a message is not charged', id)
    }
    for (const id of ledger.charged) {
      const fact = ledger.rows.get(id)?.fact
      if (fact === undefined || messages.has(id) || isLeftToReconciler(fact)) continue
      violations.add('a charge has no message', `${codeOf(fact)}: ${id}`)
    }
    if (spendLimit !== null) {
      const spent = [...ledger.charged].reduce(
        (sum, id) => sum + minorUnits(ledger.rows.get(id)!.fact.price),
        0n,
      )
      if (spent > minorUnits(spendLimit))
        violations.add('the spend limit is exceeded', `${spent} of ${spendLimit.amount}`)
    }
  }

  /** A code passes without Redis, and a process that ends forgets its reservations. */
  const checkFloodWindows = () => {
    const tolerated = 1 + processes.interruptions
    const times = new Map<string, Array<number>>()
    for (const { fact } of ledger.rows.values()) {
      if (!ledger.charged.has(fact.messageId)) continue
      if (fact.class !== 'service') continue
      times.set(fact.recipient, [...(times.get(fact.recipient) ?? []), fact.at])
    }
    const check = (all: ReadonlyArray<number>, limit: number | null, ms: number) => {
      if (limit === null || ms <= 0) return
      for (const from of all) {
        const within = all.filter((at) => at >= from && at < from + ms - RESERVED_BEFORE_MS).length
        if (within > limit + tolerated) violations.add('a flood window is exceeded', `${within} of ${limit}`)
      }
    }
    for (const all of times.values()) {
      check(all, 1, windows.pauseSeconds * 1000)
      check(all, windows.perHour, 3_600_000)
      check(all, windows.perDay, 86_400_000)
    }
  }

  const checkOptOuts = () => {
    for (const { fact } of ledger.rows.values()) {
      if (fact.class !== 'service') continue
      const periods = optOuts.get(fact.recipient) ?? []
      if (periods.some(({ from, until }) => fact.at > from && fact.at < until)) {
        violations.add('a recipient who opted out gets a message', fact.messageId)
      }
    }
  }

  /**
   * The sweeper, which is not simulated, seals a batch whose process ended or could not seal it, and one
   * whose codes were all refused. A batch stays open while a code of it is neither proven nor refunded.
   */
  const checkBatches = (byCode: ReturnType<typeof published>) => {
    const isLeftToSweeper = (id: string) => {
      const process = processOfBatch.get(id)
      return (
        process === undefined ||
        !processes.isUnharmed(process) ||
        (world.warnings.get(process.name) ?? []).some((text) => text.includes('the sweeper seals it'))
      )
    }
    const messages = [...byCode.values()].flatMap((known) => [...known.values()])
    const hasUnproven = (id: string) =>
      [...ledger.rows.values()].some(
        ({ fact }) =>
          fact.batch === id && ledger.charged.has(fact.messageId) && !ledger.projected.has(fact.messageId),
      )
    for (const { accepted, id, sealedAt } of ledger.batches.values()) {
      const members = messages.filter(({ batch }) => batch === id)
      if (sealedAt === null) {
        if (members.length > 0 && !isLeftToSweeper(id) && !hasUnproven(id))
          violations.add('a batch stays open', id)
      } else if (
        // It is never completed.
        accepted > members.length ||
        // A code whose append has an unknown outcome may become a member later.
        (accepted < members.length && members.every((one) => one.class === 'service'))
      ) {
        violations.add('a batch is sealed with a wrong number', `${id}: ${accepted}, not ${members.length}`)
      }
    }
  }

  return {
    sends,
    setOptOut,
    /** The ids of all messages in the lanes. */
    publishedIds: () => [...published().values()].flatMap((known) => [...known.keys()]),
    isDone: () => open === 0 && sends.every(({ isSettled }) => isSettled) && ledger.outbox.size === 0,
    checkProgress: () => {
      for (const send of sends) {
        if (!send.isSettled)
          violations.add('a send is never accepted', `${send.code} after ${send.attempts} attempts`)
      }
      if (ledger.outbox.size > 0) violations.add('outbox rows stay', [...ledger.outbox.keys()].join())
    },
    check: () => {
      const byCode = published()
      checkSends(byCode)
      checkCharges(byCode)
      checkFloodWindows()
      checkOptOuts()
      checkBatches(byCode)
    },
  }
}

const uuidOf = (number: number) => `01890000-0000-7000-9000-${number.toString(16).padStart(12, '0')}`
