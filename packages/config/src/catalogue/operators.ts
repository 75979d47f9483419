/** How the dispatcher reaches the operator of live keys, and what recipients write to it. */
import * as Result from 'effect/Result'
import * as kind from '../kinds.ts'
import { UNFIT } from '../kinds.ts'
import { optional, type Reader, withDefault } from '../setting.ts'

const DISPATCHER: ReadonlyArray<Reader> = ['dispatcher']

/**
 * Longer ones are cut or refused by centres. Source: SMPP 3.4, 4.1.5: 15 and 8 characters, and a
 * NUL.
 */
const MOST_SYSTEM_ID = 15
const MOST_PASSWORD = 8
/** Source: SMPP 3.4, 5.2.3: 12 characters and a NUL. */
const MOST_SYSTEM_TYPE = 12
/** Time zones lie between 12 hours behind UTC and 14 ahead of it. */
const MOST_OFFSET_MINUTES = 14 * 60

/**
 * More would be a mistake: centres allow an account a handful of binds, and windows of some
 * hundreds.
 */
const MOST_BINDS = 32
const MOST_WINDOW = 10_000
const MOST_PARTS_PER_SECOND = 1_000_000

const smppUrl: kind.Kind<URL> = {
  type: 'url',
  expected: `smpp://system_id@host:port, or smpps:// for TLS, with a system id of 1 to ${MOST_SYSTEM_ID} characters and no password (that is HUB_OPERATOR_SMPP_PASSWORD)`,
  secret: false,
  read: (text) => {
    const url = URL.parse(text.trim())
    if (url === null || !['smpp:', 'smpps:'].includes(url.protocol) || url.hostname === '') {
      return Result.fail(UNFIT)
    }
    if (url.password !== '') return Result.fail('has a password in it')
    // A per cent sign that begins no character counts as it is.
    const systemId = Result.getOrElse(
      Result.try(() => decodeURIComponent(url.username)),
      () => url.username,
    )
    if (systemId === '') return Result.fail('has no system id')
    return systemId.length <= MOST_SYSTEM_ID ? Result.succeed(url) : Result.fail('has too long a system id')
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
      ? Result.fail(UNFIT)
      : Result.succeed({ ton: Number(ton), npi: Number(npi) })
  },
}

