/**
 * The SMPP adapter of the operator port. It keeps its binds while the scope is open. While the SMSC
 * is unreachable, it reconnects and refuses messages. It never repeats a message that the SMSC may
 * have, because an SMSC recognizes no reference of the client.
 */
import { backoffMs } from '@hub/flow'
import { connect as connectTcp } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { Clock, Effect, FiberSet, Random, Redacted, Schedule, type Scope } from 'effect'
import { type Operator, ReportSink, type SubmitOutcome } from '../port.ts'
import { makeDeliveries } from './deliveries.ts'
import { COMMAND_STATUS, statusName } from './errors.ts'
import { makeSmppMetrics } from './metrics.ts'
import type { Fields } from './pdu/index.ts'
import { makeLogLimiter } from '../log-limiter.ts'
import { openSession, type Role, type Session, type SessionEnd } from './session.ts'
import { SMPP, type SmppSettings } from './settings.ts'
import { makeSubmitter } from './submitter.ts'
import { makeUnusable } from '../unusable.ts'

export interface SmppOperator extends Operator {
  /** True if there is a bind for each direction. */
  readonly isReady: Effect.Effect<boolean>
}

const PORTS = { 'smpp:': 2775, 'smpps:': 3550 } as const
/** `interface_version` of SMPP 3.4. */
const VERSION = 0x34
/** The interval for incomplete inbound texts and for the gauges. */
const SWEEP_MS = 500

/** Wrong credentials. Some SMSCs lock the account after frequent retries. */
const WRONG_CREDENTIALS: ReadonlySet<number> = new Set([
  COMMAND_STATUS.ESME_RINVPASWD,
  COMMAND_STATUS.ESME_RINVSYSID,
  COMMAND_STATUS.ESME_RINVSYSTYP,
])

/** The network may be the reason for the end of these sessions. */
const UNREACHABLE: ReadonlySet<SessionEnd> = new Set<SessionEnd>(['disconnected', 'late', 'silent'])

