/**
 * Subscriptions over simulated days: receivers answer in any way, and processes die or lose their
 * partition at any time. Source: DEL-5, DEL-15 to DEL-23.
 */
import { DISABLE_AFTER_FAILURES, DISABLE_AFTER_MS } from '@hub/domain'
import { Effect, References, type Scope } from 'effect'
import { TestClock } from 'effect/testing'
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { ENDPOINTS, makeSimulation, type ReceiverMode, type Simulation } from './simulation.ts'

const MINUTE = 60_000
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR
/** Ends a test that hangs. The simulations contain weeks, and the machine may be busy. */
const TIMEOUT_MS = 60_000
const START = Date.UTC(2026, 0, 5, 12)

const simulate = (body: Effect.Effect<void, never, Scope.Scope>): Promise<void> =>
  Effect.runPromise(
    Effect.andThen(TestClock.setTime(START), body).pipe(
      Effect.scoped,
      Effect.provide(TestClock.layer()),
      // The processes log thousands of lines.
      Effect.provideService(References.MinimumLogLevel, 'None'),
    ),
  )

/** Moves the clock, and runs everything that is due in between. */
const pass = (ms: number) => TestClock.adjust(ms)

const eventsIn = (body: string): ReadonlyArray<string> =>
  (JSON.parse(body) as ReadonlyArray<{ readonly id: string }>).map(({ id }) => id)

/** Every event before the stored position is in a stored batch of each subscription. */
const expectPositionIsSafe = ({ commits, store, topic }: Simulation): void => {
  const position = Math.max(store.positions.get(0)?.position ?? -1, ...commits.slice(-1))
  for (const record of topic.slice(0, Math.max(position, 0))) {
    if (record.type !== 'EventRecorded') continue
    for (const endpoint of ENDPOINTS) expect(store.batchOf.has(`${endpoint} ${record.id} `)).toBe(true)
  }
}

/** The endpoint health equals the health that follows from the delivery log by definition. */
const expectHealth = ({ enabledAt, store }: Simulation): void => {
  for (const endpoint of ENDPOINTS) {
    let run: Array<number> = []
    let disabled = false
    const enables = enabledAt.filter((one) => one.endpoint === endpoint).map(({ logLength }) => logLength)
    const applyEnables = (index: number) => {
      while (enables.length > 0 && enables[0]! <= index) {
        enables.shift()
        if (disabled) run = []
        disabled = false
      }
    }
    for (const [index, line] of store.log.entries()) {
      applyEnables(index)
      if (line.endpoint !== endpoint || line.kind !== 'attempt' || disabled) continue
      run = line.reason === null ? [] : [...run, line.endedAt]
      disabled = run.length >= DISABLE_AFTER_FAILURES && line.endedAt - run[0]! >= DISABLE_AFTER_MS
    }
    applyEnables(store.log.length)
    const { consecutiveFailures, status } = store.subscriptions.get(endpoint)!.health
    expect([status, consecutiveFailures]).toEqual([disabled ? 'disabled_by_failures' : 'enabled', run.length])
  }
}

const expectInvariants = (simulation: Simulation): void => {
  const { received, settings, store } = simulation
  expectPositionIsSafe(simulation)
  expectHealth(simulation)
  const bodies = new Map<string, string>()
  const batchOf = new Map<string, string>()
  const batches = new Map([...store.batches.values()].map((batch) => [batch.uuid, batch]))
  const queued = new Map(
    [...batches.values()].map((batch) => [batch.body.toString('utf8'), batch.state.queuedAt]),
  )
  for (const { at, batch, body, endpoint, whileDisabled } of received) {
    // A repeated batch has the same id and the same bytes, and an event is in one batch.
    expect(bodies.get(batch) ?? body).toBe(body)
    bodies.set(batch, body)
    for (const id of eventsIn(body)) {
      const key = `${endpoint} ${id}`
      expect(batchOf.get(key) ?? batch).toBe(batch)
      batchOf.set(key, batch)
    }
    expect(at).toBeLessThan((queued.get(body) ?? 0) + settings.retryWindowMs)
    expect(whileDisabled).toBe(false)
  }
  for (const line of store.log) {
    const batch = batches.get(line.batch)!
    if (line.kind === 'expiry') {
      expect(line.endedAt).toBeGreaterThanOrEqual(batch.state.queuedAt + settings.retryWindowMs)
      expect(batch.state.status).toBe('failed')
    }
    if (line.nextAttemptAt !== null) {
      expect(line.nextAttemptAt).toBeLessThan(batch.state.queuedAt + settings.retryWindowMs)
    }
  }
}

