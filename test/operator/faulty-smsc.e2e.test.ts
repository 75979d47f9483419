/**
 * Runs the SMPP operator adapter against an SMSC with faults (`faulty_smsc.py`), which is based on
 * another SMPP implementation.
 */
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { SmppOperator, SmppSettings, Submission, SubmitOutcome } from '@hub/operator'
import { freePortBase } from '@hub/local-stack'
import { eventually } from '@hub/testkit'
import { Effect, type Scope } from 'effect'
import { beforeAll, describe, expect, it, type TestContext } from 'vitest'
import { type Program, startProgram } from '../support/program.ts'
import { bindSmppOperator, makeSubmission, untilBound } from '../support/smpp-operator.ts'
import { orSkip, pythonTool } from '../support/external-tools.ts'

const VERSION = '1.5.0'
const SMSC_PROGRAM = join(import.meta.dirname, 'faulty_smsc.py')

/** The last two digits of a number select the fault. `faulty_smsc.py` describes them. */
const FAULTS = {
  none: '10',
  throttled: '01',
  full: '02',
  early: '03',
  silent: '04',
  half: '05',
  repeated: '06',
  reset: '07',
  unreported: '08',
  refused: '09',
} as const

/** Only ends a wait that hangs. The expected events take milliseconds. */

let numbers = 0
/** Returns a new number with a fault. */
const numberWith = (fault: keyof typeof FAULTS): string =>
  `+7900${String(++numbers).padStart(5, '0')}${FAULTS[fault]}`

let tool: Awaited<ReturnType<typeof pythonTool>>
beforeAll(async () => {
  tool = await pythonTool('smpp34', VERSION)
}, 200_000)

interface Smsc {
  readonly program: Program
  /** The printed events, in order. */
  readonly events: () => ReadonlyArray<Readonly<Record<string, unknown>>>
  /** The number of submits to a number that the SMSC has printed. */
  readonly submissionCount: (number: string) => number
  /**
   * Waits until at least this many submits to a number were printed, and returns their number. The
   * output may lag behind.
   */
  readonly waitForSubmissions: (number: string, atLeast: number) => Effect.Effect<number>
}

const startSmsc = (folder: string, port: number): Effect.Effect<Smsc, never, Scope.Scope> =>
  Effect.gen(function* () {
    const program = yield* Effect.acquireRelease(
      Effect.sync(() => startProgram(join(folder, 'bin/python'), [SMSC_PROGRAM, String(port)])),
      ({ stop }) => Effect.promise(stop),
    )
    const events = () =>
      program.lines.flatMap((line) =>
        line.startsWith('{') ? [JSON.parse(line) as Record<string, unknown>] : [],
      )
    const submissionCount = (number: string) =>
      events().filter(({ submitted }) => submitted === number.slice(1)).length
    return {
      program,
      events,
      submissionCount,
      waitForSubmissions: (number, atLeast) =>
        Effect.promise(async () => {
          await eventually(() => submissionCount(number) >= atLeast)
          return submissionCount(number)
        }),
    }
  })

/** Submits, and repeats while the SMSC refuses for now, as the dispatcher does. */
const submitUntilNotRefused = (
  operator: SmppOperator,
  submission: Submission,
): Effect.Effect<{ readonly outcome: SubmitOutcome; readonly refusals: number }> =>
  Effect.gen(function* () {
    for (let refusals = 0; ; refusals++) {
      const [outcome] = yield* operator.submit([submission], () => true)
      if (outcome === undefined) return expect.fail('submit returned no outcome')
      if (outcome.type !== 'refused' || refusals === 10) return { outcome, refusals }
      yield* Effect.promise(() => delay(outcome.retryAfterMs))
    }
  })

const idsOf = (outcome: SubmitOutcome | undefined): ReadonlyArray<string> => {
  if (outcome?.type !== 'accepted') return expect.fail(`the outcome is ${outcome?.type}, expected accepted`)
  return outcome.operatorIds
}

interface Scenario {
  readonly port: number
  readonly smsc: Smsc
  readonly operator: SmppOperator
  readonly reportsOn: (ids: ReadonlyArray<string>) => ReadonlyArray<string>
  /** Waits until this many reports about these ids arrived. */
  readonly waitForReports: (ids: ReadonlyArray<string>, count: number) => Effect.Effect<void>
  readonly folder: string
}

