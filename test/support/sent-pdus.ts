/** Records what the adapter sends, for the judges that read it. */
import {
  makeSmppOperator,
  ReportSink,
  ReportsNotStored,
  SMPP_DEFAULTS,
  type SmppSettings,
  type Submission,
} from '@hub/operator'
import { eventually } from '@hub/testkit'
import { Effect, Logger, Redacted } from 'effect'
import fc from 'fast-check'
import { COMMAND, cString, deliveryPdu, pduOf, type RawSmsc, RESPONSE, startRawSmsc } from './raw-smsc.ts'
import { makeSubmission, untilBound } from './smpp-operator.ts'

/** Not a command of SMPP 3.4. */
const UNKNOWN_COMMAND = 0x0000_0112
const GENERIC_NACK = RESPONSE

/** Accepts what the adapter sends. */
const startSmsc = () =>
  startRawSmsc((command, sequence) => {
    if (command >= RESPONSE) return []
    const isBind =
      command === COMMAND.bind_transceiver ||
      command === COMMAND.bind_transmitter ||
      command === COMMAND.bind_receiver
    const body = isBind
      ? cString('smsc')
      : command === COMMAND.submit_sm
        ? cString(`m${sequence}`)
        : Buffer.alloc(0)
    return [pduOf(command + RESPONSE, sequence, body)]
  })

/** The adapter, whose sink cannot store the text FAIL. */
const bindTo = (smsc: RawSmsc, more: Partial<SmppSettings>) =>
  Effect.gen(function* () {
    const operator = yield* makeSmppOperator({
      ...SMPP_DEFAULTS,
      binds: 1,
      systemType: 'VMS',
      ...more,
      url: new URL(`smpp://hub@127.0.0.1:${smsc.port}`),
      password: Redacted.make('secret'),
    }).pipe(
      Effect.provideService(ReportSink, {
        store: () => Effect.void,
        storeInbound: ([message]) =>
          message?.text === 'FAIL' ? Effect.fail(new ReportsNotStored({ detail: 'down' })) : Effect.void,
        keepAnswers: () => {},
      }),
      Effect.provide(Logger.layer([])),
    )
    yield* untilBound(operator)
    return operator
  })

export const commandsOf = (pdus: ReadonlyArray<Buffer>) => pdus.map((pdu) => pdu.readUInt32BE(4))

const LONG_TEXT = `${'a'.repeat(152)}€${'b'.repeat(10)}`
const LONG_CYRILLIC = 'я'.repeat(71)
export const SUBMISSIONS: ReadonlyArray<Submission> = [
  makeSubmission('+79001234561', { text: 'Code 12_@' }),
  makeSubmission('+79001234562', { text: 'Код 12', sender: '+79990000000' }),
  makeSubmission('+79001234563', { text: LONG_TEXT, sender: '1234' }),
  makeSubmission('+79001234564', { text: LONG_CYRILLIC }),
]

const delivery = (text: string, more: object = {}) => ({
  command: 'deliver_sm' as const,
  source: { ton: 1, address: '79001234567' },
  esmClass: 0,
  dataCoding: 0,
  message: Buffer.from(text),
  tlvs: [],
  ...more,
})

/** Every PDU that the adapter sends, from conversations in which each kind occurs. */
export const recordPdus = Effect.gen(function* () {
  const smsc = yield* startSmsc()
  const hasSent = (...commands: ReadonlyArray<number>) =>
    Effect.promise(() =>
      eventually(() => {
        const sent = commandsOf(smsc.received)
        return commands.every((command) => sent.includes(command))
      }),
    )
  yield* Effect.gen(function* () {
    const operator = yield* bindTo(smsc, { enquireLinkMs: 20 })
    yield* operator.submit(SUBMISSIONS, () => true)
    smsc.write(deliveryPdu(1, delivery('STOP')))
    smsc.write(deliveryPdu(2, delivery('FAIL')))
    smsc.write(
      deliveryPdu(
        3,
        delivery('', {
          command: 'data_sm',
          tlvs: [
            ['001e', '3100'],
            ['0427', '02'],
          ],
        }),
      ),
    )
    smsc.write(pduOf(COMMAND.enquire_link, 4))
    smsc.write(pduOf(UNKNOWN_COMMAND, 5))
    yield* hasSent(
      COMMAND.deliver_sm + RESPONSE,
      COMMAND.data_sm + RESPONSE,
      COMMAND.enquire_link + RESPONSE,
      COMMAND.enquire_link,
      GENERIC_NACK,
    )
    yield* Effect.promise(() =>
      eventually(
        () =>
          commandsOf(smsc.received).filter((command) => command === COMMAND.deliver_sm + RESPONSE).length ===
          2,
      ),
    )
  }).pipe(Effect.scoped)
  yield* hasSent(COMMAND.unbind)
  yield* Effect.gen(function* () {
    yield* bindTo(smsc, { bindMode: 'transmitter_receiver' })
    smsc.write(pduOf(COMMAND.unbind, 6))
    yield* hasSent(COMMAND.unbind + RESPONSE)
  }).pipe(Effect.scoped)
  return smsc.received
}).pipe(Effect.scoped)

