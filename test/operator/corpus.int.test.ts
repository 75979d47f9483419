/**
 * Sends the forms of receipts and inbound messages that were seen in the field to the SMPP adapter over
 * a socket. The octets are built here from SMPP 3.4 (3.2, 4.6.1, 5.3.2), not with the hub's encoder, and
 * the meanings are those of the sources that the corpus names.
 */
import { createServer, type Socket } from 'node:net'
import { DEFAULT_START_WORDS, DEFAULT_STOP_WORDS, optOutVocabulary, optOutWordOf } from '@hub/domain'
import {
  type InboundMessage,
  makeSmppOperator,
  type OperatorAnswer,
  type OperatorReport,
  parseSmppErrors,
  ReportSink,
  SMPP_DEFAULTS,
  type UnreadableDelivery,
} from '@hub/operator'
import { eventually } from '@hub/testkit'
import { Effect, Logger, Redacted, References, Result } from 'effect'
import { describe, expect, it } from 'vitest'
import inbound from './corpus/inbound.json' with { type: 'json' }
import receipts from './corpus/receipts.json' with { type: 'json' }

const NUMBER = '79001234567'

const BIND_TRANSCEIVER = 0x0000_0009
const DELIVER_SM = 0x0000_0005
const RESPONSE = 0x8000_0000

const cString = (text: string) => Buffer.from(`${text}\0`, 'latin1')

const pduOf = (command: number, sequence: number, body: Buffer): Buffer => {
  const header = Buffer.alloc(16)
  header.writeUInt32BE(16 + body.length, 0)
  header.writeUInt32BE(command, 4)
  header.writeUInt32BE(sequence, 12)
  return Buffer.concat([header, body])
}

interface Form {
  readonly esmClass: number
  readonly dataCoding: number
  readonly message: Buffer
  readonly tlvs: ReadonlyArray<readonly [string, string]>
}

/** A `deliver_sm` of the number. */
const deliverSm = (sequence: number, { dataCoding, esmClass, message, tlvs }: Form): Buffer =>
  pduOf(
    DELIVER_SM,
    sequence,
    Buffer.concat([
      cString(''),
      Buffer.from([1, 1]),
      cString(NUMBER),
      Buffer.from([5, 0]),
      cString('HUB'),
      // esm_class, protocol_id, priority_flag
      Buffer.from([esmClass, 0, 0]),
      // schedule_delivery_time, validity_period
      cString(''),
      cString(''),
      // registered_delivery, replace_if_present_flag, data_coding, sm_default_msg_id, sm_length
      Buffer.from([0, 0, dataCoding, 0, message.length]),
      message,
      ...tlvs.map(([tag, hex]) => {
        const value = Buffer.from(hex, 'hex')
        const head = Buffer.from(`${tag}0000`, 'hex')
        head.writeUInt16BE(value.length, 2)
        return Buffer.concat([head, value])
      }),
    ]),
  )

/** Binds the adapter to an SMSC that sends one delivery, and returns what became of it. */
const deliver = async (form: Form, errors: object) => {
  const reports: Array<OperatorReport> = []
  const messages: Array<InboundMessage> = []
  const kept: Array<OperatorAnswer | UnreadableDelivery> = []
  const lines: Array<string> = []
  const statuses: Array<number> = []
  const sockets: Array<Socket> = []
  const smsc = createServer((socket) => {
    sockets.push(socket)
    let received = Buffer.alloc(0)
    socket.on('error', () => {})
    socket.on('data', (chunk: Buffer) => {
      received = Buffer.concat([received, chunk])
      while (received.length >= 16 && received.length >= received.readUInt32BE(0)) {
        const pdu = received.subarray(0, received.readUInt32BE(0))
        received = received.subarray(pdu.length)
        const command = pdu.readUInt32BE(4)
        if (command === BIND_TRANSCEIVER) {
          socket.write(pduOf(BIND_TRANSCEIVER + RESPONSE, pdu.readUInt32BE(12), cString('smsc')))
          socket.write(deliverSm(1, form))
        } else if (command === DELIVER_SM + RESPONSE) statuses.push(pdu.readUInt32BE(8))
      }
    })
  })
  await new Promise<void>((resolve) => smsc.listen(0, '127.0.0.1', resolve))
  const address = smsc.address()
  const port = typeof address === 'object' && address !== null ? address.port : 0
  const logger = Logger.make(({ cause, fiber, message }) => {
    lines.push(JSON.stringify([message, String(cause), fiber.getRef(References.CurrentLogAnnotations)]))
  })
  await Effect.runPromise(
    makeSmppOperator({
      ...SMPP_DEFAULTS,
      binds: 1,
      closeMs: 1,
      errors: Result.getOrThrow(parseSmppErrors(JSON.stringify(errors))),
      url: new URL(`smpp://hub@127.0.0.1:${port}`),
      password: Redacted.make('secret'),
    }).pipe(
      Effect.andThen(Effect.promise(() => eventually(() => statuses.length === 1, { everyMs: 2 }))),
      Effect.provideService(ReportSink, {
        store: (batch) => Effect.sync(() => void reports.push(...batch)),
        storeInbound: (batch) => Effect.sync(() => void messages.push(...batch)),
        keepAnswers: (answers) => void kept.push(...answers),
      }),
      Effect.scoped,
      Effect.provide(Logger.layer([logger])),
    ),
  )
  for (const socket of sockets) socket.destroy()
  await new Promise<void>((resolve) => {
    smsc.close(() => resolve())
  })
  // Every delivery is acknowledged, or the SMSC would repeat it for ever.
  expect(statuses).toEqual([0])
  for (const line of lines) expect(line).not.toContain(NUMBER)
  return { reports, messages, kept, lines }
}

