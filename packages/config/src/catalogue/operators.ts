/** The settings of the operator of live keys, and the opt-out words. */
import * as Result from 'effect/Result'
import * as kind from '../kinds.ts'
import { INVALID } from '../kinds.ts'
import { optional, type Reader, withDefault, inGroup } from '../setting.ts'

const DISPATCHER: ReadonlyArray<Reader> = ['dispatcher']

/** Lengths without the terminating NUL. Source: SMPP 3.4, 4.1.5. */
const MAX_SYSTEM_ID = 15
const MAX_PASSWORD = 8
/** Without the terminating NUL. Source: SMPP 3.4, 5.2.3. */
const MAX_SYSTEM_TYPE = 12
/** Time zones are between UTC-12 and UTC+14. */
const MAX_OFFSET_MINUTES = 14 * 60

/** SMSCs allow a few binds per account, and windows of some hundreds. */
const MAX_BINDS = 32
const MAX_WINDOW = 10_000
/** SMSCs close silent connections after a minute or more. */
const MAX_ENQUIRE_LINK_SECONDS = 60
/** A part in ten seconds. Slower operators hardly exist, and a mistake would stop all messages. */
const LEAST_PARTS_PER_SECOND = 0.1
const MAX_PARTS_PER_SECOND = 1_000_000

const smppUrl: kind.Kind<URL> = {
  type: 'url',
  permitted: ['smpp', 'smpps'],
  expected: `smpp://system_id@host:port, or smpps:// for TLS, with a system id of 1 to ${MAX_SYSTEM_ID} characters and no password (that is HUB_OPERATOR_SMPP_PASSWORD)`,
  secret: false,
  read: (text) => {
    const url = URL.parse(text.trim())
    if (url === null || !['smpp:', 'smpps:'].includes(url.protocol) || url.hostname === '') {
      return Result.fail(INVALID)
    }
    if (url.password !== '') return Result.fail('has a password in it')
    // An invalid percent escape is kept unchanged.
    const systemId = Result.getOrElse(
      Result.try(() => decodeURIComponent(url.username)),
      () => url.username,
    )
    if (systemId === '') return Result.fail('has no system id')
    return systemId.length <= MAX_SYSTEM_ID ? Result.succeed(url) : Result.fail('has too long a system id')
  },
}

/** Type of number and numbering plan. Source: SMPP 3.4, 5.2.5 and 5.2.6. */
const numberingPlan: kind.Kind<{ readonly ton: number; readonly npi: number }> = {
  type: 'string',
  expected: 'type of number and numbering plan, for example 1/1',
  secret: false,
  read: (text) => {
    const [, ton, npi] = /^([0-6])\/([0-9]|1[0-8])$/u.exec(text.trim()) ?? []
    return ton === undefined || npi === undefined
      ? Result.fail(INVALID)
      : Result.succeed({ ton: Number(ton), npi: Number(npi) })
  },
}