/** What the adapter sends for a text. */
export interface Sent {
  readonly dataCoding: number
  readonly esmClass: number
  readonly parts: ReadonlyArray<Buffer>
}

/** Reads a field that ends with NUL. Returns the position after it. */
const skipText = (pdu: Buffer, at: number): number => pdu.indexOf(0, at) + 1

/** The fields of a submit_sm. Source: SMPP 3.4, 4.4.1. */
const readSubmit = (pdu: Buffer) => {
  const source = skipText(pdu, 16) + 2
  const destination = skipText(pdu, source) + 2
  const esmClass = skipText(pdu, destination)
  const registered = skipText(pdu, skipText(pdu, esmClass + 3))
  return {
    to: pdu.toString('latin1', destination, esmClass - 1),
    esmClass: pdu[esmClass]!,
    dataCoding: pdu[registered + 2]!,
    message: pdu.subarray(registered + 5),
  }
}

const numberOf = (i: number) => `7900${String(i).padStart(7, '0')}`
/** Texts in one submit call, as in a busy dispatcher. */
const BATCH = 200

/** Submits the texts, and returns what was sent for each of them. */
export const sendTexts = (texts: ReadonlyArray<string>) =>
  Effect.gen(function* () {
    const smsc = yield* startSmsc()
    const operator = yield* bindTo(smsc, {})
    for (let at = 0; at < texts.length; at += BATCH) {
      const batch = texts
        .slice(at, at + BATCH)
        .map((text, i) => makeSubmission(`+${numberOf(at + i)}`, { text }))
      const outcomes = yield* operator.submit(batch, () => true)
      if (outcomes.some(({ type }) => type !== 'accepted')) throw new Error('a text was not accepted')
    }
    const sent = new Map<string, Sent>()
    for (const pdu of smsc.received) {
      if (pdu.readUInt32BE(4) !== COMMAND.submit_sm) continue
      const { dataCoding, esmClass, message, to } = readSubmit(pdu)
      sent.set(to, { dataCoding, esmClass, parts: [...(sent.get(to)?.parts ?? []), message] })
    }
    return texts.map((_, i) => sent.get(numberOf(i))!)
  }).pipe(Effect.scoped)

export const TEXTS = 10_000
const GSM = Array.from(
  '@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !"#¤%&\'()*+,-./0123456789:;<=>?¡ABCXYZÄÖÑÜ¿abcxyzäöñüà',
)
const lengths = fc.oneof(
  fc.integer({ min: 1, max: 80 }),
  fc.constantFrom(66, 67, 68, 69, 70, 71, 133, 134, 135, 152, 153, 154, 159, 160, 161, 306, 307),
)
const textOf = (...units: ReadonlyArray<string>) =>
  lengths.chain((length) =>
    fc.array(fc.constantFrom(...units), { minLength: length, maxLength: length }).map((all) => all.join('')),
  )
const texts = fc.oneof(
  { weight: 4, arbitrary: textOf(...GSM) },
  { weight: 2, arbitrary: textOf(...GSM, '€', '[', '~', '^', '\\') },
  { weight: 1, arbitrary: textOf('a', '§', '\f', '|') },
  { weight: 2, arbitrary: textOf('я', 'a', '№', 'ç', '`', ' ') },
  { weight: 1, arbitrary: textOf('я', '😀', 'é') },
)

/** The same texts in each run. */
export const generateTexts = (): ReadonlyArray<string> => fc.sample(texts, { numRuns: TEXTS, seed: 38 })