interface ReceiptForm {
  readonly name: string
  readonly esm_class?: number
  readonly data_coding?: number
  readonly encoding?: string
  readonly header?: string
  readonly text?: string
  readonly hex?: string
  readonly tlvs?: Readonly<Record<string, string>>
  readonly errors?: object
  readonly meaning:
    | 'intermediate'
    | 'unreadable'
    | { readonly id: string; readonly outcome: string; readonly reason?: string }
}

const messageOf = ({ encoding, header = '', hex, text = '' }: ReceiptForm): Buffer => {
  const little = Buffer.from(text, 'utf16le')
  const body =
    hex === undefined
      ? encoding === 'utf-16le'
        ? little
        : encoding === 'utf-16be'
          ? little.swap16()
          : Buffer.from(text, 'latin1')
      : Buffer.from(hex, 'hex')
  return Buffer.concat([Buffer.from(header, 'hex'), body])
}

describe('a receipt', () => {
  it.each(receipts.receipts as ReadonlyArray<ReceiptForm>)('$name', async (form) => {
    const { kept, lines, reports } = await deliver(
      {
        esmClass: form.esm_class ?? 4,
        dataCoding: form.data_coding ?? 0,
        message: messageOf(form),
        tlvs: Object.entries(form.tlvs ?? {}),
      },
      form.errors ?? {},
    )
    const isUnreadable = form.meaning === 'unreadable'
    expect(kept.map(({ reference }) => reference)).toEqual(isUnreadable ? [null] : [])
    expect(lines.some((line) => line.includes('cannot be read'))).toBe(isUnreadable)
    if (typeof form.meaning === 'string') return expect(reports).toEqual([])
    const { id, outcome, reason } = form.meaning
    expect(reports).toEqual([
      expect.objectContaining({
        operatorId: id,
        outcome,
        to: `+${NUMBER}`,
        ...(reason === undefined ? {} : { reason }),
      }),
    ])
  })

  it('of an unknown form is logged with its field and state, and kept for hub staff', async () => {
    const text = 'id:0123 stat:FANCY err:000 text:Ivan'
    const { kept, lines } = await deliver(
      { esmClass: 4, dataCoding: 0, message: Buffer.from(text), tlvs: [] },
      {},
    )
    const line = lines.find((one) => one.includes('cannot be read'))
    expect(line).toContain('"field":"stat","value":"FANCY"')
    expect(line).not.toContain('Ivan')
    const [one] = kept
    expect(one).toMatchObject({ operator: 'smpp', reference: null, to: `+${NUMBER}` })
    expect(Buffer.from(one!.raw).toString('latin1')).toContain(text)
  })
})

describe('an inbound message', () => {
  const vocabulary = optOutVocabulary(DEFAULT_STOP_WORDS, DEFAULT_START_WORDS)!

  it.each(inbound.messages)('$name', async ({ data_coding, hex, text, word }) => {
    const { kept, lines, messages } = await deliver(
      { esmClass: 0, dataCoding: data_coding, message: Buffer.from(hex, 'hex'), tlvs: [] },
      {},
    )
    expect(messages.map((message) => message.text)).toEqual(text === null ? [] : [text])
    expect(messages.map((message) => optOutWordOf(vocabulary, message.text)?.word ?? null)).toEqual(
      text === null ? [] : [word],
    )
    expect(kept).toHaveLength(text === null ? 1 : 0)
    if (text === null) {
      expect(lines.join()).toContain(`"field":"data_coding","value":"${data_coding}"`)
    }
  })
})
