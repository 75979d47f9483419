/** Arguments and flags that several commands have: ids, modes, numbers, moments, and how they are checked. */
import { randomBytes } from 'node:crypto'
import { settings } from '@hub/config'
import {
  CACHE_TTL_MS,
  characterCount,
  decodeId,
  fromTimestamp,
  hasControlCharacters,
  type IdPrefix,
  isRecipientNumber,
  MODES,
  NEW_ID_RANDOM_BYTES,
  newId,
  recipientHash,
} from '@hub/domain'
import { Clock, type Config, Duration, Effect, Option, Redacted, Stdio, Stream } from 'effect'
import { Argument, Flag } from 'effect/cli'
import { type CommandFailed, usageError, unavailable } from './failure.ts'

/** An id as it was given, and as PostgreSQL knows it. */
export interface Id {
  readonly id: string
  readonly uuid: string
}

const idFrom =
  (prefix: IdPrefix) =>
  (id: string): Option.Option<Id> => {
    const uuid = decodeId(prefix, id)
    return uuid === null ? Option.none() : Option.some({ id, uuid })
  }

/** A required id: `acc_…`. */
export const idArgument = (prefix: IdPrefix, name: string, about: string) =>
  Argument.String(name).pipe(
    Argument.withDescription(about),
    Argument.withMetavar(`${prefix}_…`),
    Argument.filterMap(idFrom(prefix), () => `an id that begins with ${prefix}_`),
  )

export const accountArgument = idArgument('acc', 'account', 'The account, as hubctl accounts list shows it')

/** Only of one account. */
export const accountFlag = Flag.String('account').pipe(
  Flag.withDescription('Only of this account'),
  Flag.withMetavar('acc_…'),
  Flag.filterMap(idFrom('acc'), () => 'an id that begins with acc_'),
  Flag.optional,
)

/** Only in one mode. */
export const modeFlag = Flag.Literals('mode', MODES).pipe(
  Flag.withDescription('Only in this mode'),
  Flag.optional,
)

/** How many of a list. */
export const limitFlag = Flag.Int('limit').pipe(
  Flag.withDescription('How many at most'),
  Flag.filter(
    (limit) => limit >= 1 && limit <= 1000,
    () => 'from 1 to 1000',
  ),
  Flag.withDefault(50),
)

/** A new id, and its UUID. */
export const generateId = Effect.fnUntraced(function* (prefix: IdPrefix) {
  const id = newId(prefix, yield* Clock.currentTimeMillis, randomBytes(NEW_ID_RANDOM_BYTES))
  return { id, uuid: decodeId(prefix, id) ?? (yield* Effect.die('a new id does not decode')) }
})

/** A text of one line that people are going to read. */
export const isPlainLine = (text: string, most: number): boolean =>
  text.trim() !== '' && characterCount(text) <= most && !hasControlCharacters(text) && !text.includes('\n')

/** Characters of a reason, a name of an account and their like. */
export const MAX_LINE_LENGTH = 200

/** Why something is refused, for those who are told. */
export const reasonFlag = (about: string) =>
  Flag.String('reason').pipe(
    Flag.withDescription(about),
    Flag.filter(
      (reason) => isPlainLine(reason, MAX_LINE_LENGTH),
      () => `one line of 1 to ${MAX_LINE_LENGTH} characters`,
    ),
  )

const UNITS = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const

/** `30m`, `2h`, `1d` in milliseconds; `null` for anything else. */
export const parseDuration = (text: string): number | null => {
  const [, count, unit] = /^(\d{1,6})([smhd])$/u.exec(text) ?? []
  return count === undefined ? null : Number(count) * UNITS[unit as keyof typeof UNITS]
}

/** A span of time, milliseconds. */
export const durationFlag = (name: string, about: string, mostMs: number) =>
  Flag.String(name).pipe(
    Flag.withDescription(about),
    Flag.withMetavar('30m|2h|1d'),
    Flag.filterMap(
      (text) => {
        const ms = parseDuration(text)
        return ms === null || ms > mostMs ? Option.none() : Option.some(ms)
      },
      () => `a number and s, m, h or d, at most ${Duration.format(Duration.millis(mostMs))}`,
    ),
  )

/** `2026-11-21T10:00:00.000Z`, or shorter: `2026-11-21T10:00Z`, `2026-11-21`. Always UTC. */
export const parseTimestamp = (text: string): number | null => {
  const [, day, time] = /^(\d{4}-\d{2}-\d{2})(?:T(\d{2}:\d{2}(?::\d{2}(?:\.\d{3})?)?)Z)?$/u.exec(text) ?? []
  if (day === undefined) return null
  return fromTimestamp(`${day}T${(time ?? '00:00').padEnd(8, ':00').padEnd(12, '.000')}Z`)
}

/** A moment, milliseconds since the epoch. */
export const timestampFlag = (name: string, about: string) =>
  Flag.String(name).pipe(
    Flag.withDescription(about),
    Flag.withMetavar('2026-11-21T10:00Z'),
    Flag.filterMap(
      (text) => {
        const ms = parseTimestamp(text)
        return ms === null ? Option.none() : Option.some(ms)
      },
      () => 'a moment in UTC, such as 2026-11-21 or 2026-11-21T10:00Z',
    ),
  )

/** How soon running processes have seen a change, as a help text says it. */
export const takesEffect = (what: keyof typeof CACHE_TTL_MS): string =>
  `Running processes act on it within ${CACHE_TTL_MS[what] / 1000} seconds.`

/** Everything on standard input, as text. What is larger than `mostBytes` is refused. */
export const standardInput = Effect.fnUntraced(function* (
  mostBytes: number,
): Effect.fn.Return<string, CommandFailed, Stdio.Stdio> {
  const stdio = yield* Stdio.Stdio
  const chunks: Array<Uint8Array> = []
  let bytes = 0
  yield* Stream.runForEach(stdio.stdin, (chunk) => {
    bytes += chunk.length
    if (bytes > mostBytes)
      return Effect.fail(usageError(`Standard input holds more than ${mostBytes} bytes.`))
    chunks.push(chunk)
    return Effect.void
  }).pipe(
    Effect.catchTag('PlatformError', () =>
      Effect.fail(unavailable('input_unreadable', 'Standard input cannot be read.')),
    ),
  )
  return Buffer.concat(chunks).toString('utf8')
})

/** A number and what is typed around it. */
const NUMBER_INPUT_BYTES = 64

/**
 * A person's number. It is personal data: on a command line it stands in the history of the shell and, for a moment, in the list of processes, so
 * that it may come by standard input instead.
 */
export const numberArgument = Argument.String('number').pipe(
  Argument.withDescription(
    'The number, +79…; or - to read it from standard input, which leaves it out of the history of your shell',
  ),
)

/** The hash that stands for a number in this hub, in a function, so that many are quickly done. */
export const numberHasher: Effect.Effect<(number: string) => string, Config.ConfigError> = Effect.map(
  settings.numberHashSecret.config,
  (secret) => (number) => recipientHash(Redacted.value(secret), number),
)

/** The hash of the number that an argument stands for; the number goes no further. */
export const hashOfNumber = Effect.fnUntraced(function* (argument: string) {
  const number = argument === '-' ? (yield* standardInput(NUMBER_INPUT_BYTES)).trim() : argument
  if (!isRecipientNumber(number)) return yield* usageError('The number must be +79 and nine digits.')
  return (yield* numberHasher)(number)
})
