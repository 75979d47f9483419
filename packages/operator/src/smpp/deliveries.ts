/**
 * What the centre delivers: receipts become reports, texts become inbound messages, and each is acknowledged once the sink
 * has taken it. What the sink does not take is answered with a temporary error, so that the centre tells it again; what
 * nobody will ever be able to read is acknowledged, since it would come again for ever.
 */
import { createHash, randomUUID } from 'node:crypto'
import { Effect } from 'effect'
import type { InboundMessage, OperatorReport, ReportSink } from '../port.ts'
import { COMMAND_STATUS } from './errors.ts'
import { type Joined, makeJoiner, numberOf } from './inbound.ts'
import type { SmppMetrics } from './metrics.ts'
import { bodyOf, isIntermediate, isReceipt, outcomeOf, readReceipt, reportedId } from './receipt.ts'
import type { Delivery, Session } from './session.ts'
import { SMPP, type SmppSettings } from './settings.ts'
import { type Concatenation, decodeText, readHeader, UDHI } from './text.ts'

const TAKEN = COMMAND_STATUS.ESME_ROK
const TRY_AGAIN = COMMAND_STATUS.ESME_RX_T_APPN

/** Inbound messages whose id is remembered, in case that the centre tells them again. */
const MAX_UNSETTLED = 1000

/** A delivery and who waits for its answer. */
interface Held {
  readonly session: Session
  readonly delivery: Delivery
}

/** The same of a text, with its writer's number. */
interface HeldText extends Held {
  readonly from: string
}

export interface Deliveries {
  readonly take: (session: Session, deliveries: ReadonlyArray<Delivery>) => void
  /** Takes what waited too long for its other parts. */
  readonly sweep: () => void
  /** Forgets what was held for a connection that is gone. */
  readonly ended: (session: Session) => void
}

export interface DeliveriesOptions {
  readonly settings: SmppSettings
  readonly sink: ReportSink['Service']
  readonly metrics: SmppMetrics
  readonly run: (effect: Effect.Effect<void>) => void
  /** Milliseconds since the epoch. */
  readonly now: () => number
  /** A receipt or a text could not be read; `what` is one of a few words. */
  readonly onUnreadable: (what: string) => void
  /** The sink did not take something. */
  readonly onNotTaken: () => void
}

