/** Random sequences of everything that can happen to a shard; see `testing/shard-model.ts`. */
import { assert, describe, it } from '@effect/vitest'
import fc from 'fast-check'
import { type OperatorBehavior, type Landing, ShardModel, type ReportKind } from '../testing/shard-model.ts'

type Step = (model: ShardModel) => void
const steps = <A>(
  weight: number,
  arbitrary: fc.Arbitrary<A>,
  perform: (model: ShardModel, given: A) => void,
) => ({
  weight,
  arbitrary: arbitrary.map((given): [string, A, Step] => [
    String(perform),
    given,
    (model) => perform(model, given),
  ]),
})

const zombie = fc.integer({ min: 0, max: 4 }).map((n) => n === 4)
const BEHAVIORS: ReadonlyArray<OperatorBehavior> = [
  'accepts',
  'refuses',
  'rejects',
  'accepts, and the answer is lost',
  'accepts one part, and the connection breaks',
  'receives nothing, and the answer is unknown',
  'receives nothing, because the lease is over',
]
const LANDINGS: ReadonlyArray<Landing> = [
  'acknowledged',
  'acknowledged',
  'acknowledged',
  'acknowledged',
  'acknowledgement lost',
  'overtaken by its repetition',
]
const REPORT_KINDS: ReadonlyArray<ReportKind> = [
  'one part delivered',
  'all parts delivered',
  'undelivered',
  'rejected',
  'expired',
  'seen',
  'the last report again',
  'the same id for another recipient',
]
const LIFETIMES = [8000, 60_000, 300_000, 900_000]

const step = fc.oneof(
  steps(
    6,
    fc.tuple(fc.nat(1), fc.nat(2), fc.integer({ min: 1, max: 3 }), fc.constantFrom(...LIFETIMES), fc.nat(1)),
    (model, [lane, recipient, parts, lifetime, account]) =>
      model.accept(lane, recipient, parts, lifetime, account),
  ),
  steps(1, fc.nat(50), (model, which) => model.repeat(which)),
  steps(5, fc.tuple(zombie, fc.nat(1), fc.nat(5)), (model, [who, lane, count]) =>
    model.readLane(who, lane, count),
  ),
  steps(6, fc.tuple(zombie, fc.nat(4)), (model, [who, count]) => model.take(who, count)),
  steps(9, fc.tuple(zombie, fc.nat(6), fc.constantFrom(...LANDINGS)), (model, [who, count, how]) =>
    model.land(who, count, how),
  ),
  steps(6, zombie, (model, who) => model.answer(who)),
  steps(4, fc.constant(false), (model, who) => model.work(who)),
  steps(3, fc.constant(true), (model, who) => {
    model.tickZombie()
    model.work(who)
  }),
  steps(3, fc.constantFrom(...BEHAVIORS), (model, how) => model.setBehavior(how)),
  steps(5, fc.tuple(fc.nat(20), fc.constantFrom(...REPORT_KINDS)), (model, [which, what]) =>
    model.report(which, what),
  ),
  steps(4, fc.nat(4), (model, count) => model.readReports(count)),
  steps(3, fc.constant(0), (model) => model.readLog()),
  steps(3, fc.constantFrom(1, 100, 1500, 6000, 70_000, 130_000, 400_000, 90_000_000), (model, ms) =>
    model.advance(ms),
  ),
  steps(2, fc.constant(0), (model) => model.tickZombie()),
  steps(2, fc.constant(0), (model) => model.project()),
  steps(2, fc.constant(0), (model) => model.lookUp()),
  steps(3, fc.boolean(), (model, answered) => model.commit(answered)),
  steps(1, fc.constantFrom('log only' as const, 'all but the log' as const), (model, torn) =>
    model.commit(false, torn),
  ),
  steps(2, fc.constant(0), (model) => model.landStray()),
  steps(2, fc.constant(0), (model) => model.repeatFence()),
  steps(2, fc.boolean(), (model, lost) => model.crash(lost)),
  // Everything that the marks have passed must be in the log.
  steps(2, fc.constant(true), (model, lost) => {
    model.commit(false)
    model.crash(lost)
  }),
  steps(2, fc.constant(0), (model) => model.rebalance()),
  steps(1, fc.constant(0), (model) => model.endZombie()),
)

/** Each run uses the same sequences. For others, set HUB_MODEL_RUNS=20000 and HUB_MODEL_SEED=2. */
const RUNS = Number(process.env['HUB_MODEL_RUNS'] ?? 200)
const SEED = Number(process.env['HUB_MODEL_SEED'] ?? 1)

/** The work takes about two seconds, and longer on a busy machine. */
const WITHIN_MS = 120_000