/** Every event was delivered, or the delivery log contains the reason why not. */
const expectNothingLost = ({ received, store, topic }: Simulation): void => {
  for (const endpoint of ENDPOINTS) {
    const delivered = new Set(
      received.filter((one) => one.endpoint === endpoint).flatMap(({ body }) => eventsIn(body)),
    )
    for (const record of topic) {
      if (record.type !== 'EventRecorded') continue
      const batch = store.batches.get(store.batchOf.get(`${endpoint} ${record.id} `) ?? '')
      const lines = store.log.filter((line) => line.batch === batch?.uuid)
      if (batch?.state.status === 'succeeded') {
        expect(delivered.has(record.id)).toBe(true)
        expect(lines.at(-1)?.reason).toBeNull()
      } else {
        expect(batch?.state.status).toBe('failed')
        expect(['retry_window_expired', 'retry_window_expired_while_disabled']).toContain(
          lines.at(-1)?.reason,
        )
      }
    }
  }
}

type Step =
  | { readonly kind: 'emit'; readonly count: number }
  | { readonly kind: 'pass'; readonly ms: number }
  | { readonly kind: 'receiver'; readonly which: number; readonly mode: ReceiverMode }
  | { readonly kind: 'enable'; readonly which: number }
  | { readonly kind: 'crash' | 'rebalance' }
  | { readonly kind: 'database crash'; readonly when: 'before commit' | 'after commit' }

const anyStep: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({ kind: fc.constant('emit' as const), count: fc.integer({ min: 1, max: 7 }) }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant('pass' as const),
      ms: fc.constantFrom(5, 25, 1000, 10_000, MINUTE, 10 * MINUTE, HOUR, 7 * HOUR),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant('receiver' as const),
      which: fc.nat({ max: 1 }),
      mode: fc.constantFrom<ReceiverMode>('up', 'down', 'hung', 'picky'),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('enable' as const), which: fc.nat({ max: 1 }) }) },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constantFrom('crash' as const, 'rebalance' as const),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('database crash' as const),
      when: fc.constantFrom('before commit' as const, 'after commit' as const),
    }),
  },
)

const take = (simulation: Simulation, step: Step): Effect.Effect<void> => {
  switch (step.kind) {
    case 'emit':
      return simulation.emit(step.count)
    case 'pass':
      return pass(step.ms)
    case 'receiver':
      return Effect.sync(() => void simulation.modes.set(ENDPOINTS[step.which]!, step.mode))
    case 'enable':
      return simulation.enable(ENDPOINTS[step.which]!)
    case 'crash':
      return Effect.andThen(simulation.killOwner, simulation.start)
    case 'rebalance':
      return simulation.start
    case 'database crash':
      return Effect.sync(() => {
        simulation.store.crashNextRecord = step.when
      })
  }
}

describe('over days, with any answers and any crashes', () => {
  // Rules: DEL-5, DEL-17, DEL-19, DEL-21
  it(
    'every event is delivered or logged as failed, ids are stable, and the health is right',
    async () => {
      await fc.assert(
        fc.asyncProperty(
          fc.nat(),
          fc.array(anyStep, { minLength: 5, maxLength: 50, size: 'max' }),
          (seed, steps) =>
            simulate(
              Effect.gen(function* () {
                const simulation = yield* makeSimulation({ seed, settings: { batchEvents: 3 } })
                yield* simulation.start
                for (const step of steps) {
                  yield* take(simulation, step)
                  expectInvariants(simulation)
                }
                // From here on each waiting batch is delivered, or its retry window closes.
                for (const endpoint of ENDPOINTS) simulation.modes.set(endpoint, 'up')
                if (simulation.owner() === null) yield* simulation.start
                yield* pass(DAY)
                yield* pass(2 * HOUR)
                expectInvariants(simulation)
                expectNothingLost(simulation)
                yield* simulation.killAll
              }),
            ),
        ),
        { numRuns: 40 },
      )
    },
    TIMEOUT_MS,
  )
})

