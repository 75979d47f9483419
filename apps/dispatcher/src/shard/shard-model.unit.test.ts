/** Random interleavings of everything that can happen to a shard; see `testing/shard-model.ts`. */
import { assert, describe, it } from '@effect/vitest'
import fc from 'fast-check'
import { type Answering, type Landing, ShardModel, type Telling } from '../testing/shard-model.ts'

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
const ANSWERING: ReadonlyArray<Answering> = [
  'accepts',
  'refuses',
  'rejects',
  'takes, and the answer is lost',
  'never hears of it',
  'is not written to, because the lease is over',
]
const LANDING: ReadonlyArray<Landing> = [
  'acknowledged',
  'acknowledged',
  'acknowledged',
  'acknowledged',
  'acknowledgement lost',
  'overtaken by its repetition',
]
const TELLING: ReadonlyArray<Telling> = [
  'one part delivered',
  'all parts delivered',
  'undelivered',
  'rejected',
  'expired',
  'seen',
  'the last one again',
  'under this id, of somebody else',
]
const LIFETIMES = [8000, 60_000, 300_000, 900_000]

const step = fc.oneof(
  steps(
    6,
    fc.tuple(fc.nat(1), fc.nat(2), fc.integer({ min: 1, max: 3 }), fc.constantFrom(...LIFETIMES)),
    (model, [lane, recipient, parts, lifetime]) => model.accept(lane, recipient, parts, lifetime),
  ),
  steps(1, fc.nat(50), (model, which) => model.repeat(which)),
  steps(5, fc.tuple(zombie, fc.nat(1), fc.nat(5)), (model, [who, lane, count]) =>
    model.readLane(who, lane, count),
  ),
  steps(6, fc.tuple(zombie, fc.nat(4)), (model, [who, count]) => model.take(who, count)),
  steps(9, fc.tuple(zombie, fc.nat(6), fc.constantFrom(...LANDING)), (model, [who, count, how]) =>
    model.land(who, count, how),
  ),
  steps(6, zombie, (model, who) => model.answer(who)),
  steps(4, fc.constant(false), (model, who) => model.work(who)),
  steps(3, fc.constant(true), (model, who) => {
    model.tickZombie()
    model.work(who)
  }),
  steps(3, fc.constantFrom(...ANSWERING), (model, how) => model.answering(how)),
  steps(5, fc.tuple(fc.nat(20), fc.constantFrom(...TELLING)), (model, [which, what]) =>
    model.tell(which, what),
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
  steps(2, fc.constant(0), (model) => model.carryFence()),
  steps(2, fc.boolean(), (model, lost) => model.crash(lost)),
  // Whatever a mark has passed by then must be in the log.
  steps(2, fc.constant(true), (model, lost) => {
    model.commit(false)
    model.crash(lost)
  }),
  steps(2, fc.constant(0), (model) => model.rebalance()),
  steps(1, fc.constant(0), (model) => model.endZombie()),
)

/** The same ones every time, so that a change is judged by itself. Others by hand: HUB_MODEL_RUNS=20000 HUB_MODEL_SEED=2. */
const RUNS = Number(process.env['HUB_MODEL_RUNS'] ?? 200)
const SEED = Number(process.env['HUB_MODEL_SEED'] ?? 1)

/** About two seconds of work; a busy machine takes its time. */
const WITHIN_MS = 120_000

const holds = (dedupes: boolean) =>
  fc.assert(
    fc.property(fc.array(step, { maxLength: 150, size: 'max' }), (taken) => {
      const model = new ShardModel(dedupes)
      for (const [, , perform] of taken) perform(model)
      model.rest()
      model.check()
      // Days later, and after a restart.
      model.tellLate()
      model.advance(3 * 24 * 3_600_000)
      model.crash(false)
      model.rest()
      model.check()
    }),
    { numRuns: RUNS, seed: SEED },
  )

describe('a shard over reports, crashes, lost answers and rebalances', () => {
  it(
    'ends in what the specification allows and what is true, with an operator that dedupes',
    () => {
      holds(true)
    },
    WITHIN_MS,
  )

  it(
    'ends in what the specification allows and what is true, with one that does not',
    () => {
      holds(false)
    },
    WITHIN_MS,
  )
})

/** What random runs have found, as small as they could be made. Each ended otherwise once. */
describe('a shard, where a random run has found a mistake', () => {
  const ends = (dedupes: boolean, take: (model: ShardModel) => void) => () => {
    const model = new ShardModel(dedupes)
    take(model)
    model.rest()
    model.check()
  }

  it(
    'keeps a report until the read model has come as far as what was forgotten',
    ends(false, (model) => {
      model.accept(0, 0, 1, 8000)
      model.work(false)
      model.crash(false)
      model.advance(400_000)
      model.work(false)
      model.commit(false)
      model.rebalance()
      model.tell(0, 'one part delivered')
      model.readReports(1)
      model.advance(90_000_000)
      model.lookUp()
    }),
  )

  it(
    'does not take the report of one part for all when another’s end of the message comes before the answer of the read model',
    ends(true, (model) => {
      model.accept(0, 0, 2, 8000)
      model.work(false)
      model.tell(0, 'one part delivered')
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
    'ends a message whose answer another member has heard, and it has not read yet',
    ends(true, (model) => {
      model.accept(0, 1, 1, 8000)
      model.accept(0, 0, 1, 8000)
      model.accept(0, 2, 2, 8000)
      model.work(false)
      model.rebalance()
      model.tell(5, 'one part delivered')
      model.tickZombie()
      model.work(true)
      model.advance(400_000)
      model.readReports(1)
      model.work(false)
    }),
  )
})

describe('a shard that ends between its marks and its facts', () => {
  it('reads a report again whose fact was not written', () => {
    const model = new ShardModel(false)
    model.accept(0, 0, 1, 60_000)
    model.work(false)
    model.tell(0, 'all parts delivered')
    model.readReports(1)
    model.commit(true)
    model.crash(true)
    model.rest()
    model.check()
    assert.strictEqual(model.stateOf('msg_0')?.status, 'delivered')
  })

  it('remembers for a while what it has finished', () => {
    const model = new ShardModel(false)
    model.accept(0, 0, 1, 300_000)
    model.work(false)
    model.tell(0, 'all parts delivered')
    model.readReports(1)
    model.land(false, 1, 'acknowledged')
    model.readLog()
    // Only its id is left in memory, and then its evidence in the log.
    model.advance(20_000)
    model.commit(true)
    // The mark of the log is at a fence.
    model.carryFence()
    model.readLog()
    model.commit(true)
    model.crash(true)
    // A repeat that looks like the first.
    model.repeat(0)
    model.work(false)
    model.rest()
    model.check()
    assert.strictEqual(model.stateOf('msg_0')?.attempts, 1)
  })

  it('hands a message over whose claim was not written', () => {
    const model = new ShardModel(false)
    model.accept(0, 0, 1, 60_000)
    model.readLane(false, 0, 1)
    model.take(false, 1)
    model.commit(true)
    model.crash(true)
    model.work(false)
    model.rest()
    model.check()
    assert.strictEqual(model.stateOf('msg_0')?.attempts, 1)
  })
})
