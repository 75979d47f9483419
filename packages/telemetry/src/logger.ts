/**
 * Structured logs: one JSON object per line on standard output, with the app, the level, the
 * annotations of the fiber and the trace id. Phone numbers are always masked.
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

/** Describes a cause. Only defects have a stack, because they are bugs. */
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
  // A ConfigError is no `Error`. Its message may quote a value after `got`, which may be a secret.
  if (error instanceof Config.ConfigError) return `${error.name}: ${error.message.replace(/, got .*/gu, '')}`
  return typeof error === 'string' ? error : 'error'
}

/** Formats the arguments of `Effect.log*`. */
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

/** The logger of an app. It omits lines below `HUB_LOG_LEVEL`. */
export const loggerLayer = (app: string): Layer.Layer<never, Config.ConfigError> =>
  Layer.mergeAll(
    Logger.layer([jsonLogger(app)]),
    Layer.effect(
      References.MinimumLogLevel,
      Effect.map(settings.logLevel.config, (level): LogLevel.LogLevel => level),
    ),
  )

/**
 * Logs the failure that ends an app, such as invalid settings or an occupied port. It wraps the
 * whole app, whose runner must have `disableErrorReporting`: its report is no structured line.
 */
export const withFailureLog =
  (app: string) =>
  <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    effect.pipe(
      Effect.tapCause((cause) =>
        Cause.hasInterruptsOnly(cause)
          ? Effect.void
          : Effect.logFatal('the process ends because of a failure', cause),
      ),
      Effect.provide(Logger.layer([jsonLogger(app)])),
    )