describe('a receiver that is down for three days', () => {
  // Rules: DEL-22, DEL-23
  it('has its subscription disabled, loses batches older than a day, and gets the rest in order after enabling', () =>
    simulate(
      Effect.gen(function* () {
        const simulation = yield* makeSimulation({ settings: { batchEvents: 1 } })
        const [endpoint] = ENDPOINTS
        const { received, modes, store } = simulation
        modes.set(endpoint, 'down')
        yield* simulation.start
        yield* simulation.emit(1)
        yield* pass(12 * HOUR)
        const health = () => store.subscriptions.get(endpoint)!.health
        while (health().status === 'enabled') yield* pass(HOUR)
        const probe = store.subscriptions.get(endpoint)!.disabledByBatch
        for (let hour = 0; hour < 60; hour++) {
          yield* simulation.emit(1)
          yield* pass(HOUR)
        }
        expectInvariants(simulation)
        const expired = store.log.filter(({ reason }) => reason === 'retry_window_expired_while_disabled')
        expect(expired.map(({ batch }) => batch)).toContain(probe)
        // The retry window of the batch from exactly a day ago is closed.
        expect(store.pending(endpoint).length).toBe(23)
        const before = received.length
        modes.set(endpoint, 'up')
        yield* simulation.enable(endpoint)
        yield* pass(5000)
        const drained = received.slice(before).filter((one) => one.endpoint === endpoint)
        expect(drained.length).toBe(23)
        const sequences = drained.map(({ body }) => (JSON.parse(body) as [{ sequence: number }])[0].sequence)
        expect(sequences).toEqual(sequences.toSorted((a, b) => a - b))
        expect(store.pending(endpoint)).toEqual([])
        expectNothingLost(simulation)
        yield* simulation.killAll
      }),
    ))
})

describe('a released backlog', () => {
  // Rules: DEL-22
  it(
    'is delivered in the order of its events, after the batch that disabled the subscription',
    async () => {
      await fc.assert(
        fc.asyncProperty(
          fc.nat(),
          fc.integer({ min: 1, max: 60 }),
          fc.integer({ min: 0, max: 60 }),
          fc.nat({ max: 400 }),
          fc.boolean(),
          (seed, first, later, crashAfter, crashes) =>
            simulate(
              Effect.gen(function* () {
                const simulation = yield* makeSimulation({
                  seed,
                  settings: { batchEvents: 1, readyQueueLength: 16 },
                })
                const [endpoint] = ENDPOINTS
                const { received, modes, store } = simulation
                modes.set(endpoint, 'down')
                yield* simulation.start
                yield* simulation.emit(first)
                const subscription = store.subscriptions.get(endpoint)!
                while (subscription.health.status === 'enabled') yield* pass(10 * MINUTE)
                const probe = store.batches.get(subscription.disabledByBatch ?? '')!
                yield* simulation.emit(later)
                yield* pass(MINUTE)
                modes.set(endpoint, 'up')
                const before = received.length
                yield* simulation.enable(endpoint)
                if (crashes) {
                  yield* pass(crashAfter)
                  yield* simulation.killOwner
                  yield* simulation.start
                }
                yield* pass(MINUTE)
                const drained = received.slice(before).filter((one) => one.endpoint === endpoint)
                const processes = Map.groupBy(drained, ({ process }) => process)
                for (const requests of processes.values()) {
                  const sequences = requests.map(
                    ({ body }) => (JSON.parse(body) as [{ sequence: number }])[0].sequence,
                  )
                  const rest = sequences[0] === probe.firstSequence ? sequences.slice(1) : sequences
                  expect(rest).toEqual(rest.toSorted((a, b) => a - b))
                }
                expect((JSON.parse(drained[0]!.body) as [{ sequence: number }])[0].sequence).toBe(
                  probe.firstSequence,
                )
                expect(store.pending(endpoint)).toEqual([])
                expectInvariants(simulation)
                expectNothingLost(simulation)
                yield* simulation.killAll
              }),
            ),
        ),
        { numRuns: 12 },
      )
    },
    TIMEOUT_MS,
  )
})

