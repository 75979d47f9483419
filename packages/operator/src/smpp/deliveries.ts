/**
 * Handles deliveries of the SMSC: receipts become reports, texts become inbound messages. They are
 * acknowledged after the sink has stored them. If it fails, the SMSC gets a temporary error and
 * repeats them. An unreadable delivery is acknowledged too, or the SMSC would repeat it forever.
 */
import { createHash, randomUUID } from 'node:crypto'
import { Effect } from 'effect'
import type { InboundMessage, OperatorReport, ReportSink } from '../port.ts'
import { COMMAND_STATUS } from './errors.ts'
import { makeReassembler, parsePhoneNumber, type Reassembled } from './inbound.ts'
import type { SmppMetrics } from './metrics.ts'
import {
  bodyOf,
  isIntermediate,
  isReceipt,
  outcomeOf,
  readReceipt,
  reportedId,
  type Unreadable,
} from './receipt.ts'
import type { DeliverSm, Session } from './session.ts'
import { SMPP, type SmppSettings } from './settings.ts'
import { type Concatenation, decodeParts, decodeText, type Encoded, parseHeader, UDHI } from './text.ts'

const STORED = COMMAND_STATUS.ESME_ROK
const TEMPORARY_ERROR = COMMAND_STATUS.ESME_RX_T_APPN

/** The most inbound messages that are not stored and whose id is kept for their repetition. */
const MAX_UNSTORED = 1000

/** A delivery without an answer, and its session. */
interface UnansweredDelivery {
  readonly session: Session
  readonly delivery: DeliverSm
}

interface UnansweredText extends UnansweredDelivery {
  /** The number of the sender, E.164. */
  readonly from: string
}

interface DeliveriesOptions {
  readonly settings: SmppSettings
  readonly sink: ReportSink['Service']
  readonly metrics: SmppMetrics
  readonly run: (effect: Effect.Effect<void>) => void
  readonly now: () => number
  /** A receipt or a text could not be read. `what` has few values. */
  readonly onUnreadable: (what: string, details?: Unreadable) => void
  readonly onDefect: (thrown: unknown) => void
  readonly onNotStored: () => void
}

