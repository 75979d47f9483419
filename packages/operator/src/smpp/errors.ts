/**
 * The meaning of an operator's codes: `command_status` of answers, states and error codes of
 * receipts. Each operator has codes of its own, so configuration overrides these defaults.
 */
import {
  REJECTED_REASONS,
  type RejectedReason,
  UNDELIVERED_REASONS,
  type UndeliveredReason,
} from '@hub/domain'
import { Data, Result, Schema } from 'effect'

/** The meanings of an error status. In all cases the operator does not have the part. */
const STATUS_MEANINGS = ['throttled', 'retry', ...REJECTED_REASONS] as const
/**
 * `throttled`: slow down on all binds and retry. `retry`: retry, the rate is not the cause. A
 * reason code: the message is `rejected` with it.
 */
type StatusMeaning = (typeof STATUS_MEANINGS)[number]

/** The meanings of a receipt state. `intermediate` is acknowledged and has no effect. */
const STATE_MEANINGS = ['delivered', 'undelivered', 'rejected', 'expired', 'seen', 'intermediate'] as const
type StateMeaning = (typeof STATE_MEANINGS)[number]

export interface SmppErrors {
  /** By status number. */
  readonly commandStatus: ReadonlyMap<number, StatusMeaning>
  /** By the upper-case state of the text, or the number of the `message_state` TLV. */
  readonly receiptState: ReadonlyMap<string, StateMeaning>
  /** By the error code, in upper case without leading zeros. */
  readonly receiptError: ReadonlyMap<string, UndeliveredReason | RejectedReason>
}

/** Status names of SMPP 3.4, 5.1.3. Operator-specific codes are numbers. */
export const COMMAND_STATUS = {
  ESME_ROK: 0x00,
  ESME_RINVMSGLEN: 0x01,
  ESME_RINVCMDLEN: 0x02,
  ESME_RINVCMDID: 0x03,
  ESME_RINVBNDSTS: 0x04,
  ESME_RALYBND: 0x05,
  ESME_RINVPRTFLG: 0x06,
  ESME_RINVREGDLVFLG: 0x07,
  ESME_RSYSERR: 0x08,
  ESME_RINVSRCADR: 0x0a,
  ESME_RINVDSTADR: 0x0b,
  ESME_RINVMSGID: 0x0c,
  ESME_RBINDFAIL: 0x0d,
  ESME_RINVPASWD: 0x0e,
  ESME_RINVSYSID: 0x0f,
  ESME_RMSGQFUL: 0x14,
  ESME_RINVSERTYP: 0x15,
  ESME_RINVESMCLASS: 0x43,
  ESME_RSUBMITFAIL: 0x45,
  ESME_RINVSRCTON: 0x48,
  ESME_RINVSRCNPI: 0x49,
  ESME_RINVDSTTON: 0x50,
  ESME_RINVDSTNPI: 0x51,
  ESME_RINVSYSTYP: 0x53,
  ESME_RTHROTTLED: 0x58,
  ESME_RINVSCHED: 0x61,
  ESME_RINVEXPIRY: 0x62,
  ESME_RX_T_APPN: 0x64,
  ESME_RX_P_APPN: 0x65,
  ESME_RX_R_APPN: 0x66,
  ESME_RDELIVERYFAILURE: 0xfe,
  ESME_RUNKNOWNERR: 0xff,
} as const

/**
 * The default meanings. 0x58 and 0x14 request a lower rate. System errors, temporary errors and
 * wrong bind states pass. A refused source address is an unregistered sender. All other status are
 * permanent, because operators close a bind that repeats refused requests.
 */
const DEFAULT_STATUS: ReadonlyMap<number, StatusMeaning> = new Map([
  [COMMAND_STATUS.ESME_RTHROTTLED, 'throttled'],
  [COMMAND_STATUS.ESME_RMSGQFUL, 'throttled'],
  [COMMAND_STATUS.ESME_RINVBNDSTS, 'retry'],
  [COMMAND_STATUS.ESME_RSYSERR, 'retry'],
  [COMMAND_STATUS.ESME_RX_T_APPN, 'retry'],
  [COMMAND_STATUS.ESME_RINVSRCADR, 'spam_filter_sender'],
  [COMMAND_STATUS.ESME_RINVSRCTON, 'spam_filter_sender'],
  [COMMAND_STATUS.ESME_RINVSRCNPI, 'spam_filter_sender'],
])

/**
 * The default meanings of receipt states (SMPP 3.4, 5.2.28 and appendix B), also truncated to seven
 * letters. After DELETED and UNKNOWN no other receipt follows. SEEN and READ come from operators
 * with messenger channels; their numbers are vendor-specific. No standard has DELIVERD, FAILED, SYSERR,
 * NOCRED, BARRED, BARREDA, ZEROBAL, NULL, SCHEDLD, BUFFRED and ACKED, but gateways document them.
 */