export const makeDeliveries = (options: DeliveriesOptions): Deliveries => {
  const { metrics, now, settings, sink } = options
  const joiner = makeJoiner<HeldText>({ waitMs: settings.joinMs, maxParts: settings.deliverWindow / 2 })
  /** Ids of inbound messages that were not taken yet, by their octets: told again, they are the same. */
  const unsettled = new Map<string, string>()

  const answer = (held: ReadonlyArray<Held>, status: number) => {
    const sessions = new Map<Session, Array<Delivery>>()
    for (const { delivery, session } of held) {
      const some = sessions.get(session)
      if (some === undefined) sessions.set(session, [delivery])
      else some.push(delivery)
    }
    for (const [session, some] of sessions) session.answer(some, status)
  }

  /** Gives something to the sink, and the answer to the centre, whatever happens. */
  const give = (taking: Effect.Effect<void, unknown>, held: ReadonlyArray<Held>, taken: () => void) =>
    options.run(
      taking.pipe(
        Effect.timeout(settings.sinkDeadlineMs),
        Effect.matchCauseEffect({
          onSuccess: () =>
            Effect.sync(() => {
              taken()
              answer(held, TAKEN)
            }),
          onFailure: () =>
            Effect.sync(() => {
              metrics.delivered('not_taken', held.length)
              options.onNotTaken()
              answer(held, TRY_AGAIN)
            }),
        }),
      ),
    )

  const unreadable = (what: string) => {
    metrics.delivered('unreadable')
    options.onUnreadable(what)
    return null
  }

  const atOf = (doneAt: number | null): number => {
    const at = now()
    if (doneAt === null || settings.receiptOffsetMinutes === null) return at
    // Nothing has happened in the future, whatever the operator's clock says.
    return Math.min(at, doneAt - settings.receiptOffsetMinutes * 60_000)
  }

  /** Whom a receipt is about: the centre writes the recipient as its source. Some leave the two as they were. */
  const toOf = ({ pdu }: Delivery): string | null =>
    numberOf(pdu.text('source_addr'), pdu.number('source_addr_ton') ?? 0) ??
    numberOf(pdu.text('destination_addr'), pdu.number('dest_addr_ton') ?? 0)

  /** The report of a receipt, or `null` when there is nothing to tell. */
  const reportOf = (delivery: Delivery): OperatorReport | null => {
    const { octets, pdu } = delivery
    const receipt = readReceipt(pdu)
    const operatorId = receipt === null ? null : reportedId(receipt, settings.idFormat)
    if (receipt === null || operatorId === null) return unreadable('receipt')
    const told = isIntermediate(pdu) ? 'intermediate' : outcomeOf(receipt, settings.errors)
    if (told === null) return unreadable('state of a receipt')
    if (told === 'intermediate') {
      metrics.delivered('intermediate')
      return null
    }
    metrics.delivered('receipt')
    return {
      operator: SMPP,
      operatorId,
      reference: null,
      recipient: null,
      to: toOf(delivery),
      ...told,
      at: atOf(receipt.doneAt),
      raw: octets,
    }
  }

  const inbound = ({ held, text }: Joined<HeldText>) => {
    const { delivery, from } = held[0]!
    const key = createHash('sha256').update(delivery.octets.subarray(16)).digest('base64')
    const operatorId = unsettled.get(key) ?? randomUUID()
    unsettled.set(key, operatorId)
    if (unsettled.size > MAX_UNSETTLED) unsettled.delete(unsettled.keys().next().value!)
    const message: InboundMessage = {
      operator: SMPP,
      operatorId,
      from,
      serviceAddress: delivery.pdu.text('destination_addr'),
      text,
      at: now(),
      raw: Buffer.concat(held.map((part) => part.delivery.octets)),
    }
    give(
      Effect.suspend(() => sink.storeInbound([message])),
      held,
      () => {
        unsettled.delete(key)
        metrics.delivered('inbound')
      },
    )
  }

  /** A text with what joins it to others, or `null` where it is none that could be read. */
  const textOf = ({
    pdu,
  }: Delivery): { readonly text: string; readonly concatenation: Concatenation | null } | null => {
    const header = ((pdu.number('esm_class') ?? 0) & UDHI) === 0 ? null : readHeader(bodyOf(pdu))
    const text = decodeText(header?.rest ?? bodyOf(pdu), pdu.number('data_coding') ?? 0)
    if (text === null) return null
    const [reference, parts, part] = [
      pdu.number('sar_msg_ref_num'),
      pdu.number('sar_total_segments'),
      pdu.number('sar_segment_seqnum'),
    ]
    const concatenation =
      header?.concatenation ??
      (reference === null || parts === null || part === null ? null : { reference, parts, part })
    return { text, concatenation }
  }

  const takeText = ({ delivery, session }: Held) => {
    const { pdu } = delivery
    const from = numberOf(pdu.text('source_addr'), pdu.number('source_addr_ton') ?? 0)
    const read = textOf(delivery)
    if (from === null || read === null) {
      unreadable(from === null ? 'writer of a text' : 'text')
      return session.answer([delivery], TAKEN)
    }
    const held = { session, delivery, from }
    const { concatenation, text } = read
    if (concatenation === null) return inbound({ text, held: [held] })
    const key = `${from}/${pdu.text('destination_addr')}/${concatenation.reference}`
    const joined = joiner.add({ key, concatenation, text, held }, now())
    if (joined === 'full') return session.answer([delivery], TRY_AGAIN)
    if (joined !== 'waiting') inbound(joined)
  }

  return {
    take: (session, deliveries) => {
      const reports: Array<OperatorReport> = []
      const reported: Array<Held> = []
      const nothing: Array<Held> = []
      const texts: Array<Held> = []
      for (const delivery of deliveries) {
        const held = { session, delivery }
        if (!isReceipt(delivery.pdu)) {
          texts.push(held)
          continue
        }
        const report = reportOf(delivery)
        if (report === null) {
          nothing.push(held)
        } else {
          reports.push(report)
          reported.push(held)
        }
      }
      // What came together is written down together.
      if (reports.length > 0)
        give(
          Effect.suspend(() => sink.store(reports)),
          reported,
          () => {},
        )
      if (nothing.length > 0) answer(nothing, TAKEN)
      for (const held of texts) takeText(held)
    },
    sweep: () => {
      for (const joined of joiner.expired(now())) inbound(joined)
    },
    ended: (session) => joiner.drop((held) => held.session === session),
  }
}
