/**
 * Structured logs: one JSON object a line on standard output, with the app, the level, the annotations of the
 * fiber (request, message and shard ids) and the trace id. Numbers are masked whatever the caller did.
 */
import { settings } from '@hub/config'
import {
  Cause,
  Config,
  Context,
  Effect,
  Layer,
  Logger,
  type LogLevel,
  Option,
  References,
  Tracer,
} from 'effect'
import { maskNumbers } from './mask.ts'

/** A cause is shown as its errors' names and messages; stacks only of defects, since those are our own faults. */
const describeCause = (cause: Cause.Cause<unknown>): ReadonlyArray<string> =>
  cause.reasons.map((reason) => {
    if (Cause.isFailReason(reason)) return describeError(reason.error)
    if (Cause.isDieReason(reason)) {
      return reason.defect instanceof Error
        ? (reason.defect.stack ?? String(reason.defect))
        : String(reason.defect)
    }
    return 'interrupted'
  })

const describeError = (error: unknown): string => {
  if (error instanceof Error) {
    const detail = 'detail' in error && typeof error.detail === 'string' ? `: ${error.detail}` : ''
    return `${error.name}${error.message === '' ? '' : `: ${error.message}`}${detail}`
  }
  // It is not an `Error`, and says which variable is wrong and how; a value that it quotes may be a secret.
  if (error instanceof Config.ConfigError) return `${error.name}: ${error.message.replace(/, got .*/gu, '')}`
  return typeof error === 'string' ? error : 'error'
}

/** Renders what was passed to `Effect.log*`: strings and plain values, never objects with unknown content. */
const describeMessage = (message: unknown): string => {
  const parts = Array.isArray(message) ? message : [message]
  return parts
    .map((part) =>
      typeof part === 'string'
        ? part
        : part instanceof Error
          ? describeError(part)
          : typeof part === 'number' || typeof part === 'boolean' || typeof part === 'bigint'
            ? String(part)
            : (JSON.stringify(part) ?? ''),
    )
    .join(' ')
}

const jsonLogger = (app: string) =>
  Logger.make(({ cause, date, fiber, logLevel, message }) => {
    const line: Record<string, unknown> = {
      time: date.toISOString(),
      level: logLevel.toLowerCase(),
      app,
      message: describeMessage(message),
    }
    for (const [name, value] of Object.entries(fiber.getRef(References.CurrentLogAnnotations)))
      line[name] = value
    const span = Context.getOption(fiber.context, Tracer.ParentSpan)
    if (Option.isSome(span)) {
      line['trace_id'] = span.value.traceId
      line['span_id'] = span.value.spanId
    }
    if (cause.reasons.length > 0) line['cause'] = describeCause(cause)
    process.stdout.write(`${maskNumbers(JSON.stringify(line))}\n`)
  })

/**
 * The logger of an app. What is below `HUB_LOG_LEVEL` is left out.
 */
export const loggerLayer = (app: string): Layer.Layer<never, Config.ConfigError> =>
  Layer.mergeAll(
    Logger.layer([jsonLogger(app)]),
    Layer.effect(
      References.MinimumLogLevel,
      Effect.map(settings.logLevel.config, (level): LogLevel.LogLevel => level),
    ),
  )

/**
 * Tells in the log why an app ends that cannot go on: wrong settings, a port that is taken. To be put around the whole of it, with the
 * runner's own report off (`disableErrorReporting`), which is written before any logger is there and in no form of ours.
 */
export const withFailureLog =
  (app: string) =>
  <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    effect.pipe(
      Effect.tapCause((cause) =>
        Cause.hasInterruptsOnly(cause) ? Effect.void : Effect.logFatal('the process cannot go on', cause),
      ),
      Effect.provide(Logger.layer([jsonLogger(app)])),
    )