const DEFAULT_STATE: ReadonlyMap<string, StateMeaning> = new Map([
  ['DELIVRD', 'delivered'],
  ['DELIVERED', 'delivered'],
  ['DELIVERD', 'delivered'],
  ['UNDELIV', 'undelivered'],
  ['UNDELIVERABLE', 'undelivered'],
  ['REJECTD', 'rejected'],
  ['REJECTED', 'rejected'],
  ['EXPIRED', 'expired'],
  ['DELETED', 'undelivered'],
  ['UNKNOWN', 'undelivered'],
  ['SKIPPED', 'undelivered'],
  ['FAILED', 'undelivered'],
  ['SYSERR', 'undelivered'],
  ['NOCRED', 'undelivered'],
  ['BARRED', 'undelivered'],
  ['BARREDA', 'undelivered'],
  ['ZEROBAL', 'undelivered'],
  ['NULL', 'undelivered'],
  ['SEEN', 'seen'],
  ['READ', 'seen'],
  ['ENROUTE', 'intermediate'],
  ['ACCEPTD', 'intermediate'],
  ['ACCEPTED', 'intermediate'],
  ['SCHEDULED', 'intermediate'],
  ['SCHEDLD', 'intermediate'],
  ['BUFFRED', 'intermediate'],
  ['ACKED', 'intermediate'],
  ['0', 'intermediate'],
  ['1', 'intermediate'],
  ['2', 'delivered'],
  ['3', 'expired'],
  ['4', 'undelivered'],
  ['5', 'undelivered'],
  ['6', 'intermediate'],
  ['7', 'undelivered'],
  ['8', 'rejected'],
  ['9', 'undelivered'],
])

export const DEFAULT_ERRORS: SmppErrors = {
  commandStatus: DEFAULT_STATUS,
  receiptState: DEFAULT_STATE,
  receiptError: new Map(),
}

export const meaningOfStatus = (errors: SmppErrors, status: number): StatusMeaning =>
  errors.commandStatus.get(status) ?? DEFAULT_STATUS.get(status) ?? 'operator_rejected'

/** Returns `null` for an unknown state. */
export const meaningOfState = (errors: SmppErrors, state: string): StateMeaning | null =>
  errors.receiptState.get(state) ?? DEFAULT_STATE.get(state) ?? null

/** Removes leading zeros, because only some SMSCs pad error codes. */
export const canonicalErrorCode = (code: string): string => code.toUpperCase().replace(/^0+(?=.)/u, '')

/** Returns the name of a status for logs: `ESME_RTHROTTLED`, or `0x00000400`. */
export const statusName = (status: number): string =>
  Object.entries(COMMAND_STATUS).find(([, code]) => code === status)?.[0] ??
  `0x${status.toString(16).padStart(8, '0')}`

/** The configured mapping is invalid. `detail` names the entry. */
class SmppErrorsInvalid extends Data.TaggedError('SmppErrorsInvalid')<{ readonly detail: string }> {}

const Mapping = Schema.Struct({
  command_status: Schema.optionalKey(Schema.Record(Schema.String, Schema.Literals(STATUS_MEANINGS))),
  receipt_state: Schema.optionalKey(Schema.Record(Schema.String, Schema.Literals(STATE_MEANINGS))),
  receipt_error: Schema.optionalKey(
    Schema.Record(Schema.String, Schema.Literals([...UNDELIVERED_REASONS, ...REJECTED_REASONS])),
  ),
})
const decodeMapping = Schema.decodeUnknownResult(Schema.fromJsonString(Mapping))

const statusOf = (key: string): number | null => {
  const named = Object.entries(COMMAND_STATUS).find(([name]) => name === key)
  if (named !== undefined) return named[1]
  if (!/^(?:0[xX][0-9a-fA-F]{1,8}|\d{1,10})$/u.test(key)) return null
  const status = Number(key)
  return status > 0 && status <= 0xffff_ffff ? status : null
}

/**
 * Parses the configured mapping. Each key is optional, and codes without an entry keep their
 * defaults. Example:
 * `{"command_status": {"0x0400": "retry"}, "receipt_state": {"VIEWED": "seen"}, "receipt_error":
 * {"001": "recipient_nonexistent"}}`
 */
export const parseSmppErrors = (json: string): Result.Result<SmppErrors, SmppErrorsInvalid> => {
  const read = decodeMapping(json)
  if (Result.isFailure(read)) {
    return Result.fail(
      new SmppErrorsInvalid({ detail: 'not an object of command_status, receipt_state and receipt_error' }),
    )
  }
  const { command_status = {}, receipt_error = {}, receipt_state = {} } = read.success
  const commandStatus = new Map<number, StatusMeaning>()
  for (const [key, meaning] of Object.entries(command_status)) {
    const status = statusOf(key)
    if (status === null) return Result.fail(new SmppErrorsInvalid({ detail: `command_status ${key}` }))
    commandStatus.set(status, meaning)
  }
  return Result.succeed({
    commandStatus,
    receiptState: new Map(
      Object.entries(receipt_state).map(([state, meaning]) => [state.toUpperCase(), meaning]),
    ),
    receiptError: new Map(
      Object.entries(receipt_error).map(([code, reason]) => [canonicalErrorCode(code), reason]),
    ),
  })
}