export const makeDeliveries = (options: DeliveriesOptions) => {
  const { metrics, now, settings, sink } = options
  const reassembler = makeReassembler<UnansweredText>({
    waitMs: settings.reassemblyMs,
    maxParts: settings.deliverWindow / 2,
  })
  /** Ids of inbound messages that are not stored yet, by a hash of their octets. */
  const unstored = new Map<string, string>()

  const answer = (unanswered: ReadonlyArray<UnansweredDelivery>, status: number) => {
    const sessions = new Map<Session, Array<DeliverSm>>()
    for (const { delivery, session } of unanswered) {
      const group = sessions.get(session)
      if (group === undefined) sessions.set(session, [delivery])
      else group.push(delivery)
    }
    for (const [session, group] of sessions) session.answer(group, status)
  }

  /** Runs a write to the sink and answers the deliveries with its result. */
  const store = (
    write: Effect.Effect<void, unknown>,
    unanswered: ReadonlyArray<UnansweredDelivery>,
    onStored: () => void,
  ) =>
    options.run(
      write.pipe(
        Effect.timeout(settings.sinkDeadlineMs),
        Effect.matchCauseEffect({
          onSuccess: () =>
            Effect.sync(() => {
              onStored()
              answer(unanswered, STORED)
            }),
          onFailure: () =>
            Effect.sync(() => {
              metrics.delivered('not_taken', unanswered.length)
              options.onNotStored()
              answer(unanswered, TEMPORARY_ERROR)
            }),
        }),
      ),
    )

  const unreadable = (what: string, details?: Unreadable) => {
    metrics.delivered('unreadable')
    options.onUnreadable(what, details)
    return null
  }

  /** Hub staff can read what the hub cannot, if the number of its person is known. */
  const keep = (to: string | null, { octets }: DeliverSm) => {
    if (to !== null) sink.keepAnswers([{ operator: SMPP, reference: null, to, raw: octets }])
  }

  const unreadableReceipt = (delivery: DeliverSm, details: Unreadable) => {
    keep(recipientOf(delivery), delivery)
    return unreadable('receipt', details)
  }

  /** Runs the reading of a delivery. `null`: it has thrown. The delivery then counts as unreadable. */
  const contained = <A>(read: () => A): A | null => {
    try {
      return read()
    } catch (thrown) {
      options.onDefect(thrown)
      return unreadable('delivery')
    }
  }

  const reportTime = (doneAt: number | null): number => {
    const at = now()
    if (doneAt === null || settings.receiptOffsetMinutes === null) return at
    // The operator's clock may be ahead, but a report cannot be about the future.
    return Math.min(at, doneAt - settings.receiptOffsetMinutes * 60_000)
  }

  /** The source address of a receipt. Some SMSCs do not swap the two addresses. */
  const recipientOf = ({ pdu }: DeliverSm): string | null =>
    parsePhoneNumber(pdu.text('source_addr'), pdu.number('source_addr_ton') ?? 0) ??
    parsePhoneNumber(pdu.text('destination_addr'), pdu.number('dest_addr_ton') ?? 0)

  const reportOf = (delivery: DeliverSm): OperatorReport | null => {
    const { octets, pdu } = delivery
    if (isIntermediate(pdu)) {
      metrics.delivered('intermediate')
      return null
    }
    const receipt = readReceipt(pdu, settings.errors)
    if ('field' in receipt) return unreadableReceipt(delivery, receipt)
    const operatorId = reportedId(receipt, settings.idFormat)
    if (operatorId === null) return unreadableReceipt(delivery, { field: 'id', value: null })
    const outcome = outcomeOf(receipt, settings.errors)
    if (outcome === 'intermediate') {
      metrics.delivered('intermediate')
      return null
    }
    metrics.delivered('receipt')
    return {
      operator: SMPP,
      operatorId,
      reference: null,
      recipient: null,
      to: recipientOf(delivery),
      ...outcome,
      at: reportTime(receipt.doneAt),
      raw: octets,
    }
  }

  const storeText = ({ bodies, items }: Reassembled<UnansweredText>) => {
    const { delivery, from } = items[0]!
    const key = createHash('sha256').update(delivery.octets.subarray(16)).digest('base64')
    const operatorId = unstored.get(key) ?? randomUUID()
    unstored.set(key, operatorId)
    if (unstored.size > MAX_UNSTORED) unstored.delete(unstored.keys().next().value!)
    const message: InboundMessage = {
      operator: SMPP,
      operatorId,
      from,
      serviceAddress: delivery.pdu.text('destination_addr'),
      text: decodeParts(bodies),
      at: now(),
      raw: Buffer.concat(items.map((part) => part.delivery.octets)),
    }
    store(
      Effect.suspend(() => sink.storeInbound([message])),
      items,
      () => {
        unstored.delete(key)
        metrics.delivered('inbound')
      },
    )
  }

  /** Returns the text of a delivery and its concatenation, or `null` if it cannot be read. */
  const textOf = ({
    pdu,
  }: DeliverSm): { readonly body: Encoded; readonly concatenation: Concatenation | null } | null => {
    const header = ((pdu.number('esm_class') ?? 0) & UDHI) === 0 ? null : parseHeader(bodyOf(pdu))
    const body = { octets: header?.rest ?? bodyOf(pdu), dataCoding: pdu.number('data_coding') ?? 0 }
    if (decodeText(body.octets, body.dataCoding) === null) return null
    const [reference, parts, part] = [
      pdu.number('sar_msg_ref_num'),
      pdu.number('sar_total_segments'),
      pdu.number('sar_segment_seqnum'),
    ]
    const concatenation =
      header?.concatenation ??
      (reference === null || parts === null || part === null ? null : { reference, parts, part })
    return { body, concatenation }
  }

  const handleText = ({ delivery, session }: UnansweredDelivery) => {
    const { pdu } = delivery
    const from = parsePhoneNumber(pdu.text('source_addr'), pdu.number('source_addr_ton') ?? 0)
    const read = textOf(delivery)
    if (from === null || read === null) {
      keep(from, delivery)
      unreadable(
        'text',
        from === null
          ? { field: 'source_addr', value: null }
          : { field: 'data_coding', value: String(pdu.number('data_coding')) },
      )
      return session.answer([delivery], STORED)
    }
    const item = { session, delivery, from }
    const { body, concatenation } = read
    if (concatenation === null) return storeText({ bodies: [body], items: [item] })
    const key = `${from}/${pdu.text('destination_addr')}/${concatenation.reference}`
    const result = reassembler.add({ key, concatenation, body, item }, now())
    if (result === 'full') return session.answer([delivery], TEMPORARY_ERROR)
    if (result !== 'waiting') storeText(result)
  }

  return {
    handle: (session: Session, deliveries: ReadonlyArray<DeliverSm>): void => {
      const reports: Array<OperatorReport> = []
      const receipts: Array<UnansweredDelivery> = []
      const withoutReport: Array<UnansweredDelivery> = []
      const texts: Array<UnansweredDelivery> = []
      for (const delivery of deliveries) {
        const unanswered = { session, delivery }
        const isText = contained(() => !isReceipt(delivery.pdu))
        if (isText === true) {
          texts.push(unanswered)
          continue
        }
        const report = isText === null ? null : contained(() => reportOf(delivery))
        if (report === null) {
          withoutReport.push(unanswered)
        } else {
          reports.push(report)
          receipts.push(unanswered)
        }
      }
      // Reports that arrived together are stored together.
      if (reports.length > 0)
        store(
          Effect.suspend(() => sink.store(reports)),
          receipts,
          () => {},
        )
      if (withoutReport.length > 0) answer(withoutReport, STORED)
      for (const text of texts) {
        const isHandled = contained(() => {
          handleText(text)
          return true
        })
        if (isHandled === null) answer([text], STORED)
      }
    },
    /** Stores the texts that waited too long for missing parts. */
    sweep: (): void => {
      for (const text of reassembler.expired(now())) storeText(text)
    },
    /** Discards the parts that an ended session has received. The SMSC repeats them. */
    discard: (session: Session): void => reassembler.discard((item) => item.session === session),
  }
}