const holds = (dedupes: boolean) =>
  fc.assert(
    fc.property(fc.array(step, { maxLength: 150, size: 'max' }), (taken) => {
      const model = new ShardModel(dedupes)
      for (const [, , perform] of taken) perform(model)
      model.settle()
      model.check()
      // Days later, after a restart.
      model.reportLate()
      model.advance(3 * 24 * 3_600_000)
      model.crash(false)
      model.settle()
      model.check()
    }),
    { numRuns: RUNS, seed: SEED },
  )

describe('a shard with reports, crashes, lost answers and rebalances', () => {
  it(
    'reaches allowed and true statuses with an operator that deduplicates',
    () => {
      holds(true)
    },
    WITHIN_MS,
  )

  it(
    'reaches allowed and true statuses with an operator that does not deduplicate',
    () => {
      holds(false)
    },
    WITHIN_MS,
  )
})

/** The smallest sequences for bugs that random runs have found. */
describe('a shard, in sequences that once revealed a bug', () => {
  const ends = (dedupes: boolean, take: (model: ShardModel) => void) => () => {
    const model = new ShardModel(dedupes)
    take(model)
    model.settle()
    model.check()
  }

  it(
    'keeps a report until the read model has reached the forgotten facts',
    ends(false, (model) => {
      model.accept(0, 0, 1, 8000)
      model.work(false)
      model.crash(false)
      model.advance(400_000)
      model.work(false)
      model.commit(false)
      model.rebalance()
      model.report(0, 'one part delivered')
      model.readReports(1)
      model.advance(90_000_000)
      model.lookUp()
    }),
  )

  it(
    'does not count one part for all when another member’s final fact comes before the lookup answer',
    ends(true, (model) => {
      model.accept(0, 0, 2, 8000)
      model.work(false)
      model.report(0, 'one part delivered')
      model.advance(90_000_000)
      model.rebalance()
      model.advance(1)
      model.work(false)
      model.advance(90_000_000)
      model.commit(false)
      model.crash(true)
      model.repeat(0)
      model.work(false)
      model.readReports(1)
    }),
  )

  it(
    'ends a message whose answer another member has recorded and it has not read yet',
    ends(true, (model) => {
      model.accept(0, 1, 1, 8000)
      model.accept(0, 0, 1, 8000)
      model.accept(0, 2, 2, 8000)
      model.work(false)
      model.rebalance()
      model.report(5, 'one part delivered')
      model.tickZombie()
      model.work(true)
      model.advance(400_000)
      model.readReports(1)
      model.work(false)
    }),
  )
})

describe('a shard whose operator has one part of two, and whose answer is lost', () => {
  for (const change of ['crash', 'rebalance', 're-append and crash'] as const) {
    it(`never counts the report of this part for both after a ${change}`, () => {
      const model = new ShardModel(false)
      model.accept(0, 0, 2, 60_000)
      model.setBehavior('accepts one part, and the connection breaks')
      model.work(false)
      assert.strictEqual(model.stateOf('msg_0')?.status, 'sent')
      if (change === 're-append and crash') {
        model.advance(30_000)
        for (let i = 0; i < 10; i++) model.repeatFence()
        model.readLog()
        model.commit(true)
        model.land(false, 1, 'acknowledged')
        model.readLog()
        model.commit(true)
      }
      if (change === 'rebalance') model.rebalance()
      else model.crash(true)
      model.report(0, 'one part delivered')
      model.settle()
      model.check()
      assert.strictEqual(model.stateOf('msg_0')?.reason, 'dlr_timeout_local')
    })
  }
})

describe('a shard that ends between the commit of its marks and its appends', () => {
  it('reads a report again if its fact was not appended', () => {
    const model = new ShardModel(false)
    model.accept(0, 0, 1, 60_000)
    model.work(false)
    model.report(0, 'all parts delivered')
    model.readReports(1)
    model.commit(true)
    model.crash(true)
    model.settle()
    model.check()
    assert.strictEqual(model.stateOf('msg_0')?.status, 'delivered')
  })

  it('remembers a final message for a while', () => {
    const model = new ShardModel(false)
    model.accept(0, 0, 1, 300_000)
    model.work(false)
    model.report(0, 'all parts delivered')
    model.readReports(1)
    model.land(false, 1, 'acknowledged')
    model.readLog()
    // First only its id is left in memory, and then only its final fact in the log.
    model.advance(20_000)
    model.commit(true)
    // The low-water mark of the log is always at a fence.
    model.repeatFence()
    model.readLog()
    model.commit(true)
    model.crash(true)
    // A repeat that looks like the original.
    model.repeat(0)
    model.work(false)
    model.settle()
    model.check()
    assert.strictEqual(model.stateOf('msg_0')?.attempts, 1)
  })

  it('submits a message whose claim was not appended', () => {
    const model = new ShardModel(false)
    model.accept(0, 0, 1, 60_000)
    model.readLane(false, 0, 1)
    model.take(false, 1)
    model.commit(true)
    model.crash(true)
    model.work(false)
    model.settle()
    model.check()
    assert.strictEqual(model.stateOf('msg_0')?.attempts, 1)
  })
})
