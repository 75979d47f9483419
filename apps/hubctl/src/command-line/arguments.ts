/** Arguments and flags that several commands use: ids, modes, limits, durations, timestamps. */
import { type CommandFailed, refused, unavailable, usageError } from '@hub/command-line'
import { settings } from '@hub/config'
import {
  CACHE_TTL_MS,
  decodeId,
  fromTimestamp,
  type IdPrefix,
  isRecipientNumber,
  MODES,
  recipientHash,
} from '@hub/domain'
import { hasNoNumber, isPlainLine, MAX_LINE_LENGTH, OptOutHistory, Recipients } from '@hub/operations'
import { recipientOfErasure } from '@hub/store'
import { type Config, Duration, Effect, Option, Redacted, Stdio, Stream } from 'effect'
import { Argument, Flag } from 'effect/cli'
import { performOverApi, selectedApi } from '../api.ts'

/** A required id: `acc_…`. */
export const idArgument = (prefix: IdPrefix, name: string, about: string) =>
  Argument.String(name).pipe(
    Argument.withDescription(about),
    Argument.withMetavar(`${prefix}_…`),
    Argument.filter(
      (id) => decodeId(prefix, id) !== null,
      () => `an id that begins with ${prefix}_`,
    ),
  )

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/u

/** A required id of what hub staff request: a UUID. */
export const uuidArgument = (name: string, about: string) =>
  Argument.String(name).pipe(
    Argument.withDescription(about),
    Argument.filter(
      (id) => UUID.test(id),
      () => 'a UUID',
    ),
  )

export const accountArgument = idArgument('acc', 'account', 'An id from hubctl accounts list')

/** Selects one account; `null`: all. */
export const accountFlag = Flag.String('account').pipe(
  Flag.withDescription('Only this account'),
  Flag.withMetavar('acc_…'),
  Flag.filter(
    (id) => decodeId('acc', id) !== null,
    () => 'an id that begins with acc_',
  ),
  Flag.optional,
  Flag.map(Option.getOrNull),
)

/** Selects one of several values; `null`: all. */
export const choiceFlag = <const Choice extends string>(
  name: string,
  choices: ReadonlyArray<Choice>,
  about: string,
) => Flag.Literals(name, choices).pipe(Flag.withDescription(about), Flag.optional, Flag.map(Option.getOrNull))

export const modeFlag = choiceFlag('mode', MODES, 'Only this mode')

export const switchFlag = (name: string, about: string) =>
  Flag.Boolean(name).pipe(Flag.withDescription(about), Flag.withDefault(false))

/** The maximum number of rows. */
export const limitFlag = Flag.Int('limit').pipe(
  Flag.withDescription('Show at most this number'),
  Flag.filter(
    (limit) => limit >= 1 && limit <= 1000,
    () => 'from 1 to 1000',
  ),
  Flag.withDefault(50),
)

/** The filter of an account name, and its error. */
export const plainLine = [
  (text: string) => isPlainLine(text, MAX_LINE_LENGTH),
  () => `one line of 1 to ${MAX_LINE_LENGTH} characters`,
] as const

/** The reason of a refusal, for the client, or of a look-up, for the audit trail. */
export const reasonFlag = (about: string) =>
  Flag.String('reason').pipe(
    Flag.withDescription(about),
    Flag.filter(
      (text) => isPlainLine(text, MAX_LINE_LENGTH) && hasNoNumber(text),
      () => `one line of 1 to ${MAX_LINE_LENGTH} characters, without a phone number`,
    ),
  )

/** The reason of a command that shows data of people. The operations API requires one. */
export const revealReasonFlag = reasonFlag(
  'Why you need this data, for the audit trail. With --api it is required',
).pipe(Flag.optional)

const UNITS = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const

/** Parses `30m`, `2h` or `1d` to milliseconds; `null` for other texts. */
export const parseDuration = (text: string): number | null => {
  const [, count, unit] = /^(\d{1,6})([smhd])$/u.exec(text) ?? []
  return count === undefined ? null : Number(count) * UNITS[unit as keyof typeof UNITS]
}

/** A duration of at most `maxMs` milliseconds. */
export const durationFlag = (name: string, about: string, maxMs: number) =>
  Flag.String(name).pipe(
    Flag.withDescription(about),
    Flag.withMetavar('30m|2h|1d'),
    Flag.filterMap(
      (text) => Option.filter(Option.fromNullishOr(parseDuration(text)), (ms) => ms <= maxMs),
      () => `a number and s, m, h or d, at most ${Duration.format(Duration.millis(maxMs))}`,
    ),
  )

/**
 * Parses `2026-11-21T10:00:00.000Z`, `2026-11-21T10:00Z` or `2026-11-21` (UTC) to milliseconds
 * since the epoch; `null` for other texts.
 */
export const parseTimestamp = (text: string): number | null => {
  const [, day, time] = /^(\d{4}-\d{2}-\d{2})(?:T(\d{2}:\d{2}(?::\d{2}(?:\.\d{3})?)?)Z)?$/u.exec(text) ?? []
  if (day === undefined) return null
  return fromTimestamp(`${day}T${(time ?? '00:00').padEnd(8, ':00').padEnd(12, '.000')}Z`)
}

/** A timestamp, in milliseconds since the epoch. */
export const timestampFlag = (name: string, about: string) =>
  Flag.String(name).pipe(
    Flag.withDescription(about),
    Flag.withMetavar('2026-11-21T10:00Z'),
    Flag.filterMap(
      (text) => Option.fromNullishOr(parseTimestamp(text)),
      () => 'a time in UTC, such as 2026-11-21 or 2026-11-21T10:00Z',
    ),
  )

