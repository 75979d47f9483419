/**
 * What an operator's codes mean to the hub: `command_status` of answers, and states and error codes of receipts. Every
 * operator has codes of its own (0x0400 and above, and all error codes of receipts), so that the tables are configuration;
 * what is said there goes before the defaults here.
 */
import {
  REJECTED_REASONS,
  type RejectedReason,
  UNDELIVERED_REASONS,
  type UndeliveredReason,
} from '@hub/domain'
import { Data, Result, Schema } from 'effect'

/** What follows from an answer that is no success. In none of these cases does the operator have the part. */
export const STATUS_MEANINGS = ['throttled', 'retry', ...REJECTED_REASONS] as const
/**
 * `throttled`: slow down, all binds, and try again. `retry`: try again, this had nothing to do with the rate. A reason:
 * never, and the message is `rejected` with it.
 */
export type StatusMeaning = (typeof STATUS_MEANINGS)[number]

/** What a state of a receipt means; `intermediate` is acknowledged and says nothing. */
export const STATE_MEANINGS = [
  'delivered',
  'undelivered',
  'rejected',
  'expired',
  'seen',
  'intermediate',
] as const
export type StateMeaning = (typeof STATE_MEANINGS)[number]

export interface SmppErrors {
  /** By number. */
  readonly commandStatus: ReadonlyMap<number, StatusMeaning>
  /** By the word of a textual receipt in upper case, or the number of a `message_state` TLV in digits. */
  readonly receiptState: ReadonlyMap<string, StateMeaning>
  /** By the error code of a receipt without leading zeros, upper case. Counts where a message failed. */
  readonly receiptError: ReadonlyMap<string, UndeliveredReason | RejectedReason>
}

/** Names of SMPP 3.4, 5.1.3 that configuration and logs may use; operators' own codes are written as numbers. */
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
 * Without a word in the configuration: 0x58 and 0x14 both mean "slow down"; a system error, a temporary error and a bind in
 * the wrong state pass; a source address that is refused is a sender that the operator does not have on its list. Everything
 * else is final (`operator_rejected`): repeating what an operator does not want gets a bind closed.
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
 * States of receipts (SMPP 3.4, 5.2.28 and appendix B). DELETED and UNKNOWN will not be followed by anything: the message is
 * not going to arrive. SEEN and READ are what operators with messengers behind them say; a number for it in `message_state`
 * is a vendor's own, and has no default. Words are cut to seven letters by some centres.
 */
const DEFAULT_STATE: ReadonlyMap<string, StateMeaning> = new Map([
  ['DELIVRD', 'delivered'],
  ['DELIVERED', 'delivered'],
  ['UNDELIV', 'undelivered'],
  ['UNDELIVERABLE', 'undelivered'],
  ['REJECTD', 'rejected'],
  ['REJECTED', 'rejected'],
  ['EXPIRED', 'expired'],
  ['DELETED', 'undelivered'],
  ['UNKNOWN', 'undelivered'],
  ['SKIPPED', 'undelivered'],
  ['SEEN', 'seen'],
  ['READ', 'seen'],
  ['ENROUTE', 'intermediate'],
  ['ACCEPTD', 'intermediate'],
  ['ACCEPTED', 'intermediate'],
  ['SCHEDULED', 'intermediate'],
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

/** `null`: a state that nobody has told us of. */
export const meaningOfState = (errors: SmppErrors, state: string): StateMeaning | null =>
  errors.receiptState.get(state) ?? DEFAULT_STATE.get(state) ?? null

/** Error codes are padded by some centres and not by others. */
export const canonicalErrorCode = (code: string): string => code.toUpperCase().replace(/^0+(?=.)/u, '')

/** The name of a status for logs: `ESME_RTHROTTLED`, or `0x00000400`. */
export const statusName = (status: number): string =>
  Object.entries(COMMAND_STATUS).find(([, code]) => code === status)?.[0] ??
  `0x${status.toString(16).padStart(8, '0')}`

/** The configuration is not a mapping of codes; `detail` says which entry. */
export class SmppErrorsInvalid extends Data.TaggedError('SmppErrorsInvalid')<{ readonly detail: string }> {}

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
 * Reads the mapping of configuration, JSON:
 * `{"command_status": {"0x0400": "retry", "ESME_RSUBMITFAIL": "throttled"}, "receipt_state": {"VIEWED": "seen"},
 * "receipt_error": {"001": "recipient_nonexistent"}}`. Each part may be left out; what it does not say keeps its default.
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