/** Runs a test with its own SMSC and operator adapter. Skips it if the SMSC is not available. */
const runScenario = async (
  context: TestContext,
  settings: Partial<SmppSettings>,
  run: (scenario: Scenario) => Effect.Effect<void, never, Scope.Scope>,
): Promise<void> => {
  const { folder } = await orSkip(context, tool)
  return Effect.runPromise(
    Effect.gen(function* () {
      const port = yield* Effect.promise(freePortBase)
      const smsc = yield* startSmsc(folder, port)
      const { operator, reports } = yield* bindSmppOperator(port, 'hub', 'secret', {
        binds: 1,
        idFormat: 'hexadecimal_answer',
        ...settings,
      })
      const reportsOn = (ids: ReadonlyArray<string>) =>
        reports.flatMap(({ operatorId, outcome, to }) =>
          ids.includes(operatorId) ? [`${operatorId} ${to} ${outcome}`] : [],
        )
      yield* run({
        port,
        smsc,
        operator,
        reportsOn,
        waitForReports: (ids, count) =>
          Effect.promise(async () => {
            await eventually(() => reportsOn(ids).length >= count)
          }),
        folder,
      })
    }).pipe(Effect.scoped),
  )
}

describe('an SMSC with faults', () => {
  it('uses ids of 64 bits in hexadecimal and decimal: both are the same id', (context) =>
    runScenario(context, {}, ({ operator, reportsOn, waitForReports }) =>
      Effect.gen(function* () {
        const to = numberWith('none')
        const [outcome] = yield* operator.submit([makeSubmission(to)], () => true)
        const ids = idsOf(outcome)
        expect(BigInt(ids[0] ?? 0)).toBeGreaterThan(2n ** 63n)
        yield* waitForReports(ids, 1)
        expect(reportsOn(ids)).toEqual([`${ids[0]} ${to} delivered`])
      }),
    ))

  for (const fault of ['throttled', 'full'] as const) {
    it(`is ${fault} for a while: the message is accepted once later`, (context) =>
      runScenario(context, {}, ({ smsc, operator, reportsOn, waitForReports }) =>
        Effect.gen(function* () {
          const to = numberWith(fault)
          const { outcome, refusals } = yield* submitUntilNotRefused(operator, makeSubmission(to))
          const ids = idsOf(outcome)
          expect(refusals).toBe(fault === 'throttled' ? 2 : 1)
          expect(yield* smsc.waitForSubmissions(to, refusals + 1)).toBe(refusals + 1)
          yield* waitForReports(ids, 1)
          expect(reportsOn(ids)).toEqual([`${ids[0]} ${to} delivered`])
        }),
      ))
  }

  it('throttles parts of a message: only those are repeated', (context) =>
    runScenario(context, {}, ({ smsc, operator, reportsOn, waitForReports }) =>
      Effect.gen(function* () {
        const to = numberWith('throttled')
        const long = makeSubmission(to, { text: 'a'.repeat(400), parts: 3 })
        const { outcome } = yield* submitUntilNotRefused(operator, long)
        const ids = idsOf(outcome)
        expect(new Set(ids).size).toBe(3)
        // Three parts and two refused ones.
        expect(yield* smsc.waitForSubmissions(to, 5)).toBe(5)
        yield* waitForReports(ids, 3)
        expect(reportsOn(ids).toSorted()).toEqual(ids.map((id) => `${id} ${to} delivered`).toSorted())
      }),
    ))

  it('refuses permanently: the message is rejected and not repeated', (context) =>
    runScenario(context, {}, ({ smsc, operator }) =>
      Effect.gen(function* () {
        const to = numberWith('refused')
        const outcomes = yield* operator.submit([makeSubmission(to)], () => true)
        expect(outcomes).toEqual([{ type: 'rejected', reason: 'operator_rejected' }])
        expect(yield* smsc.waitForSubmissions(to, 1)).toBe(1)
      }),
    ))

  it('reports before it responds: the report has the id of the response', (context) =>
    runScenario(context, {}, ({ operator, reportsOn }) =>
      Effect.gen(function* () {
        const to = numberWith('early')
        const [outcome] = yield* operator.submit([makeSubmission(to)], () => true)
        const ids = idsOf(outcome)
        // The SMSC responds only after the report was acknowledged.
        expect(reportsOn(ids)).toEqual([`${ids[0]} ${to} delivered`])
      }),
    ))

  it('reports half of the parts: each of these has one report', (context) =>
    runScenario(context, {}, ({ operator, reportsOn, waitForReports }) =>
      Effect.gen(function* () {
        const to = numberWith('half')
        const long = makeSubmission(to, { text: 'a'.repeat(600), parts: 4 })
        const [outcome] = yield* operator.submit([long], () => true)
        const ids = idsOf(outcome)
        expect(new Set(ids).size).toBe(4)
        yield* waitForReports(ids, 2)
        // Reports arrive in the order of the submits. After this one, all earlier ones have
        // arrived.
        const after = numberWith('none')
        const [last] = yield* operator.submit([makeSubmission(after)], () => true)
        yield* waitForReports(idsOf(last), 1)
        expect(new Set(reportsOn(ids)).size).toBe(2)
        expect(reportsOn(ids)).toHaveLength(2)
      }),
    ))

  it('repeats a report: each one is stored and acknowledged', (context) =>
    runScenario(context, {}, ({ smsc, operator, reportsOn, waitForReports }) =>
      Effect.gen(function* () {
        const to = numberWith('repeated')
        const [outcome] = yield* operator.submit([makeSubmission(to)], () => true)
        const ids = idsOf(outcome)
        yield* waitForReports(ids, 3)
        expect(new Set(reportsOn(ids))).toEqual(new Set([`${ids[0]} ${to} delivered`]))
        yield* Effect.promise(async () => {
          await eventually(() => {
            const acknowledged = smsc.events().filter(({ reported: recipient }) => recipient === to.slice(1))
            expect(acknowledged.map(({ status }) => status)).toEqual([0, 0, 0])
            return true
          })
        })
      }),
    ))

  it('does not respond: the outcome is unknown, the bind stays open, and nothing is repeated', (context) =>
    runScenario(context, { responseDeadlineMs: 4000 }, ({ smsc, operator }) =>
      Effect.gen(function* () {
        const silent = numberWith('silent')
        const outcomes = yield* Effect.all(
          [silent, numberWith('none'), numberWith('unreported')].map((to) =>
            Effect.map(
              operator.submit([makeSubmission(to)], () => true),
              ([outcome]) => outcome?.type,
            ),
          ),
          { concurrency: 'unbounded' },
        )
        expect(outcomes).toEqual(['unknown', 'accepted', 'accepted'])
        const [later] = yield* operator.submit([makeSubmission(numberWith('none'))], () => true)
        expect(later?.type).toBe('accepted')
        expect(yield* smsc.waitForSubmissions(silent, 1)).toBe(1)
        expect(smsc.events().filter(({ bound }) => bound !== undefined)).toHaveLength(1)
      }),
    ))

  it('resets the connection with a full window: written submits are unknown, the others refused, and none is repeated', (context) =>
    runScenario(context, { window: 15, holdMs: 200 }, ({ smsc, folder, operator, port }) =>
      Effect.gen(function* () {
        const unanswered = Array.from({ length: 10 }, () => numberWith('reset'))
        const others = Array.from({ length: 20 }, () => numberWith('none'))
        const all = [...unanswered, ...others]
        const outcomes = yield* operator.submit(
          all.map((to) => makeSubmission(to)),
          () => true,
        )
        yield* Effect.promise(() => smsc.program.ended)
        const numbersWith = (type: SubmitOutcome['type']) =>
          all.filter((_to, i) => outcomes[i]?.type === type)
        expect(numbersWith('unknown')).toEqual(expect.arrayContaining(unanswered))
        const refused = numbersWith('refused')
        expect(refused.length).toBeGreaterThan(0)
        expect(refused.filter((to) => smsc.submissionCount(to) > 0)).toEqual([])

        const second = yield* startSmsc(folder, port)
        yield* untilBound(operator)
        const again = yield* Effect.all(
          refused.map((to) => submitUntilNotRefused(operator, makeSubmission(to))),
          { concurrency: 'unbounded' },
        )
        expect(new Set(again.map(({ outcome }) => outcome.type))).toEqual(new Set(['accepted']))
        yield* Effect.forEach(refused, (to) => second.waitForSubmissions(to, 1))
        expect(all.filter((to) => smsc.submissionCount(to) + second.submissionCount(to) > 1)).toEqual([])
      }),
    ))
})
