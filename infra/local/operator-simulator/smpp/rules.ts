/**
 * What SMPP 3.4 refuses in a request, with the `command_status` of 5.1.3 and the section of each rule.
 * The rules read the octets of the PDU themselves, with tables of their own. So they share no mistake
 * with a codec.
 */

/** The states of a session. Source: 2.2 */
export type State = 'OPEN' | 'BOUND_TX' | 'BOUND_RX' | 'BOUND_TRX'

export interface Refusal {
  readonly status: number
  /** Of SMPP 3.4, or of a standard of 3GPP. */
  readonly section: string
  readonly rule: string
  /** The header itself is invalid, so the answer is `generic_nack` (4.3). */
  readonly isHeader?: true
}

const STATUS = {
  ESME_RINVMSGLEN: 0x01,
  ESME_RINVCMDLEN: 0x02,
  ESME_RINVCMDID: 0x03,
  ESME_RINVBNDSTS: 0x04,
  ESME_RALYBND: 0x05,
  ESME_RINVPRTFLG: 0x06,
  ESME_RINVREGDLVFLG: 0x07,
  ESME_RINVSRCADR: 0x0a,
  ESME_RINVDSTADR: 0x0b,
  ESME_RBINDFAIL: 0x0d,
  ESME_RINVPASWD: 0x0e,
  ESME_RINVSYSID: 0x0f,
  ESME_RINVSERTYP: 0x15,
  ESME_RINVESMCLASS: 0x43,
  ESME_RSUBMITFAIL: 0x45,
  ESME_RINVSRCTON: 0x48,
  ESME_RINVSRCNPI: 0x49,
  ESME_RINVDSTTON: 0x50,
  ESME_RINVDSTNPI: 0x51,
  ESME_RINVSYSTYP: 0x53,
  ESME_RINVREPFLAG: 0x54,
  ESME_RINVSCHED: 0x61,
  ESME_RINVEXPIRY: 0x62,
  ESME_RINVDFTMSGID: 0x63,
  ESME_RINVOPTPARSTREAM: 0xc0,
  ESME_ROPTPARNOTALLWD: 0xc1,
  ESME_RINVPARLEN: 0xc2,
  ESME_RMISSINGOPTPARAM: 0xc3,
  ESME_RINVOPTPARAMVAL: 0xc4,
  ESME_RUNKNOWNERR: 0xff,
} as const

const refuse = (status: keyof typeof STATUS, section: string, rule: string): Refusal => ({
  status: STATUS[status],
  section,
  rule,
})

// Fields

interface Field {
  readonly name: string
  readonly kind: 'octet' | 'text' | 'message'
  readonly refusal: Refusal
  /** The most characters, without the final NUL. */
  readonly most?: number
  readonly isValid?: (value: number) => boolean
}

const text = (name: string, most: number, status: keyof typeof STATUS, section: string): Field => ({
  name,
  kind: 'text',
  most,
  refusal: refuse(status, section, `${name} has at most ${most} characters and ends with NUL`),
})

const octet = (
  name: string,
  status: keyof typeof STATUS,
  section: string,
  isValid: (value: number) => boolean,
): Field => ({
  name,
  kind: 'octet',
  isValid,
  refusal: refuse(status, section, `${name} has a reserved value`),
})

const anyOctet = (name: string): Field => octet(name, 'ESME_RUNKNOWNERR', '5.2', () => true)

const TONS_UP_TO = 6
const NPIS: ReadonlySet<number> = new Set([0, 1, 3, 4, 6, 8, 9, 10, 14, 18])
const ton = (name: string, status: keyof typeof STATUS): Field =>
  octet(name, status, '5.2.5', (value) => value <= TONS_UP_TO)
const npi = (name: string, status: keyof typeof STATUS): Field =>
  octet(name, status, '5.2.6', (value) => NPIS.has(value))

/** 0x34 is 3.4, and 0x00 to 0x33 are earlier versions. All others are reserved. */
const VERSION = 0x34

