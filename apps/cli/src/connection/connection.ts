/** The connection of a command: the client, and what its answers say about the clock. */
import { CommandFailed, printNote, refused } from '@hub/command-line'
import { createHubClient, type HubClient } from '@sms-delivery-hub/client'
import { Effect } from 'effect'
import { Flag, GlobalFlag } from 'effect/cli'
import { ProcessContext } from './environment.ts'
import { toFailure } from './failure.ts'
import { findHub, type FoundHub } from './find-hub.ts'

/** `--live`, a flag of every command. */
export const Live = GlobalFlag.Setting('live')({
  flag: Flag.Boolean('live').pipe(
    Flag.withDescription('Use the live key. Without it, the test key is used and no phone is reached'),
    Flag.withDefault(false),
  ),
})

/** The hub accepts and writes times of this accuracy. Receivers refuse signatures older than 5 minutes. */
const MAX_CLOCK_DIFFERENCE_MS = 60_000

export interface Connection extends FoundHub {
  readonly client: HubClient
  /** The clock of the hub, in milliseconds since the epoch, as of its last answer. */
  readonly hubTime: () => number
  /** The clock of this machine minus that of the hub, in milliseconds, with an accuracy of a second. */
  readonly clockDifferenceMs: () => number
  /** From now on, calls `report` when the hub stops answering, and when it answers again. */
  readonly onAvailability: (report: (isAvailable: boolean) => void) => void
}

/** Whether a call was given up because the command ends, and not because its time was over. */
const isGivenUp = (signal: AbortSignal | null | undefined): boolean =>
  signal?.aborted === true &&
  !(signal.reason instanceof DOMException && signal.reason.name === 'TimeoutError')

export const connectTo = (found: FoundHub): Connection => {
  let differenceMs = 0
  let isAvailable = true
  let report: (isAvailable: boolean) => void = () => {}
  const setAvailable = (now: boolean): void => {
    if (now !== isAvailable) report(now)
    isAvailable = now
  }
  const observed: typeof fetch = async (input, init) => {
    try {
      const response = await fetch(input, init)
      const date = Date.parse(response.headers.get('date') ?? '')
      if (Number.isFinite(date)) differenceMs = Date.now() - date
      setAvailable(response.status < 500)
      return response
    } catch (error) {
      if (!isGivenUp(init?.signal)) setAvailable(false)
      throw error
    }
  }
  return {
    ...found,
    client: createHubClient({ baseUrl: found.baseUrl, apiKey: found.key, fetch: observed }),
    hubTime: () => Date.now() - differenceMs,
    clockDifferenceMs: () => differenceMs,
    onAvailability: (given) => {
      report = given
    },
  }
}

/** The connection that flags, environment and files select. */
export const connect = Effect.gen(function* () {
  const found = findHub(yield* ProcessContext, yield* Live)
  if (found instanceof CommandFailed) return yield* found
  const connection = yield* Effect.try({ try: () => connectTo(found), catch: (error) => error })
  yield* printNote(`Hub: ${found.baseUrl} (${found.source}), ${found.mode} key`)
  return connection
})

/** A step of a command with calls or files. An interrupted command aborts the signal. */
export const attempt = <A>(run: (signal: AbortSignal) => Promise<A>): Effect.Effect<A, CommandFailed> =>
  Effect.tryPromise({
    try: run,
    catch: (error) =>
      toFailure(error) ?? refused('internal_error', 'This program itself failed; nothing more is known.'),
  })

/** One sentence about a wrong clock; `null` if it is right. */
export const clockProblem = (connection: Connection): CommandFailed | null => {
  const difference = connection.clockDifferenceMs()
  if (Math.abs(difference) <= MAX_CLOCK_DIFFERENCE_MS) return null
  const seconds = Math.round(Math.abs(difference) / 1000)
  return refused(
    'clock_wrong',
    `The clock of this machine is ${seconds} s ${difference > 0 ? 'ahead of' : 'behind'} that of the hub: correct it, because signatures are valid for five minutes only.`,
  )
}