/** The sentence of a help text that says when running processes apply a change. */
export const takesEffect = (cache: keyof typeof CACHE_TTL_MS): string =>
  `Running processes apply it within ${CACHE_TTL_MS[cache] / 1000} seconds.`

/** Reads standard input as text. Fails if it is larger than `maxBytes`. */
export const readStandardInput = Effect.fnUntraced(function* (
  maxBytes: number,
): Effect.fn.Return<string, CommandFailed, Stdio.Stdio> {
  const stdio = yield* Stdio.Stdio
  const chunks: Array<Uint8Array> = []
  let bytes = 0
  yield* Stream.runForEach(stdio.stdin, (chunk) => {
    bytes += chunk.length
    if (bytes > maxBytes) return Effect.fail(usageError(`Standard input has more than ${maxBytes} bytes.`))
    chunks.push(chunk)
    return Effect.void
  }).pipe(
    Effect.catchTag('PlatformError', () =>
      Effect.fail(unavailable('input_unreadable', 'Standard input cannot be read.')),
    ),
  )
  return Buffer.concat(chunks).toString('utf8')
})

/** A phone number with surrounding white space. */
const MAX_NUMBER_BYTES = 64

/**
 * A phone number is personal data. On a command line it is visible in the shell history and the
 * list of processes, so standard input is an alternative.
 */
export const numberArgument = Argument.String('number').pipe(
  Argument.withDescription(
    'The phone number, +79…. With "-", hubctl reads it from standard input, and it stays out of the shell history',
  ),
)

/** Returns the function that hashes phone numbers with the secret of this hub. */
export const numberHasher: Effect.Effect<(number: string) => string, Config.ConfigError> = Effect.map(
  settings.numberHashSecret.config,
  (secret) => (number) => recipientHash(Redacted.value(secret), number),
)

/** The number of `numberArgument`. */
const readNumberArgument = Effect.fnUntraced(function* (argument: string) {
  const number = argument === '-' ? (yield* readStandardInput(MAX_NUMBER_BYTES)).trim() : argument
  return isRecipientNumber(number) ? number : yield* usageError('The number must be +79 and nine digits.')
})

/** The recipient hash of `numberArgument`. */
export const hashNumberArgument = Effect.fnUntraced(function* (argument: string) {
  const number = yield* readNumberArgument(argument)
  const api = yield* selectedApi
  if (api !== null) return (yield* performOverApi(api, Recipients.hash, { recipient: number })).hash
  return (yield* numberHasher)(number)
})

/** The recipient hash of `numberArgument`, for a change of an opt-out. Who may do that need not reveal numbers. */
export const hashForOptOut = Effect.fnUntraced(function* (argument: string) {
  const number = yield* readNumberArgument(argument)
  const api = yield* selectedApi
  if (api !== null) return (yield* performOverApi(api, OptOutHistory.check, { recipient: number })).recipient
  return (yield* numberHasher)(number)
})

/** The recipient of `numberArgument`, for a use case that takes a number: the operations API makes the hash. */
export const recipientOfNumber = Effect.fnUntraced(function* (argument: string) {
  const number = yield* readNumberArgument(argument)
  return (yield* selectedApi) === null ? (yield* numberHasher)(number) : number
})

/** A receipt of `hubctl recipients erase --json` on standard input has some hundred bytes. */
const MAX_RECEIPT_BYTES = 4096

/** A recipient of a request about its data. Only the receipt remains after an erasure. */
export const recipientArgument = Argument.String('recipient').pipe(
  Argument.withDescription(
    'The phone number, +79…, its hash (64 hexadecimal digits), or the id of a receipt. With "-", hubctl reads one of them, or a receipt as JSON, from standard input, and the number stays out of the shell history',
  ),
)

const HASH = /^[0-9a-f]{64}$/u

/** The recipient hash in a receipt as JSON; `null` for other texts. */
const hashInReceipt = (text: string): string | null => {
  try {
    const receipt: unknown = JSON.parse(text)
    const hash: unknown =
      typeof receipt === 'object' && receipt !== null ? Reflect.get(receipt, 'recipient') : null
    return typeof hash === 'string' && HASH.test(hash) ? hash : null
  } catch {
    return null
  }
}

const readRecipientArgument = Effect.fnUntraced(function* (argument: string) {
  return argument === '-' ? (yield* readStandardInput(MAX_RECEIPT_BYTES)).trim() : argument
})

/** Whether the operations API can make the hash of a text. */
const isForApi = (text: string): boolean => isRecipientNumber(text) || UUID.test(text)

/** The recipient of `recipientArgument`, for a use case that takes a number: the operations API makes the hash. */
export const recipientOf = Effect.fnUntraced(function* (argument: string) {
  const text = yield* readRecipientArgument(argument)
  return (yield* selectedApi) !== null && isForApi(text) ? text : yield* hashOfText(text)
})

const hashOfText = Effect.fnUntraced(function* (text: string) {
  if (HASH.test(text)) return text
  if (isRecipientNumber(text)) return (yield* numberHasher)(text)
  if (UUID.test(text)) {
    const recipient = yield* recipientOfErasure(text)
    return (
      recipient ?? (yield* refused('unknown_receipt', 'No erasure has this id. Use the hash in its receipt.'))
    )
  }
  return (
    hashInReceipt(text) ??
    (yield* usageError(
      'The recipient must be +79 and nine digits, a hash of 64 hexadecimal digits, or a receipt.',
    ))
  )
})