export const smpp = {
  operatorSmppUrl: optional(smppUrl, 'no operator over SMPP', {
    name: 'HUB_OPERATOR_SMPP_URL',
    group: 'smpp',
    readBy: [...DISPATCHER, 'hubctl', 'npm start'],
    doc: 'Live keys reach this centre. Without it and without an operator over HTTP their messages wait until their lifetime ends.',
  }),
  operatorSmppPassword: optional(kind.secret({ least: 1, most: MOST_PASSWORD }), 'no operator over SMPP', {
    name: 'HUB_OPERATOR_SMPP_PASSWORD',
    group: 'smpp',
    readBy: DISPATCHER,
    doc: "The account's password at the centre.",
  }),
  operatorSmppBinds: withDefault(kind.integer(1, MOST_BINDS), '2', {
    name: 'HUB_OPERATOR_SMPP_BINDS',
    unit: 'binds',
    group: 'smpp',
    readBy: DISPATCHER,
    doc: 'Connections that a dispatcher holds. Two survive the end of one.',
  }),
  operatorSmppBindMode: withDefault(kind.choice(['transceiver', 'transmitter_receiver']), 'transceiver', {
    name: 'HUB_OPERATOR_SMPP_BIND_MODE',
    group: 'smpp',
    readBy: DISPATCHER,
    doc: 'Whether a connection both sends and receives, or there is one of each.',
  }),
  operatorSmppWindow: withDefault(kind.integer(1, MOST_WINDOW), '50', {
    name: 'HUB_OPERATOR_SMPP_WINDOW',
    unit: 'parts a bind',
    group: 'smpp',
    readBy: DISPATCHER,
    doc: 'Parts that may be without an answer at the same time.',
  }),
  operatorSmppPartsPerSecond: optional(kind.integer(1, MOST_PARTS_PER_SECOND), 'no limit', {
    name: 'HUB_OPERATOR_SMPP_PARTS_PER_SECOND',
    unit: 'parts a second and dispatcher',
    group: 'smpp',
    readBy: DISPATCHER,
    doc: 'What the operator allows.',
  }),
  operatorSmppIdFormat: withDefault(
    kind.choice(['opaque', 'hexadecimal_answer', 'decimal_answer', 'decimal', 'hexadecimal']),
    'opaque',
    {
      name: 'HUB_OPERATOR_SMPP_ID_FORMAT',
      group: 'smpp',
      readBy: DISPATCHER,
      doc: "How message ids in the centre's answers and receipts relate: the same text, hexadecimal here and decimal there, or a number in one notation with or without zeros before it.",
    },
  ),
  operatorSmppErrors: optional(
    kind.json('a JSON object with command_status, receipt_state and receipt_error, each a mapping of codes'),
    'the codes of SMPP 3.4 alone',
    {
      name: 'HUB_OPERATOR_SMPP_ERRORS',
      group: 'smpp',
      readBy: DISPATCHER,
      doc: "What the centre's own codes mean to the hub. It goes before the defaults.",
    },
  ),
  operatorSmppCaFile: optional(kind.path('a PEM file with a certificate'), 'the usual authorities', {
    name: 'HUB_OPERATOR_SMPP_CA_FILE',
    group: 'smpp',
    readBy: DISPATCHER,
    doc: 'Authorities to trust over `smpps://`, instead of the usual ones.',
  }),
  operatorSmppSystemType: withDefault(
    kind.form(/^[\x20-\x7e]{0,12}$/u, `at most ${MOST_SYSTEM_TYPE} ASCII characters`),
    '',
    {
      name: 'HUB_OPERATOR_SMPP_SYSTEM_TYPE',
      group: 'smpp',
      readBy: DISPATCHER,
      doc: '`system_type` of a bind. Most centres want none.',
    },
  ),
  operatorSmppNumericSender: withDefault(numberingPlan, '1/1', {
    name: 'HUB_OPERATOR_SMPP_NUMERIC_SENDER',
    group: 'smpp',
    readBy: DISPATCHER,
    doc: 'Type of number and numbering plan of a sender in digits. A sender that is a name has 5/0.',
  }),
  operatorSmppReceiptOffsetMinutes: optional(
    kind.integer(-MOST_OFFSET_MINUTES, MOST_OFFSET_MINUTES),
    'receipts are dated by their arrival',
    {
      name: 'HUB_OPERATOR_SMPP_RECEIPT_OFFSET_MINUTES',
      unit: 'minutes from UTC',
      group: 'smpp',
      readBy: DISPATCHER,
      doc: 'The time zone of the dates in receipts, which SMPP does not tell.',
    },
  ),
}

export const http = {
  operatorHttpUrl: optional(kind.url('https', 'http'), 'no operator over HTTP', {
    name: 'HUB_OPERATOR_HTTP_URL',
    group: 'http',
    readBy: [...DISPATCHER, 'hubctl', 'npm start'],
    doc: 'Live keys reach the operator at this address.',
  }),
  operatorHttpSecret: optional(kind.secret({ least: 1 }), 'no operator over HTTP', {
    name: 'HUB_OPERATOR_HTTP_SECRET',
    group: 'http',
    readBy: [...DISPATCHER, 'operator simulator'],
    doc: 'Shared with the operator: bearer secret of submissions, key of the signatures of its reports.',
  }),
  operatorCallbackPort: optional(kind.port, 'no operator over HTTP', {
    name: 'HUB_OPERATOR_CALLBACK_PORT',
    group: 'http',
    readBy: DISPATCHER,
    doc: "Where the dispatcher takes the operator's reports.",
  }),
  operatorCallbackHost: withDefault(kind.string('an address of this machine'), '127.0.0.1', {
    name: 'HUB_OPERATOR_CALLBACK_HOST',
    group: 'http',
    readBy: DISPATCHER,
    doc: "The interface it listens on. Who can reach it is the deployment's decision.",
  }),
}

export const optOutWords = {
  stopWords: optional(
    kind.words('words separated by commas, none of them empty'),
    'СТОП, STOP, ОТПИСКА, UNSUBSCRIBE',
    {
      name: 'HUB_STOP_WORDS',
      group: 'words',
      readBy: DISPATCHER,
      doc: 'What opts a recipient out. Case and spaces around a word do not matter.',
    },
  ),
  startWords: optional(kind.words('words separated by commas, none of them empty'), 'СТАРТ, START', {
    name: 'HUB_START_WORDS',
    group: 'words',
    readBy: DISPATCHER,
    doc: 'What opts a recipient in again.',
  }),
}