export const smpp = inGroup('smpp', {
  operatorSmppUrl: optional(smppUrl, 'no operator over SMPP', {
    name: 'HUB_OPERATOR_SMPP_URL',
    readBy: [...DISPATCHER, 'hubctl', 'npm start'],
    doc: 'The SMSC for live keys. Without any operator, live messages wait until their lifetime ends.',
  }),
  operatorSmppPassword: optional(kind.secret({ least: 1, most: MAX_PASSWORD }), 'no operator over SMPP', {
    name: 'HUB_OPERATOR_SMPP_PASSWORD',
    readBy: DISPATCHER,
    doc: 'The password of the account at the SMSC.',
  }),
  operatorSmppBinds: withDefault(kind.integer(1, MAX_BINDS), '2', {
    name: 'HUB_OPERATOR_SMPP_BINDS',
    unit: 'binds',
    readBy: DISPATCHER,
    doc: 'The number of binds of a dispatcher. With two, the service continues when one ends.',
  }),
  operatorSmppBindMode: withDefault(kind.choice(['transceiver', 'transmitter_receiver']), 'transceiver', {
    name: 'HUB_OPERATOR_SMPP_BIND_MODE',
    readBy: DISPATCHER,
    doc: 'Whether one bind sends and receives, or there are separate binds for both.',
  }),
  operatorSmppWindow: withDefault(kind.integer(1, MAX_WINDOW), '50', {
    name: 'HUB_OPERATOR_SMPP_WINDOW',
    unit: 'parts a bind',
    readBy: DISPATCHER,
    doc: 'The most parts without an answer.',
  }),
  operatorSmppPartsPerSecond: optional(
    kind.number(LEAST_PARTS_PER_SECOND, MAX_PARTS_PER_SECOND),
    'no limit',
    {
      name: 'HUB_OPERATOR_SMPP_PARTS_PER_SECOND',
      unit: 'parts a second of the whole hub',
      readBy: DISPATCHER,
      doc: 'The rate limit of the operator. All dispatchers together keep to it. They also learn the limit from throttled answers, so they need it only if the operator must never throttle.',
    },
  ),
  operatorSmppIdFormat: withDefault(
    kind.choice(['opaque', 'hexadecimal_answer', 'decimal_answer', 'decimal', 'hexadecimal']),
    'opaque',
    {
      name: 'HUB_OPERATOR_SMPP_ID_FORMAT',
      readBy: DISPATCHER,
      doc: 'The relation between message ids in answers and in receipts: the same text, hexadecimal in one and decimal in the other, or the same notation with or without leading zeros.',
    },
  ),
  operatorSmppErrors: optional(
    kind.json('a JSON object with command_status, receipt_state and receipt_error, each a mapping of codes'),
    'the codes of SMPP 3.4 alone',
    {
      name: 'HUB_OPERATOR_SMPP_ERRORS',
      readBy: DISPATCHER,
      doc: 'The meaning of operator-specific codes. It overrides the defaults.',
    },
  ),
  operatorSmppCaFile: optional(kind.path('a PEM file with a certificate'), 'the default authorities', {
    name: 'HUB_OPERATOR_SMPP_CA_FILE',
    readBy: DISPATCHER,
    doc: 'The certificate authorities for `smpps://`, instead of the default ones.',
  }),
  operatorSmppSystemType: withDefault(
    kind.form(/^[\x20-\x7e]{0,12}$/u, `at most ${MAX_SYSTEM_TYPE} ASCII characters`),
    '',
    {
      name: 'HUB_OPERATOR_SMPP_SYSTEM_TYPE',
      readBy: DISPATCHER,
      doc: '`system_type` of a bind. Most SMSCs need none.',
    },
  ),
  operatorSmppNumericSender: withDefault(numberingPlan, '1/1', {
    name: 'HUB_OPERATOR_SMPP_NUMERIC_SENDER',
    readBy: DISPATCHER,
    doc: 'Type of number and numbering plan of a numeric sender. An alphanumeric sender has 5/0.',
  }),
  operatorSmppEnquireLinkSeconds: withDefault(kind.integer(1, MAX_ENQUIRE_LINK_SECONDS), '10', {
    name: 'HUB_OPERATOR_SMPP_ENQUIRE_LINK_SECONDS',
    unit: 'seconds',
    readBy: DISPATCHER,
    doc: 'The longest time for an answer to `enquire_link`. After it, an idle bind is closed and opened again. A bind with a submit that has waited for two seconds has a fifth of this time.',
  }),
  operatorSmppReceiptOffsetMinutes: optional(
    kind.integer(-MAX_OFFSET_MINUTES, MAX_OFFSET_MINUTES),
    'receipts have the time of their arrival',
    {
      name: 'HUB_OPERATOR_SMPP_RECEIPT_OFFSET_MINUTES',
      unit: 'minutes from UTC',
      readBy: DISPATCHER,
      doc: 'The time zone of dates in receipts. SMPP does not define it.',
    },
  ),
})

export const http = inGroup('http', {
  operatorHttpUrl: optional(kind.url('https', 'http'), 'no operator over HTTP', {
    name: 'HUB_OPERATOR_HTTP_URL',
    readBy: [...DISPATCHER, 'hubctl', 'npm start'],
    doc: 'The address of the operator of live keys.',
  }),
  operatorHttpSecret: optional(kind.secret({ least: 1 }), 'no operator over HTTP', {
    name: 'HUB_OPERATOR_HTTP_SECRET',
    readBy: [...DISPATCHER, 'operator simulator'],
    doc: 'The secret shared with the operator: the bearer token of submissions, and the key of the signatures of its reports.',
  }),
  operatorCallbackPort: optional(kind.port, 'no operator over HTTP', {
    name: 'HUB_OPERATOR_CALLBACK_PORT',
    readBy: DISPATCHER,
    doc: "The port for the operator's reports.",
  }),
  operatorCallbackHost: withDefault(kind.string('an address of this machine'), '127.0.0.1', {
    name: 'HUB_OPERATOR_CALLBACK_HOST',
    readBy: DISPATCHER,
    doc: 'The address that the callback listener binds to. The deployment decides who can reach it.',
  }),
})

export const optOutWords = inGroup('words', {
  stopWords: optional(
    kind.words('words separated by commas, none of them empty'),
    'СТОП, STOP, ОТПИСКА, UNSUBSCRIBE, ОТПИСАТЬСЯ, ОТКАЗ, СТОП ВСЕ, STOP ALL, STOPALL, CANCEL, END, QUIT, UNSUB',
    {
      name: 'HUB_STOP_WORDS',
      readBy: DISPATCHER,
      doc: 'The words that opt a recipient out, each as a whole message. Case does not matter, nor do punctuation, symbols and spaces around a word.',
    },
  ),
  startWords: optional(kind.words('words separated by commas, none of them empty'), 'СТАРТ, START', {
    name: 'HUB_START_WORDS',
    readBy: DISPATCHER,
    doc: 'The words that opt a recipient in again.',
  }),
})
