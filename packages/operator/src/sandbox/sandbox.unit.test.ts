import { assert, describe, it } from '@effect/vitest'
import { SANDBOX_SCENARIOS } from '@hub/domain'
import { Effect } from 'effect'
import { TestClock } from 'effect/testing'
import { operatorContract, submissionOf } from '../port.contract.ts'
import { type OperatorReport, ReportSink, ReportsNotStored } from '../port.ts'
import { makeSandbox, SANDBOX_DEFAULTS } from './sandbox.ts'

const collecting = () => {
  const reports: Array<OperatorReport> = []
  const waiting: Array<(report: OperatorReport) => void> = []
  return {
    reports,
    waiting,
    sink: ReportSink.of({
      store: (some) =>
        Effect.sync(() => {
          for (const report of some) {
            reports.push(report)
            for (const look of waiting) look(report)
          }
        }),
      storeInbound: () => Effect.die(new Error('the sandbox has no inbound messages')),
      keepAnswers: () => {},
    }),
  }
}

operatorContract(
  'sandbox',
  Effect.gen(function* () {
    const { reports, sink, waiting } = collecting()
    const operator = yield* makeSandbox({ ...SANDBOX_DEFAULTS, reportDelayMs: 5 }).pipe(
      Effect.provideService(ReportSink, sink),
    )
    return {
      operator,
      reports: () => reports,
      reported: (wanted) =>
        Effect.callback<OperatorReport>((resume) => {
          const found = reports.find(wanted)
          if (found !== undefined) resume(Effect.succeed(found))
          else waiting.push((report) => wanted(report) && resume(Effect.succeed(report)))
        }).pipe(Effect.timeout('5 seconds'), Effect.orDie),
    }
  }),
)

const number = (n: number) => `+790000000${String(n).padStart(2, '0')}`

describe('sandbox numbers', () => {
  const outcomeOf = (n: number) =>
    Effect.gen(function* () {
      const { reports, sink } = collecting()
      const operator = yield* makeSandbox(SANDBOX_DEFAULTS).pipe(Effect.provideService(ReportSink, sink))
      const [outcome] = yield* operator.submit([submissionOf('msg_a', { to: number(n) })], () => true)
      yield* TestClock.adjust('15 seconds')
      const early = reports.map(({ outcome: what, reason }) => (reason === null ? what : `${what} ${reason}`))
      yield* TestClock.adjust('15 seconds')
      return { type: outcome?.type, early, late: reports.length - early.length }
    }).pipe(Effect.scoped)

  const table: ReadonlyArray<readonly [number, string, ReadonlyArray<string>, number]> = [
    [1, 'accepted', ['delivered'], 0],
    [2, 'accepted', ['undelivered recipient_unreachable'], 0],
    [3, 'accepted', ['undelivered recipient_nonexistent'], 0],
    [4, 'accepted', ['undelivered recipient_blocked'], 0],
    [5, 'rejected', [], 0],
    [6, 'accepted', ['rejected spam_filter_sender'], 0],
    [7, 'accepted', ['expired'], 0],
    [8, 'accepted', [], 0],
    [9, 'accepted', ['delivered'], 0],
    [10, 'accepted', ['delivered', 'seen'], 0],
    [11, 'refused', [], 0],
    [12, 'accepted', [], 1],
    [13, 'accepted', ['delivered'], 0],
  ]
  it('have a row for each scenario', () => {
    assert.deepStrictEqual(
      table.map(([n]) => n),
      SANDBOX_SCENARIOS.map((_, index) => index + 1),
    )
  })
  for (const [n, type, early, late] of table) {
    // Rules: SBX-2, SBX-3, SBX-4, SBX-5, SBX-6, SBX-7, SBX-9, SBX-11
    it.effect(
      `${number(n)}: ${type}, ${early.join(', ') || 'nothing'}${late > 0 ? ', and later one' : ''}`,
      () =>
        Effect.gen(function* () {
          assert.deepEqual(yield* outcomeOf(n), { type, early, late } as object)
        }),
    )
  }
})

describe('the sandbox after a restart', () => {
  it.effect('schedules the reports of open messages again from their ids and submit times', () =>
    Effect.gen(function* () {
      const before = collecting()
      const outcome = yield* Effect.gen(function* () {
        const operator = yield* makeSandbox(SANDBOX_DEFAULTS).pipe(
          Effect.provideService(ReportSink, before.sink),
        )
        return yield* operator.submit([submissionOf('msg_a', { to: number(2), parts: 2 })], () => true)
      }).pipe(Effect.scoped)
      yield* TestClock.adjust('1 seconds')
      assert.deepStrictEqual(before.reports, [])

      const after = collecting()
      const operator = yield* makeSandbox(SANDBOX_DEFAULTS).pipe(
        Effect.provideService(ReportSink, after.sink),
      )
      const [accepted] = outcome
      if (accepted?.type !== 'accepted') return assert.fail('it was accepted')
      yield* operator.resume([
        { reference: 'msg_a', recipient: 'r', operatorIds: accepted.operatorIds, sentAt: 0 },
        { reference: 'msg_b', recipient: 'r', operatorIds: ['of another operator'], sentAt: 0 },
      ])
      yield* TestClock.adjust('1 seconds')
      assert.deepStrictEqual(
        after.reports.map(({ operatorId, outcome: what, recipient }) => [operatorId, what, recipient]),
        accepted.operatorIds.map((id) => [id, 'undelivered', 'r']),
      )
    }).pipe(Effect.scoped),
  )

  it.effect('repeats a report until it is stored', () =>
    Effect.gen(function* () {
      let refusals = 3
      const taken: Array<OperatorReport> = []
      const operator = yield* makeSandbox(SANDBOX_DEFAULTS).pipe(
        Effect.provideService(
          ReportSink,
          ReportSink.of({
            store: (reports) =>
              refusals-- > 0
                ? Effect.fail(new ReportsNotStored({ detail: 'down' }))
                : Effect.sync(() => void taken.push(...reports)),
            storeInbound: () => Effect.die(new Error('the sandbox has no inbound messages')),
            keepAnswers: () => {},
          }),
        ),
      )
      yield* operator.submit([submissionOf('msg_a')], () => true)
      yield* TestClock.adjust('10 seconds')
      assert.lengthOf(taken, 1)
    }).pipe(Effect.scoped),
  )
})
