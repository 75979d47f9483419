/** The operators of a process: the sandbox for test keys, and the one configured for live keys. */
import type { Mode } from '@hub/domain'
import {
  HTTP,
  HTTP_DEFAULTS,
  makeHttpOperator,
  makeSandbox,
  makeSmppOperator,
  type Operator,
  type ReportSink,
  SANDBOX,
  SANDBOX_DEFAULTS,
  type SandboxOptions,
  SMPP,
  guardOperator,
} from '@hub/operator'
import { Effect, FiberSet, type Scope } from 'effect'
import { type CallbackPortUnavailable, listenForCallbacks } from '../reports/callback-listener.ts'
import type { LiveOperator } from './live-operator.ts'

/** The queue of live messages without a configured operator. No fact contains this name. */
const NO_OPERATOR = 'none'

/** An operator of live keys that a test provides instead of a configured one. */
export interface ProvidedOperator {
  /** One of the names that facts and metrics know. */
  readonly name: typeof SMPP | typeof HTTP
  readonly adapter: Effect.Effect<Operator, never, ReportSink | Scope.Scope>
}

interface Operators {
  readonly byName: ReadonlyMap<string, Operator>
  readonly ofMode: Readonly<Record<Mode, string>>
  /** Warns once if no operator is configured for live messages. */
  readonly onLiveMessage: () => void
}

const makeLiveOperator = (
  live: LiveOperator | ProvidedOperator,
): Effect.Effect<Operator, never, ReportSink | Scope.Scope> => {
  if ('adapter' in live) return live.adapter
  switch (live.name) {
    case SMPP:
      return makeSmppOperator(live.settings)
    case HTTP:
      return makeHttpOperator({ ...HTTP_DEFAULTS, ...live.settings })
  }
}

/** Starts the listener for the operator's callbacks. Returns its port, `null` without a listener. */
export const receiveCallbacks = (
  live: LiveOperator | ProvidedOperator,
): Effect.Effect<number | null, CallbackPortUnavailable, ReportSink | Scope.Scope> => {
  if ('adapter' in live) return Effect.succeed(null)
  switch (live.name) {
    case SMPP:
      return Effect.succeed(null)
    case HTTP: {
      const { callback, secret } = live.settings
      return callback === null ? Effect.succeed(null) : listenForCallbacks({ ...callback, secret })
    }
  }
}

export const makeOperators = (options: {
  readonly live: LiveOperator | ProvidedOperator | null
  readonly sandbox: SandboxOptions | undefined
}): Effect.Effect<Operators, never, ReportSink | Scope.Scope> =>
  Effect.gen(function* () {
    const fork = yield* FiberSet.makeRuntime<never>()
    const { live } = options
    const byName = new Map<string, Operator>()
    byName.set(SANDBOX, yield* guardOperator(yield* makeSandbox(options.sandbox ?? SANDBOX_DEFAULTS)))
    if (live !== null) byName.set(live.name, yield* guardOperator(yield* makeLiveOperator(live)))
    let warned = live !== null
    return {
      byName,
      ofMode: { test: SANDBOX, live: live?.name ?? NO_OPERATOR },
      onLiveMessage: () => {
        if (warned) return
        warned = true
        fork(
          Effect.logWarning(
            'dispatcher: no operator is configured for live keys; their messages wait until they expire. Set HUB_OPERATOR_SMPP_URL or HUB_OPERATOR_HTTP_URL',
          ),
        )
      },
    }
  })
