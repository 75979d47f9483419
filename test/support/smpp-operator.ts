/** The SMPP operator by itself, bound to somebody else's centre. */
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
  /** What it has reported, in order. */
  readonly reports: ReadonlyArray<OperatorReport>
  readonly inbound: ReadonlyArray<InboundMessage>
}

/** A centre that has only just been started, on a machine that is busy, takes its time. */
const BOUND_WITHIN_MS = 30_000

/** Waits until it is bound, and again after the centre went away. */
export const untilBound = ({ isReady }: SmppOperator): Effect.Effect<void> =>
  Effect.promise(async () => {
    await eventually(() => Effect.runPromise(isReady), { withinMs: BOUND_WITHIN_MS })
  })

/** An operator bound to a centre on the loopback; it takes down what it is told. */
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
      // A centre of a test comes up or back within a second, and nobody else waits for it.
      reconnect: { baseMs: 100, maxMs: 500 },
      ...more,
      url: new URL(`smpp://${systemId}@127.0.0.1:${port}`),
      password: Redacted.make(password),
    }).pipe(
      Effect.provideService(ReportSink, {
        store: (told) => Effect.sync(() => void reports.push(...told)),
        storeInbound: (told) => Effect.sync(() => void inbound.push(...told)),
      }),
      // That a centre comes and goes is what these tests are about.
      Effect.provide(Logger.layer([])),
    )
    yield* untilBound(operator)
    return { operator, reports, inbound }
  })

/** A submission to a number, as the dispatcher makes it. */
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