const BIND: ReadonlyArray<Field> = [
  text('system_id', 15, 'ESME_RINVSYSID', '5.2.1'),
  text('password', 8, 'ESME_RINVPASWD', '5.2.2'),
  text('system_type', 12, 'ESME_RINVSYSTYP', '5.2.3'),
  octet('interface_version', 'ESME_RBINDFAIL', '5.2.4', (value) => value <= VERSION),
  ton('addr_ton', 'ESME_RBINDFAIL'),
  npi('addr_npi', 'ESME_RBINDFAIL'),
  text('address_range', 40, 'ESME_RBINDFAIL', '5.2.7'),
]

/** Bits 5 to 2: a normal message, or an acknowledgement of one. Others are reserved for this direction. */
const MESSAGE_TYPES: ReadonlySet<number> = new Set([0x00, 0x08, 0x10])
const isEsmClass = (value: number): boolean => MESSAGE_TYPES.has(value & 0x3c)
/** Bits 1 and 0 have three values; bits 7 to 5 are reserved. */
const isRegisteredDelivery = (value: number): boolean => (value & 0x03) !== 3 && value < 0x20
const isDataCoding = (value: number): boolean =>
  (value <= 0x0e && ![0x0b, 0x0c].includes(value)) || (value >= 0xc0 && value <= 0xdf) || value >= 0xf0

const SUBMIT_SM: ReadonlyArray<Field> = [
  text('service_type', 5, 'ESME_RINVSERTYP', '5.2.11'),
  ton('source_addr_ton', 'ESME_RINVSRCTON'),
  npi('source_addr_npi', 'ESME_RINVSRCNPI'),
  text('source_addr', 20, 'ESME_RINVSRCADR', '5.2.8'),
  ton('dest_addr_ton', 'ESME_RINVDSTTON'),
  npi('dest_addr_npi', 'ESME_RINVDSTNPI'),
  text('destination_addr', 20, 'ESME_RINVDSTADR', '5.2.9'),
  octet('esm_class', 'ESME_RINVESMCLASS', '5.2.12', isEsmClass),
  anyOctet('protocol_id'),
  octet('priority_flag', 'ESME_RINVPRTFLG', '5.2.14', (value) => value <= 3),
  text('schedule_delivery_time', 16, 'ESME_RINVSCHED', '5.2.15'),
  text('validity_period', 16, 'ESME_RINVEXPIRY', '5.2.16'),
  octet('registered_delivery', 'ESME_RINVREGDLVFLG', '5.2.17', isRegisteredDelivery),
  octet('replace_if_present_flag', 'ESME_RINVREPFLAG', '5.2.18', (value) => value <= 1),
  octet('data_coding', 'ESME_RSUBMITFAIL', '5.2.19', isDataCoding),
  octet('sm_default_msg_id', 'ESME_RINVDFTMSGID', '5.2.20', (value) => value <= 254),
  {
    name: 'short_message',
    kind: 'message',
    refusal: refuse('ESME_RINVMSGLEN', '5.2.21', 'sm_length is at most 254 and the text has this length'),
  },
]

// TLVs

/** The TLVs of `submit_sm` (4.4.1) with the least and the most octets (5.3.2). */
const SUBMIT_TLVS: ReadonlyMap<number, readonly [least: number, most: number]> = new Map([
  [0x0005, [1, 1]],
  [0x000d, [1, 1]],
  [0x0019, [1, 1]],
  [0x0030, [1, 1]],
  [0x0201, [1, 1]],
  [0x0202, [2, 23]],
  [0x0203, [2, 23]],
  [0x0204, [2, 2]],
  [0x0205, [1, 1]],
  [0x020a, [2, 2]],
  [0x020b, [2, 2]],
  [0x020c, [2, 2]],
  [0x020d, [1, 1]],
  [0x020e, [1, 1]],
  [0x020f, [1, 1]],
  [0x0302, [1, 1]],
  [0x0303, [1, 65]],
  [0x0304, [1, 1]],
  [0x0381, [4, 19]],
  [0x0424, [1, 0xffff]],
  [0x0426, [0, 1]],
  [0x0501, [1, 1]],
  [0x1201, [1, 1]],
  [0x1203, [2, 2]],
  [0x1204, [1, 1]],
  [0x130c, [0, 0]],
  [0x1380, [1, 1]],
  [0x1383, [2, 2]],
])
/** TLVs of the standard that `submit_sm` does not have. Unknown ones are ignored (3.3). */
const OTHER_TLVS: ReadonlySet<number> = new Set([
  0x0006, 0x0007, 0x0008, 0x000e, 0x000f, 0x0010, 0x0017, 0x001d, 0x001e, 0x0210, 0x0420, 0x0421, 0x0422,
  0x0423, 0x0425, 0x0427,
])
const MESSAGE_PAYLOAD = 0x0424
/** `sar_msg_ref_num`, `sar_total_segments` and `sar_segment_seqnum` come together. Source: 5.3.2.22 to 24 */
const SAR = { reference: 0x020c, total: 0x020e, sequence: 0x020f }