export const makeSmppOperator = (
  settings: SmppSettings,
): Effect.Effect<SmppOperator, never, ReportSink | Scope.Scope> =>
  Effect.gen(function* () {
    const sink = yield* ReportSink
    const unusable = yield* makeUnusable
    const metrics = makeSmppMetrics(yield* Effect.context<never>())
    const clock = yield* Clock.Clock
    const now = () => clock.currentTimeMillisUnsafe()
    const run = yield* FiberSet.makeRuntime<never>()
    const background = (effect: Effect.Effect<void>) => void run(effect)
    const checkLogLimit = makeLogLimiter(now)
    const logLimited = (kind: string, line: Effect.Effect<void>) => {
      const suppressed = checkLogLimit(kind)
      if (suppressed !== null) {
        background(line.pipe(Effect.annotateLogs({ operator: SMPP, suppressed })))
      }
    }

    const { url } = settings
    const tls = url.protocol === 'smpps:'
    const host = url.hostname.replace(/^\[|\]$/gu, '')
    const port = url.port === '' ? PORTS[tls ? 'smpps:' : 'smpp:'] : Number(url.port)
    const bindFields: Fields = {
      system_id: decodeURIComponent(url.username),
      password: Redacted.value(settings.password),
      system_type: settings.systemType,
      interface_version: VERSION,
    }

    const sessions = new Set<Session>()
    let closing = false
    let hasBound = false
    let isRefused = false
    const transmitting = () => Array.from(sessions).filter(({ role }) => role !== 'receiver')

    const submitter = makeSubmitter({
      settings,
      sessions: transmitting,
      metrics,
      onAnswer: ({ recipient, reference }, raw) =>
        sink.keepAnswers([{ operator: SMPP, reference, recipient, raw }]),
      onThrottled: () => logLimited('throttled', Effect.logWarning('SMPP operator throttles')),
      onRefused: (status) =>
        logLimited(
          `refused ${status}`,
          Effect.logWarning('SMPP operator refused a part').pipe(
            Effect.annotateLogs({ status: statusName(status) }),
          ),
        ),
    })
    const deliveries = makeDeliveries({
      settings,
      sink,
      metrics,
      run: background,
      now,
      onUnreadable: (what, details) =>
        logLimited(
          `unreadable ${what} ${details?.field ?? ''} ${details?.value ?? ''}`,
          Effect.logWarning(
            'SMPP operator sent a delivery that cannot be read: it is acknowledged without effect',
          ).pipe(Effect.annotateLogs({ what, ...details })),
        ),
      onDefect: (thrown) => background(unusable.defect(SMPP, thrown)),
      onNotStored: () =>
        logLimited(
          'not stored',
          Effect.logError(
            'SMPP deliveries could not be stored: the operator gets a temporary error and repeats them',
          ),
        ),
    })

    const connect = () =>
      tls
        ? {
            secured: true,
            socket: connectTls({
              host,
              port,
              minVersion: 'TLSv1.2',
              ...(settings.ca === null ? {} : { ca: settings.ca }),
            }),
          }
        : { secured: false, socket: connectTcp({ host, port }) }

    /** Runs one session from its connection to its end. */
    const runSession = (role: Role) =>
      Effect.callback<{ readonly why: SessionEnd; readonly status: number; readonly boundMs: number }>(
        (resume) => {
          let boundAt: number | null = null
          const session = openSession({
            ...settings,
            role,
            connect,
            bind: bindFields,
            onBound: () => {
              boundAt = performance.now()
              hasBound = true
              logLimited(
                `bound ${role}`,
                Effect.logInfo('SMPP session bound').pipe(Effect.annotateLogs({ role })),
              )
              submitter.pump()
            },
            onWritable: submitter.pump,
            onDeliver: deliveries.handle,
            onEnd: (ended, why, status) => {
              sessions.delete(ended)
              deliveries.discard(ended)
              metrics.ended(why)
              resume(
                Effect.succeed({
                  why,
                  status,
                  boundMs: boundAt === null ? 0 : performance.now() - boundAt,
                }),
              )
              submitter.pump()
            },
          })
          sessions.add(session)
          return Effect.sync(session.destroy)
        },
      )

    const keepBound = Effect.fnUntraced(function* (role: Role) {
      let failures = 0
      while (!closing) {
        const { boundMs, status, why } = yield* runSession(role)
        if (closing) return
        const wrongCredentials = why === 'refused' && WRONG_CREDENTIALS.has(status)
        failures = boundMs >= settings.stableMs ? 1 : failures + 1
        const random = yield* Random.next
        const { firstMs, longestMs } = settings.reconnect
        const pauseMs = wrongCredentials
          ? longestMs * (0.5 + random / 2)
          : // Any time up to the pause, so that clients of one SMSC do not reconnect at once.
            random *
            backoffMs(
              {
                firstMs,
                longestMs: UNREACHABLE.has(why) ? Math.min(longestMs, settings.unreachableMaxMs) : longestMs,
              },
              failures,
            )
        const fault = wrongCredentials
          ? 'The SMPP operator refuses the system id, the password or the system type. Correct HUB_OPERATOR_SMPP_URL, HUB_OPERATOR_SMPP_PASSWORD or HUB_OPERATOR_SMPP_SYSTEM_TYPE. The bind is retried'
          : why === 'untrusted'
            ? 'No known authority has signed the certificate of the SMPP operator for this host. Correct HUB_OPERATOR_SMPP_CA_FILE or HUB_OPERATOR_SMPP_URL. The bind is retried'
            : null
        isRefused = fault !== null
        logLimited(
          `ended ${role} ${why}`,
          (fault === null ? Effect.logWarning : Effect.logError)(
            fault ?? 'SMPP session ended or could not be bound: it is retried',
          ).pipe(
            Effect.annotateLogs({
              role,
              why,
              ...(why === 'refused' ? { status: statusName(status) } : {}),
              retryInMs: Math.round(pauseMs),
            }),
          ),
        )
        yield* Effect.sleep(pauseMs)
      }
    })

    const roles: ReadonlyArray<Role> =
      settings.bindMode === 'transceiver' ? ['transceiver'] : ['transmitter', 'receiver']
    for (const role of roles) {
      for (let i = 0; i < settings.binds; i++) yield* Effect.forkScoped(keepBound(role))
    }

    const countBinds = (role: Role) =>
      Array.from(sessions).filter((session) => session.role === role && session.isBound()).length
    yield* Effect.sync(() => {
      deliveries.sweep()
      const binds = {
        transceiver: countBinds('transceiver'),
        transmitter: countBinds('transmitter'),
        receiver: countBinds('receiver'),
      }
      metrics.gauges({
        binds,
        windowUsed: transmitting().reduce((sum, session) => sum + session.inFlight(), 0),
        window: (binds.transceiver + binds.transmitter) * settings.window,
        waiting: submitter.waiting(),
      })
    }).pipe(Effect.repeat(Schedule.spaced(SWEEP_MS)), Effect.forkScoped)

    // Finalizers run in reverse order. This one runs first: it awaits answers and unbinds.
    yield* Effect.addFinalizer(() =>
      Effect.callback<void>((resume) => {
        closing = true
        submitter.close()
        const open = Array.from(sessions)
        for (const session of open) session.close(settings.closeMs)
        const poll = setInterval(() => {
          if (open.some((session) => sessions.has(session))) return
          clearInterval(poll)
          resume(Effect.void)
        }, 5)
      }),
    )

    return {
      name: SMPP,
      capabilities: {
        dedupesByReference: false,
        submitsIndividually: true,
        isPaced: true,
        window: settings.binds * settings.window,
        ...(settings.partsPerSecond === null ? {} : { maxPartsPerSecond: settings.partsPerSecond }),
      },
      submit: (batch, mayWrite, onThrottled) =>
        Effect.callback<ReadonlyArray<SubmitOutcome>>((resume) => {
          const withdraw = submitter.submit(
            batch,
            mayWrite,
            (outcomes) => resume(Effect.succeed(outcomes)),
            onThrottled,
          )
          return Effect.sync(withdraw)
        }),
      // The SMSC keeps submitted messages and reports on them itself.
      resume: () => Effect.void,
      refusesSettings: () => isRefused && !hasBound,
      binds: () => roles.map((role) => ({ role, established: countBinds(role), wanted: settings.binds })),
      isReady: Effect.sync(() => roles.every((role) => countBinds(role) > 0)),
    }
  })
