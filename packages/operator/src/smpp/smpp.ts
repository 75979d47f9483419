/**
 * The SMPP operator: binds to a centre, kept up for as long as the scope is open. Making it never fails: a centre that cannot
 * be reached is tried again, and messages are `refused` until it can.
 *
 * It never hands over twice what may have arrived: SMPP has no reference that a centre would recognise.
 */
import { connect as connectTcp } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { Clock, Effect, FiberSet, Random, Redacted, Schedule, type Scope } from 'effect'
import { type Operator, ReportSink, type SubmitOutcome } from '../port.ts'
import { makeDeliveries } from './deliveries.ts'
import { COMMAND_STATUS, statusName } from './errors.ts'
import { makeSmppMetrics } from './metrics.ts'
import { backoff } from './pace.ts'
import type { Fields } from './pdu.ts'
import { makeSeldom } from './seldom.ts'
import { openSession, type Role, type Session, type SessionEnd } from './session.ts'
import { SMPP, type SmppSettings } from './settings.ts'
import { makeSubmitter } from './submitter.ts'

export interface SmppOperator extends Operator {
  /** Messages can be handed over, and what is said of them arrives: one bind for each direction stands. */
  readonly isReady: Effect.Effect<boolean>
}

const PORTS = { 'smpp:': 2775, 'smpps:': 3550 } as const
/** `interface_version` of SMPP 3.4. */
const VERSION = 0x34
/** What waits for its other parts, and the gauges, are looked after so often. */
const SWEEP_MS = 500

/** These need a person: asking often helps nobody, and some centres lock an account for it. */
const NEEDS_A_PERSON: ReadonlySet<number> = new Set([
  COMMAND_STATUS.ESME_RINVPASWD,
  COMMAND_STATUS.ESME_RINVSYSID,
  COMMAND_STATUS.ESME_RINVSYSTYP,
])

export const makeSmppOperator = (
  settings: SmppSettings,
): Effect.Effect<SmppOperator, never, ReportSink | Scope.Scope> =>
  Effect.gen(function* () {
    const sink = yield* ReportSink
    const metrics = makeSmppMetrics(yield* Effect.context<never>())
    const clock = yield* Clock.Clock
    const now = () => clock.currentTimeMillisUnsafe()
    const run = yield* FiberSet.makeRuntime<never>()
    const background = (effect: Effect.Effect<void>) => void run(effect)
    const isDue = makeSeldom(now)
    const seldom = (kind: string, line: Effect.Effect<void>) => {
      const suppressed = isDue(kind)
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
    const transmitting = () => Array.from(sessions).filter(({ role }) => role !== 'receiver')

    const submitter = makeSubmitter({
      settings,
      sessions: transmitting,
      metrics,
      onThrottled: (pauseMs) =>
        seldom(
          'throttled',
          Effect.logWarning('the operator throttles').pipe(Effect.annotateLogs({ pauseMs })),
        ),
      onRefused: (status) =>
        seldom(
          `refused ${status}`,
          Effect.logWarning('the operator refuses a message').pipe(
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
      onUnreadable: (what) =>
        seldom(
          `unreadable ${what}`,
          Effect.logWarning('the operator delivers what cannot be read').pipe(Effect.annotateLogs({ what })),
        ),
      onNotTaken: () =>
        seldom(
          'not taken',
          Effect.logError('reports could not be written down: the operator has to repeat them'),
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

    /** One connection, from its beginning to its end. */
    const oneSession = (role: Role) =>
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
              seldom(
                `bound ${role}`,
                Effect.logInfo('bound to the operator').pipe(Effect.annotateLogs({ role })),
              )
              submitter.pump()
            },
            onRoom: submitter.pump,
            onDeliver: deliveries.take,
            onEnd: (ended, why, status) => {
              sessions.delete(ended)
              deliveries.ended(ended)
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

    /** Keeps one bind up. */
    const keepBound = Effect.fnUntraced(function* (role: Role) {
      let attempt = 0
      while (!closing) {
        const { boundMs, status, why } = yield* oneSession(role)
        if (closing) return
        const person = why === 'refused' && NEEDS_A_PERSON.has(status)
        if (boundMs >= settings.stableMs) attempt = 0
        const random = yield* Random.next
        const { maxMs } = settings.reconnect
        const pauseMs = person ? maxMs * (0.5 + random / 2) : backoff(attempt, random, settings.reconnect)
        attempt++
        seldom(
          `ended ${role} ${why}`,
          (person || why === 'untrusted' ? Effect.logError : Effect.logWarning)(
            'the connection to the operator ended, or could not be made',
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
        pauseMs: submitter.pace().pause,
      })
    }).pipe(Effect.repeat(Schedule.spaced(SWEEP_MS)), Effect.forkScoped)

    // Last, so that it comes first: what is in flight is answered, then the binds are given back.
    yield* Effect.addFinalizer(() =>
      Effect.callback<void>((resume) => {
        closing = true
        submitter.close()
        const open = Array.from(sessions)
        for (const session of open) session.close(settings.closeMs)
        const look = setInterval(() => {
          if (open.some((session) => sessions.has(session))) return
          clearInterval(look)
          resume(Effect.void)
        }, 5)
      }),
    )

    return {
      name: SMPP,
      capabilities: {
        dedupesByReference: false,
        submitsIndividually: true,
        window: settings.binds * settings.window,
        ...(settings.partsPerSecond === null ? {} : { maxPartsPerSecond: settings.partsPerSecond }),
      },
      submit: (batch, mayWrite) =>
        Effect.callback<ReadonlyArray<SubmitOutcome>>((resume) => {
          const takeBack = submitter.submit(batch, mayWrite, (outcomes) => resume(Effect.succeed(outcomes)))
          return Effect.sync(takeBack)
        }),
      // It remembers what it was given and reports in its own time.
      resume: () => Effect.void,
      isReady: Effect.sync(() => roles.every((role) => countBinds(role) > 0)),
    }
  })