// Reading

interface Body {
  readonly numbers: ReadonlyMap<string, number>
  readonly texts: ReadonlyMap<string, string>
  readonly message: Buffer
  readonly rest: Buffer
}

const HEADER = 16

/** Reads the mandatory fields and applies the rule of each. */
const readBody = (frame: Buffer, fields: ReadonlyArray<Field>): Body | Refusal => {
  const numbers = new Map<string, number>()
  const texts = new Map<string, string>()
  let message: Buffer = Buffer.alloc(0)
  let at = HEADER
  for (const { isValid, kind, most, name, refusal } of fields) {
    if (at >= frame.length) return refuse('ESME_RINVCMDLEN', '3.2', `the PDU ends before ${name}`)
    const first = frame.readUInt8(at)
    if (kind === 'octet') {
      if (isValid?.(first) === false) return refusal
      numbers.set(name, first)
      at += 1
    } else if (kind === 'text') {
      const end = frame.indexOf(0, at)
      if (end < 0 || end - at > (most ?? 0)) return refusal
      const value = frame.toString('latin1', at, end)
      if (/[^\x20-\x7e]/u.test(value)) return { ...refusal, rule: `${name} is ASCII` }
      texts.set(name, value)
      at = end + 1
    } else {
      if (first > 254 || at + 1 + first > frame.length) return refusal
      message = frame.subarray(at + 1, at + 1 + first)
      at += 1 + first
    }
  }
  return { numbers, texts, message, rest: frame.subarray(at) }
}

const readTlvs = (rest: Buffer): ReadonlyMap<number, Buffer> | Refusal => {
  const tlvs = new Map<number, Buffer>()
  for (let at = 0; at < rest.length;) {
    const end = at + 4 <= rest.length ? at + 4 + rest.readUInt16BE(at + 2) : Number.POSITIVE_INFINITY
    if (end > rest.length)
      return refuse('ESME_RINVOPTPARSTREAM', '3.2.4.1', 'the TLVs fill the rest of the PDU')
    tlvs.set(rest.readUInt16BE(at), rest.subarray(at + 4, end))
    at = end
  }
  return tlvs
}

// Times

/** `YYMMDDhhmmsstnn` and `R`, `+` or `-`. */
const TIME = /^(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)(\d)(\d\d)([+\-R])$/u

const isTime = (value: string): boolean => {
  if (value === '') return true
  const parts = TIME.exec(value)
  if (parts === null) return false
  const [, month = 0, day = 0, hour = 0, minute = 0, second = 0, tenths = 0, quarters = 0] = parts
    .slice(1, 9)
    .map(Number)
  const isClock = hour < 24 && minute < 60 && second < 60
  if (parts[9] === 'R') return isClock && month <= 12 && day <= 31 && tenths === 0 && quarters === 0
  return isClock && month >= 1 && month <= 12 && day >= 1 && day <= 31 && quarters <= 48
}

// Text

const UDH_INDICATOR = 0x40
const [DEFAULT_ALPHABET, ASCII, UCS2] = [0x00, 0x01, 0x08]
const ESCAPE = 0x1b
/** 3GPP TS 23.040, 9.2.3.24: a user data field has at most 140 octets. */
const USER_DATA_OCTETS = 140

/** Octets on the radio path. Septets are packed and begin at a multiple of seven bits after the header. */
const userDataOctets = (headerOctets: number, textOctets: number, dataCoding: number): number =>
  dataCoding === DEFAULT_ALPHABET || dataCoding === ASCII
    ? Math.ceil(((Math.ceil((headerOctets * 8) / 7) + textOctets) * 7) / 8)
    : headerOctets + textOctets

