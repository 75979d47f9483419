/** Runs the SMPP operator adapter alone, bound to a third-party SMSC. */
import {
  type InboundMessage,
  makeSmppOperator,
  type OperatorReport,
  ReportSink,
  SMPP_DEFAULTS,
  type SmppOperator,
  type SmppSettings,
  type Submission,
} from '@hub/operator'
import { eventually } from '@hub/testkit'
import { Effect, Logger, Redacted, type Scope } from 'effect'

interface BoundOperator {
  readonly operator: SmppOperator
  /** The delivery reports, in order of arrival. */
  readonly reports: ReadonlyArray<OperatorReport>
  readonly inbound: ReadonlyArray<InboundMessage>
}

/** An SMSC that has just started may need this long on a busy machine. */
const BOUND_WITHIN_MS = 30_000

/** Waits until the adapter is bound, also after the SMSC was away. */
export const untilBound = ({ isReady }: SmppOperator): Effect.Effect<void> =>
  Effect.promise(async () => {
    await eventually(() => Effect.runPromise(isReady), { withinMs: BOUND_WITHIN_MS })
  })

/**
 * Binds an SMPP operator to an SMSC on the loopback address. It records reports and inbound
 * messages.
 */
export const bindSmppOperator = (
  port: number,
  systemId: string,
  password: string,
  more: Partial<SmppSettings> = {},
): Effect.Effect<BoundOperator, never, Scope.Scope> =>
  Effect.gen(function* () {
    const reports: Array<OperatorReport> = []
    const inbound: Array<InboundMessage> = []
    const operator = yield* makeSmppOperator({
      ...SMPP_DEFAULTS,
      // The SMSC of a test is back within a second, and no other client waits for it.
      reconnect: { firstMs: 100, longestMs: 500 },
      ...more,
      url: new URL(`smpp://${systemId}@127.0.0.1:${port}`),
      password: Redacted.make(password),
    }).pipe(
      Effect.provideService(ReportSink, {
        store: (batch) => Effect.sync(() => void reports.push(...batch)),
        keepAnswers: () => {},
        storeInbound: (batch) => Effect.sync(() => void inbound.push(...batch)),
      }),
      // These tests disconnect the SMSC on purpose, so the log lines are expected.
      Effect.provide(Logger.layer([])),
    )
    yield* untilBound(operator)
    return { operator, reports, inbound }
  })

/** Creates a submission as the dispatcher does. */
export const makeSubmission = (to: string, more: Partial<Submission> = {}): Submission => ({
  reference: `msg_${to.slice(1)}`,
  recipient: 'ab'.repeat(32),
  to,
  text: 'Code 1234',
  sender: 'HUB',
  parts: 1,
  encoding: 'gsm7',
  validitySeconds: 300,
  ...more,
})
