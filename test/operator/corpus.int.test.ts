/**
 * Sends the forms of receipts and inbound messages that were seen in the field to the SMPP adapter over
 * a socket. The octets are not built with the hub's encoder, and the meanings are those of the sources that
 * the corpus names.
 */
import { DEFAULT_START_WORDS, DEFAULT_STOP_WORDS, optOutVocabulary, optOutWordOf } from '@hub/domain'
import {
  type IdFormat,
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
import { Effect, Exit, Logger, Redacted, References, Result, Scope } from 'effect'
import { afterAll, describe, expect, it } from 'vitest'
import {
  COMMAND,
  cString,
  type Delivery,
  deliveryPdu,
  pduOf,
  RESPONSE,
  startRawSmsc,
} from '../support/raw-smsc.ts'
import { untilBound } from '../support/smpp-operator.ts'
import inbound from './corpus/inbound.json' with { type: 'json' }
import receipts from './corpus/receipts.json' with { type: 'json' }

const NUMBER = '79001234567'
const DELIVERY_RESPONSES = [COMMAND.deliver_sm + RESPONSE, COMMAND.data_sm + RESPONSE]

interface Settings {
  readonly errors?: object
  readonly idFormat?: IdFormat
}

/** Binds an adapter to an SMSC, and collects what it stores and logs. */
const bindAdapter = ({ errors = {}, idFormat = 'opaque' }: Settings) =>
  Effect.gen(function* () {
    const reports: Array<OperatorReport> = []
    const messages: Array<InboundMessage> = []
    const kept: Array<OperatorAnswer | UnreadableDelivery> = []
    const lines: Array<string> = []
    const logger = Logger.make(({ cause, fiber, message }) => {
      lines.push(JSON.stringify([message, String(cause), fiber.getRef(References.CurrentLogAnnotations)]))
    })
    const smsc = yield* startRawSmsc((command, sequence) =>
      command === COMMAND.bind_transceiver ? [pduOf(command + RESPONSE, sequence, cString('smsc'))] : [],
    )
    const operator = yield* makeSmppOperator({
      ...SMPP_DEFAULTS,
      binds: 1,
      closeMs: 1,
      idFormat,
      receiptOffsetMinutes: 0,
      errors: Result.getOrThrow(parseSmppErrors(JSON.stringify(errors))),
      url: new URL(`smpp://hub@127.0.0.1:${smsc.port}`),
      password: Redacted.make('secret'),
    }).pipe(
      Effect.provideService(ReportSink, {
        store: (batch) => Effect.sync(() => void reports.push(...batch)),
        storeInbound: (batch) => Effect.sync(() => void messages.push(...batch)),
        keepAnswers: (answers) => void kept.push(...answers),
      }),
      Effect.provide(Logger.layer([logger])),
    )
    yield* untilBound(operator)
    return { smsc, reports, messages, kept, lines }
  })

const scope = Scope.makeUnsafe()
afterAll(() => Effect.runPromise(Scope.close(scope, Exit.void)))
const adapters = new Map<string, ReturnType<typeof startAdapter>>()
const startAdapter = (settings: Settings) =>
  Effect.runPromise(bindAdapter(settings).pipe(Scope.provide(scope)))

/**
 * Sends deliveries to an adapter with these settings, and returns what became of them. Adapters are used
 * again, except for what cannot be read: the adapter limits the lines about it.
 */
const deliver = async (
  forms: ReadonlyArray<Delivery>,
  { isUnreadable, ...settings }: Settings & { readonly isUnreadable: boolean },
) => {
  const key = isUnreadable ? `${adapters.size}` : JSON.stringify(settings)
  const found = adapters.get(key) ?? startAdapter(settings)
  adapters.set(key, found)
  const { smsc, ...collected } = await found
  for (const list of Object.values(collected)) list.length = 0
  const before = smsc.received.length
  const answers = () =>
    smsc.received.slice(before).filter((pdu) => DELIVERY_RESPONSES.includes(pdu.readUInt32BE(4)))
  for (const [i, form] of forms.entries()) smsc.write(deliveryPdu(before + i + 1, form))
  await eventually(() => answers().length === forms.length, { everyMs: 1 })
  // Every delivery is acknowledged, or the SMSC would repeat it for ever.
  expect(answers().map((pdu) => pdu.readUInt32BE(8))).toEqual(forms.map(() => 0))
  for (const line of collected.lines) expect(line).not.toContain(NUMBER)
  return collected
}

interface ReceiptForm {
  readonly name: string
  readonly command?: 'data_sm'
  readonly id_format?: IdFormat
  readonly esm_class?: number
  readonly data_coding?: number
  readonly encoding?: string
  readonly header?: string
  readonly text?: string
  readonly hex?: string
  readonly tlvs?: Readonly<Record<string, string>>
  readonly errors?: object
  readonly done?: string
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

const SOURCE = { ton: 1, address: NUMBER }

describe('a receipt', () => {
  it.each(receipts.receipts as ReadonlyArray<ReceiptForm>)('$name', async (form) => {
    const isUnreadable = form.meaning === 'unreadable'
    const { kept, lines, reports } = await deliver(
      [
        {
          command: form.command ?? 'deliver_sm',
          source: SOURCE,
          esmClass: form.esm_class ?? 4,
          dataCoding: form.data_coding ?? 0,
          message: messageOf(form),
          tlvs: Object.entries(form.tlvs ?? {}),
        },
      ],
      { errors: form.errors ?? {}, idFormat: form.id_format ?? 'opaque', isUnreadable },
    )
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
        ...(form.done === undefined ? {} : { at: Date.parse(form.done) }),
      }),
    ])
  })

  it('of an unknown form is logged with its field and state, and kept for hub staff', async () => {
    const text = 'id:0123 stat:FANCY err:000 text:Ivan'
    const { kept, lines } = await deliver(
      [
        {
          command: 'deliver_sm',
          source: SOURCE,
          esmClass: 4,
          dataCoding: 0,
          message: Buffer.from(text),
          tlvs: [],
        },
      ],
      { isUnreadable: true },
    )
    const line = lines.find((one) => one.includes('cannot be read'))
    expect(line).toContain('"field":"stat","value":"FANCY"')
    expect(line).not.toContain('Ivan')
    const [one] = kept
    expect(one).toMatchObject({ operator: 'smpp', reference: null, to: `+${NUMBER}` })
    expect(Buffer.from(one!.raw).toString('latin1')).toContain(text)
  })
})