/** The octets of the user data header with its length, or null if it is invalid. */
const headerOctetsOf = (message: Buffer): number | null => {
  const length = message[0]
  if (length === undefined || 1 + length > message.length) return null
  let at = 1
  while (at <= length) {
    const [element, size] = [message[at], message[at + 1]]
    if (element === undefined || size === undefined || at + 2 + size > 1 + length) return null
    const wide = element === 0x08 ? 4 : element === 0x00 ? 3 : null
    if (wide !== null) {
      const [total, sequence] = [message[at + size] ?? 0, message[at + size + 1] ?? 0]
      if (size !== wide || sequence < 1 || sequence > total) return null
    }
    at += 2 + size
  }
  return 1 + length
}

const refusalOfText = ({ message, numbers }: Body): Refusal | null => {
  const dataCoding = numbers.get('data_coding') ?? 0
  const hasHeader = ((numbers.get('esm_class') ?? 0) & UDH_INDICATOR) !== 0
  const headerOctets = hasHeader ? headerOctetsOf(message) : 0
  if (headerOctets === null) {
    return refuse('ESME_RINVESMCLASS', '5.2.12', 'the user data header fits and names a part of its parts')
  }
  const content = message.subarray(headerOctets)
  if (userDataOctets(headerOctets, content.length, dataCoding) > USER_DATA_OCTETS) {
    return refuse(
      'ESME_RINVMSGLEN',
      '3GPP TS 23.040, 9.2.3.24',
      'a part has at most 140 octets with its header',
    )
  }
  if (dataCoding === DEFAULT_ALPHABET || dataCoding === ASCII) {
    if (content.some((one) => one > 0x7f)) {
      return refuse('ESME_RSUBMITFAIL', '5.2.19', 'the characters of a 7-bit alphabet are below 128')
    }
    if (dataCoding === DEFAULT_ALPHABET && content.at(-1) === ESCAPE) {
      return refuse('ESME_RSUBMITFAIL', '3GPP TS 23.038, 6.2.1.1', 'a part does not end with the escape')
    }
  }
  if (dataCoding === UCS2) {
    if (content.length % 2 !== 0) {
      return refuse('ESME_RINVMSGLEN', '5.2.19', 'UCS-2 has two octets for each character')
    }
    if (!Buffer.from(content).swap16().toString('utf16le').isWellFormed()) {
      return refuse('ESME_RSUBMITFAIL', '3GPP TS 23.038, 6.2.3', 'a part does not end inside a character')
    }
  }
  return null
}

// Requests

/** Types of number with digits: international, national, network specific and subscriber. */
const NUMERIC_TONS: ReadonlySet<number> = new Set([1, 2, 3, 4])
const ALPHANUMERIC_TON = 5
/** 3GPP TS 23.040, 9.1.2.5: an address has ten octets, which are eleven septets. */
const ALPHANUMERIC_CHARACTERS = 11

const refusalOfAddresses = ({ numbers, texts }: Body): Refusal | null => {
  const source = texts.get('source_addr') ?? ''
  const destination = texts.get('destination_addr') ?? ''
  const isDigits = (address: string): boolean => /^\d*$/u.test(address)
  const isNumeric = (name: string): boolean => NUMERIC_TONS.has(numbers.get(name) ?? 0)
  if (isNumeric('source_addr_ton') && !isDigits(source)) {
    return refuse('ESME_RINVSRCADR', '5.2.8', 'the address of a type of number has digits only')
  }
  if (numbers.get('source_addr_ton') === ALPHANUMERIC_TON && source.length > ALPHANUMERIC_CHARACTERS) {
    return refuse('ESME_RINVSRCADR', '3GPP TS 23.040, 9.1.2.5', 'a name has at most eleven characters')
  }
  if (destination === '' || (isNumeric('dest_addr_ton') && !isDigits(destination))) {
    return refuse('ESME_RINVDSTADR', '5.2.9', 'the destination is an address of its type of number')
  }
  return null
}

