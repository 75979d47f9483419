/** Sends receipts and inbound messages over the receiving binds until each is acknowledged. */
import { once } from 'node:events'
import { setTimeout as delay } from 'node:timers/promises'
import { makeDueQueue } from '../due-queue.ts'
import { GIVE_UP_AFTER_MS, type Operator, type Receipt } from '../operator.ts'
import { codec, STATUS } from './codec.ts'
import { type Fields, type Inbound, inboundFields, receiptFields } from './receipt.ts'
import type { Session } from './session.ts'

/** The maximum of `deliver_sm` in flight on a bind. */
const WINDOW = 100
/** The interval between checks for due deliveries, while any wait. */
const IDLE_MS = 10
/** The delay before an unacknowledged delivery is repeated. */
const RETRY_MS = 500
/**
 * A delivery without a response after this time is repeated. If nothing at all has arrived meanwhile, the
 * bind is dead, and the SMSC closes it.
 */
const ANSWER_WITHIN_MS = 10_000
/** The maximum of waiting parts of inbound messages. */
const MAX_INBOUND = 10_000

/** Either a receipt or a part of an inbound message. */
type Delivery =
  | { readonly type: 'receipt'; readonly receipt: Receipt }
  | { readonly type: 'inbound'; readonly fields: Fields; readonly since: number }

/** A bind that receives. */
export interface Receiver {
  readonly session: Session
  readonly inFlight: Map<number, { readonly delivery: Delivery; readonly sentAt: number }>
  /** When the last PDU arrived, milliseconds since the epoch. */
  receivedAt: number
}

export interface Deliveries {
  readonly join: (session: Session) => Receiver
  /** Removes a closed bind. Its unacknowledged deliveries wait for another bind. */
  readonly leave: (receiver: Receiver) => void
  /** Sends over the preferred bind, else over any other. Returns false if no bind receives. */
  readonly sendNow: (receipt: Receipt, preferred: Receiver | null) => boolean
  /** Queues an inbound message. Returns its number of parts, or null if too many parts wait. */
  readonly receive: (message: Inbound) => number | null
  /** Receipts and parts of inbound messages that are due now or later and not acknowledged. */
  readonly unacknowledged: () => number
  /** Runs until the signal. */
  readonly run: (signal: AbortSignal) => Promise<void>
}

export const makeDeliveries = (operator: Operator, answerWithinMs = ANSWER_WITHIN_MS): Deliveries => {
  const receivers: Array<Receiver> = []
  const inbound = makeDueQueue<Extract<Delivery, { type: 'inbound' }>>(operator.pushes)
  let references = 0
  let turn = 0
  let checkedAt = 0

  const requeue = (delivery: Delivery, at: number): void => {
    const since = delivery.type === 'receipt' ? delivery.receipt.due : delivery.since
    if (at - since > GIVE_UP_AFTER_MS) return
    if (delivery.type === 'receipt') operator.queueReceipt(delivery.receipt, at)
    else inbound.push(at, delivery)
  }

  const acknowledged = (delivery: Delivery): void => {
    if (delivery.type === 'receipt') operator.acknowledgeReceipts([delivery.receipt])
    else operator.inboundAcknowledged(1)
  }

  /** Writes a delivery to a bind. */
  const send = (receiver: Receiver, delivery: Delivery, now: number): void => {
    const fields =
      delivery.type === 'receipt' ? receiptFields(delivery.receipt, operator.behaviour()) : delivery.fields
    const { session, inFlight } = receiver
    const pdu = new codec.PDU('deliver_sm', fields)
    const written = session.send(pdu, (answer) => {
      const settled = inFlight.get(answer.sequence_number)
      // The response is late: the delivery was already repeated.
      if (settled === undefined) return
      inFlight.delete(answer.sequence_number)
      if (answer.command_status === STATUS.ok) acknowledged(settled.delivery)
      else requeue(settled.delivery, Date.now() + RETRY_MS)
    })
    if (!written) return requeue(delivery, now)
    inFlight.set(pdu.sequence_number, { delivery, sentAt: now })
    if (delivery.type === 'receipt') operator.sent(1)
  }

  const nextReceiver = (): Receiver | null => {
    for (let i = 0; i < receivers.length; i++) {
      const receiver = receivers[(turn + i) % receivers.length]
      if (receiver !== undefined && receiver.inFlight.size < WINDOW) {
        turn = (turn + i + 1) % receivers.length
        return receiver
      }
    }
    return null
  }

  /** Sends the due deliveries as far as the windows allow. */
  const pump = (now: number): void => {
    const room = receivers.reduce((sum, { inFlight }) => sum + WINDOW - inFlight.size, 0)
    if (room === 0) return
    const due: Array<Delivery> = [...inbound.take(now, room)]
    for (const receipt of operator.takeDueReceipts(now, room - due.length)) {
      due.push({ type: 'receipt', receipt })
    }
    if (due.length === 0) return
    for (const { session } of receivers) session.socket.cork()
    for (const delivery of due) {
      const receiver = nextReceiver()
      if (receiver === null) requeue(delivery, now)
      else send(receiver, delivery, now)
    }
    for (const { session } of receivers) session.socket.uncork()
  }

  const requeueUnanswered = (now: number): void => {
    for (const { inFlight, receivedAt, session } of receivers) {
      for (const [sequence, { delivery, sentAt }] of inFlight) {
        if (now - sentAt < answerWithinMs) continue
        inFlight.delete(sequence)
        requeue(delivery, now)
        if (receivedAt < sentAt) session.socket.resetAndDestroy()
      }
    }
  }

  return {
    join: (session) => {
      const receiver: Receiver = { session, inFlight: new Map(), receivedAt: Date.now() }
      receivers.push(receiver)
      return receiver
    },
    leave: (receiver) => {
      const index = receivers.indexOf(receiver)
      if (index < 0) return
      receivers.splice(index, 1)
      const now = Date.now()
      for (const { delivery } of receiver.inFlight.values()) requeue(delivery, now)
      receiver.inFlight.clear()
    },
    sendNow: (receipt, preferred) => {
      const receiver = preferred ?? nextReceiver()
      if (receiver === null) return false
      send(receiver, { type: 'receipt', receipt }, Date.now())
      return true
    },
    receive: (message) => {
      const now = Date.now()
      const parts = inboundFields(message, references++ % 256)
      if (inbound.size() + parts.length > MAX_INBOUND) return null
      for (const fields of parts) inbound.push(now, { type: 'inbound', fields, since: now })
      operator.inbound(parts.length)
      return parts.length
    },
    unacknowledged: () =>
      receivers.reduce(
        (sum, { inFlight }) => sum + inFlight.size,
        inbound.size() + operator.receiptsWaiting(),
      ),
    run: async (signal) => {
      while (!signal.aborted) {
        const now = Date.now()
        pump(now)
        if (now - checkedAt > 1000) {
          checkedAt = now
          requeueUnanswered(now)
        }
        const isIdle =
          inbound.size() + operator.receiptsWaiting() === 0 &&
          receivers.every(({ inFlight }) => inFlight.size === 0)
        const waiting = isIdle
          ? once(operator.pushes, 'push', { signal })
          : delay(IDLE_MS, undefined, { signal })
        await waiting.catch(() => {})
      }
    },
  }
}