interface InboundForm {
  readonly name: string
  readonly command?: 'data_sm'
  readonly source?: { readonly ton: number; readonly address: string }
  readonly esm_class?: number
  readonly data_coding: number
  readonly hex?: string
  readonly parts?: ReadonlyArray<{ readonly hex: string; readonly tlvs?: Readonly<Record<string, string>> }>
  readonly tlvs?: Readonly<Record<string, string>>
  readonly text: string | null
  readonly word: string | null
}

describe('an inbound message', () => {
  const vocabulary = optOutVocabulary(DEFAULT_STOP_WORDS, DEFAULT_START_WORDS)!

  it.each(inbound.messages as ReadonlyArray<InboundForm>)('$name', async (form) => {
    const { text, word } = form
    const parts = form.parts ?? [{ hex: form.hex ?? '' }]
    const { kept, lines, messages, reports } = await deliver(
      parts.map(({ hex, tlvs }) => ({
        command: form.command ?? 'deliver_sm',
        source: form.source ?? SOURCE,
        esmClass: form.esm_class ?? 0,
        dataCoding: form.data_coding,
        message: Buffer.from(hex, 'hex'),
        tlvs: Object.entries(tlvs ?? form.tlvs ?? {}),
      })),
      { isUnreadable: text === null },
    )
    expect(reports).toEqual([])
    expect(messages.map((message) => [message.from, message.text])).toEqual(
      text === null ? [] : [[`+${NUMBER}`, text]],
    )
    expect(messages.map((message) => optOutWordOf(vocabulary, message.text)?.word ?? null)).toEqual(
      text === null ? [] : [word],
    )
    expect(kept).toHaveLength(text === null ? 1 : 0)
    if (text === null) {
      expect(lines.join()).toContain(`"field":"data_coding","value":"${form.data_coding}"`)
    }
  })
})