const refusalOfTlvs = (tlvs: ReadonlyMap<number, Buffer>, body: Body): Refusal | null => {
  for (const [tag, { length }] of tlvs) {
    if (OTHER_TLVS.has(tag))
      return refuse('ESME_ROPTPARNOTALLWD', '4.4.1', 'submit_sm does not have this TLV')
    const [least, most] = SUBMIT_TLVS.get(tag) ?? [0, 0xffff]
    if (length < least || length > most) {
      return refuse('ESME_RINVPARLEN', '5.3.2', 'a TLV has the length of its definition')
    }
  }
  if (body.message.length > 0 && tlvs.has(MESSAGE_PAYLOAD)) {
    return refuse(
      'ESME_ROPTPARNOTALLWD',
      '5.3.2.32',
      'the text is in one of short_message and message_payload',
    )
  }
  const sar = Object.values(SAR).filter((tag) => tlvs.has(tag)).length
  if (sar > 0 && sar < 3) {
    return refuse('ESME_RMISSINGOPTPARAM', '5.3.2.22', 'the three TLVs of a segment come together')
  }
  const [total, sequence] = [tlvs.get(SAR.total)?.[0], tlvs.get(SAR.sequence)?.[0]]
  if (total !== undefined && sequence !== undefined && (sequence < 1 || sequence > total)) {
    return refuse('ESME_RINVOPTPARAMVAL', '5.3.2.24', 'the number of a segment is from 1 to their total')
  }
  return null
}

const refusalOfSubmit = (frame: Buffer): Refusal | null => {
  const body = readBody(frame, SUBMIT_SM)
  if ('status' in body) return body
  if (!isTime(body.texts.get('schedule_delivery_time') ?? '')) {
    return refuse('ESME_RINVSCHED', '7.1.1', 'schedule_delivery_time has the format of times')
  }
  if (!isTime(body.texts.get('validity_period') ?? '')) {
    return refuse('ESME_RINVEXPIRY', '7.1.1', 'validity_period has the format of times')
  }
  const tlvs = readTlvs(body.rest)
  if ('status' in tlvs) return tlvs
  return refusalOfAddresses(body) ?? refusalOfTlvs(tlvs, body) ?? refusalOfText(body)
}

const refusalOfBind = (frame: Buffer): Refusal | null => {
  const body = readBody(frame, BIND)
  if ('status' in body) return body
  return body.rest.length > 0 ? refuse('ESME_RINVCMDLEN', '4.1', 'the PDU ends after its fields') : null
}

const refusalOfEmpty = (frame: Buffer): Refusal | null =>
  frame.length > HEADER ? refuse('ESME_RINVCMDLEN', '4.2 and 4.11', 'the PDU has no body') : null

const SUBMIT = 0x04
const BINDS: ReadonlySet<number> = new Set([0x01, 0x02, 0x09])
/** `unbind` and `enquire_link`. */
const EMPTY: ReadonlySet<number> = new Set([0x06, 0x15])

const refusalOfState = (id: number, state: State): Refusal | null => {
  if (BINDS.has(id)) {
    return state === 'OPEN' ? null : refuse('ESME_RALYBND', '2.3', 'a session is bound once')
  }
  const isWrong = state === 'OPEN' || (id === SUBMIT && state === 'BOUND_RX')
  return isWrong ? refuse('ESME_RINVBNDSTS', '2.3', 'the state of the session allows the request') : null
}

/**
 * Returns why the standard refuses a request, or null. `isOutstanding`: the session has a request without
 * an answer that has this sequence number.
 */
export const refusalOf = (
  frame: Buffer,
  state: State,
  isOutstanding: (sequence: number) => boolean,
): Refusal | null => {
  const id = frame.readUInt32BE(4)
  const sequence = frame.readUInt32BE(12)
  if (sequence < 1 || sequence > 0x7fff_ffff) {
    const refusal = refuse('ESME_RUNKNOWNERR', '5.1.4', 'sequence_number is from 1 to 0x7FFFFFFF')
    return { ...refusal, isHeader: true }
  }
  if (isOutstanding(sequence)) {
    return refuse('ESME_RUNKNOWNERR', '5.1.4', 'requests without an answer have different sequence numbers')
  }
  if (frame.readUInt32BE(8) !== 0) {
    return refuse('ESME_RUNKNOWNERR', '5.1.3', 'command_status of a request is NULL')
  }
  const wrongState = refusalOfState(id, state)
  if (wrongState !== null) return wrongState
  if (BINDS.has(id)) return refusalOfBind(frame)
  if (id === SUBMIT) return refusalOfSubmit(frame)
  return EMPTY.has(id) ? refusalOfEmpty(frame) : null
}