describe('a success that is delivered and not yet recorded', () => {
  const [endpoint] = ENDPOINTS
  /** Long enough for deliveries, shorter than `recordWithinMs`. */
  const UNTIL_DELIVERED = 80
  const deliveries = ({ received }: Simulation) => received.filter((one) => one.endpoint === endpoint)
  const reasons = ({ store }: Simulation) =>
    store.log.filter((line) => line.endpoint === endpoint).map(({ reason }) => reason)
  const delivered = Effect.gen(function* () {
    const simulation = yield* makeSimulation({ settings: { batchEvents: 1, recordWithinMs: 400 } })
    yield* simulation.start
    yield* simulation.emit(3)
    yield* pass(UNTIL_DELIVERED)
    expect(deliveries(simulation).length).toBe(3)
    expect(reasons(simulation)).toEqual([])
    return simulation
  })

  it('is recorded a moment later and not delivered again, also when PostgreSQL crashes meanwhile', () =>
    simulate(
      Effect.gen(function* () {
        for (const crash of [null, 'before commit', 'after commit'] as const) {
          const simulation = yield* delivered
          simulation.store.crashNextRecord = crash
          yield* pass(simulation.settings.recordWithinMs)
          if (crash === 'before commit') expect(reasons(simulation)).toEqual([])
          // The first retry.
          yield* pass(1000)
          expect(reasons(simulation)).toEqual([null, null, null])
          yield* pass(HOUR)
          expect(reasons(simulation)).toEqual([null, null, null])
          expect(deliveries(simulation).length).toBe(3)
          yield* simulation.killAll
        }
      }),
    ))

  // Rules: DEL-5
  it('is delivered again under the same id by the next owner when its process dies', () =>
    simulate(
      Effect.gen(function* () {
        const simulation = yield* delivered
        yield* simulation.killOwner
        yield* simulation.start
        yield* pass(HOUR)
        expect(reasons(simulation)).toEqual([null, null, null])
        const ids = deliveries(simulation).map(({ batch }) => batch)
        expect(ids.slice(3).toSorted()).toEqual(ids.slice(0, 3).toSorted())
        yield* simulation.killAll
      }),
    ))

  it('is in the log before a later failure, and does not reset the count of failures', () =>
    simulate(
      Effect.gen(function* () {
        const simulation = yield* delivered
        simulation.modes.set(endpoint, 'down')
        yield* simulation.emit(1)
        yield* pass(UNTIL_DELIVERED)
        expect(reasons(simulation)).toEqual([null, null, null, 'http_status'])
        yield* pass(simulation.settings.recordWithinMs)
        expect(simulation.store.subscriptions.get(endpoint)?.health.consecutiveFailures).toBe(1)
        yield* simulation.killAll
      }),
    ))

  it('is not read as due again', () =>
    simulate(
      Effect.gen(function* () {
        const simulation = yield* delivered
        // A change of the subscription makes it read what is due.
        yield* simulation.enable(endpoint)
        yield* pass(UNTIL_DELIVERED)
        expect(reasons(simulation)).toEqual([])
        expect(deliveries(simulation).length).toBe(3)
        yield* simulation.killAll
      }),
    ))
})

describe('a process that is killed between any two steps', () => {
  /** Events of several batch windows; one receiver fails at first. */
  const scenario = (stopAt: number) => {
    const stopped: Array<string> = []
    const run = Effect.gen(function* () {
      const simulation = yield* makeSimulation({
        settings: { batchEvents: 3, storeEvents: 6 },
        stopAt: (step, name) => {
          if (step !== stopAt) return false
          stopped.push(name)
          return true
        },
      })
      simulation.modes.set(ENDPOINTS[1], 'down')
      yield* simulation.start
      const passAndRestart = Effect.fnUntraced(function* (ms: number) {
        yield* pass(ms)
        if (simulation.owner() === null) {
          yield* simulation.start
          yield* pass(1)
        }
        expectInvariants(simulation)
      })
      yield* simulation.emit(4)
      yield* passAndRestart(300)
      yield* simulation.emit(5)
      yield* passAndRestart(1010)
      simulation.modes.set(ENDPOINTS[1], 'up')
      yield* simulation.emit(2)
      yield* passAndRestart(1030)
      for (let i = 0; i < 5; i++) yield* passAndRestart(MINUTE)
      expectNothingLost(simulation)
      for (const endpoint of ENDPOINTS) expect(simulation.store.pending(endpoint)).toEqual([])
      expect(simulation.commits.length).toBeGreaterThan(0)
      yield* simulation.killAll
    })
    return simulate(run).then(() => stopped[0] ?? null)
  }

  // Rules: DEL-5
  it(
    'never stores a position behind an event without a stored batch, and loses nothing',
    async () => {
      const stops = new Set<string>()
      for (let step = 1; ; step++) {
        const name = await scenario(step)
        // The scenario has fewer steps, so a process was killed at each of them.
        if (name === null) break
        stops.add(name)
      }
      expect([...stops].toSorted()).toEqual([
        'after acquire',
        'after an answer',
        'after record',
        'after storeBatches',
        'before a commit',
        'before a request',
        'before acquire',
        'before record',
        'before storeBatches',
      ])
    },
    TIMEOUT_MS,
  )
})
