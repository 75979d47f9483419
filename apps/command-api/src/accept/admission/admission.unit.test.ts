/** Admission control: its rules for any work and any measurement, and whole loads on a model of the process. */
import fc from 'fast-check'
import { assert, describe, it } from 'vitest'
import { simulate } from '../../testing/admission-model.ts'
import {
  ALWAYS,
  BURST_LIMIT_MS,
  INITIAL_RATE,
  makeAdmission,
  STANDING_LIMIT_MS,
  type Admission,
  type Work,
} from './admission.ts'
import { WORK_KINDS } from './work-kinds.ts'

/** What happens to an admission: a client asks, admitted work finishes or ends, a sample ends. */
type Step =
  | { readonly type: 'ask'; readonly work: Work }
  | { readonly type: 'finish' | 'end'; readonly share: number }
  | {
      readonly type: 'sample'
      readonly ms: number
      readonly eventLoopDelayMs: number
      readonly eventLoopUtilization: number
    }

const work: fc.Arbitrary<Work> = fc.record({
  kind: fc.constantFrom(...WORK_KINDS),
  account: fc.constantFrom('a', 'b', 'c', 'd'),
  sends: fc.oneof(fc.constant(1), fc.integer({ min: 1, max: 1000 })),
})
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ type: fc.constant('ask' as const), work }) },
  {
    weight: 2,
    arbitrary: fc.record({
      type: fc.constantFrom('finish' as const, 'end' as const),
      share: fc.double({ min: 0, max: 1, noNaN: true }),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      type: fc.constant('sample' as const),
      ms: fc.integer({ min: 1, max: 5000 }),
      eventLoopDelayMs: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 3000 })),
      eventLoopUtilization: fc.double({ min: 0, max: 1, noNaN: true }),
    }),
  },
)

/** Runs the steps. Returns the admission and the admitted work that is still in progress. */
const run = (steps: ReadonlyArray<Step>) => {
  const admission = makeAdmission()
  const inProgress: Array<Work> = []
  for (const one of steps) {
    if (one.type === 'sample') admission.sample(one)
    else if (one.type === 'ask') {
      if (admission.refusal(one.work) !== null) admission.refused(one.work)
      else {
        admission.begin(one.work)
        inProgress.push(one.work)
      }
    } else {
      const [taken] = inProgress.splice(Math.floor(one.share * (inProgress.length - 1)), 1)
      if (taken !== undefined) admission[one.type](taken)
    }
  }
  return { admission, inProgress }
}
/** Any state: of an idle process, or with so much work of some accounts that some of it is refused. */
const state = fc
  .tuple(fc.array(step, { maxLength: 60 }), fc.array(work, { maxLength: 4 }), fc.nat({ max: 5000 }))
  .map(([steps, greedy, most]) => {
    const reached = run(steps)
    for (const one of greedy) {
      for (let i = 0; i < most && reached.admission.refusal(one) === null; i++) {
        reached.admission.begin(one)
        reached.inProgress.push(one)
      }
    }
    return reached
  })

const finishAll = ({ admission, inProgress }: ReturnType<typeof run>): void => {
  for (const one of inProgress) admission.finish(one)
}
const single = (kind: 'otp' | 'service', account: string): Work => ({ kind, account, sends: 1 })
/** Adds work of a kind and account, one send at a time, until it is refused. */
const fill = (admission: Admission, one: Work): number => {
  let added = 0
  for (; admission.refusal(one) === null; added++) admission.begin(one)
  return added
}
const idleSample = { ms: 100, eventLoopDelayMs: 0, eventLoopUtilization: 0 }

describe('admission, in any state,', () => {
  it('admits everything while nothing is in progress', () => {
    fc.assert(
      fc.property(state, work, (reached, next) => {
        finishAll(reached)
        assert.isNull(reached.admission.refusal(next))
      }),
    )
  })

  it('admits some sends, whatever it has measured', () => {
    fc.assert(
      fc.property(state, fc.constantFrom('otp' as const, 'service' as const), (reached, kind) => {
        finishAll(reached)
        const { admission } = reached
        for (let i = 0; i < ALWAYS; i++) {
          assert.isNull(admission.refusal(single(kind, 'x')))
          admission.begin(single(kind, 'x'))
        }
      }),
    )
  })

  // Rules: AVL-9
  it('refuses service before codes, and batches before single sends', () => {
    fc.assert(
      fc.property(
        state,
        fc.constantFrom('a', 'x'),
        fc.integer({ min: 1, max: 1000 }),
        (reached, account, sends) => {
          const { admission } = reached
          if (admission.inProgress() + sends <= ALWAYS) return
          const isRefused = WORK_KINDS.map(
            (kind) => admission.refusal({ kind, account, sends: kind === 'batch' ? sends : 1 }) !== null,
          )
          // Once a kind is refused, each less urgent kind is refused too.
          const first = isRefused.indexOf(true)
          assert.notInclude(first < 0 ? [] : isRefused.slice(first), false)
        },
      ),
    )
  })

  it('does not refuse a code because of service and batches', () => {
    fc.assert(
      fc.property(state, work, (reached, other) => {
        const { admission } = reached
        const code = single('otp', 'x')
        if (other.kind === 'otp' || admission.inProgress() < ALWAYS) return
        const before = admission.refusal(code)
        admission.begin(other)
        assert.strictEqual(admission.refusal(code), before)
      }),
    )
  })

  // Rules: AVL-7
  it('admits work only if its expected wait is within the limit', () => {
    fc.assert(
      fc.property(state, work, fc.nat({ max: 3000 }), ({ admission }, next, delay) => {
        admission.sample({ ...idleSample, eventLoopDelayMs: delay })
        const free = admission.inProgress() === 0 || admission.inProgress() + next.sends <= ALWAYS
        if (free || admission.refusal(next) !== null) return
        admission.begin(next)
        const limit = Math.max(BURST_LIMIT_MS[next.kind], STANDING_LIMIT_MS[next.kind])
        // The delay of the event loop uses at most half of the limit.
        const counted = admission.expectedWaitMs(next.kind) - delay + Math.min(delay, limit / 2)
        assert.isAtMost(counted, limit + 1e-6)
      }),
    )
  })

  // Rules: AVL-10
  it('leaves room for an account that has nothing in progress', () => {
    fc.assert(
      fc.property(
        fc.constantFrom(...WORK_KINDS),
        fc.integer({ min: 1, max: 20 }),
        fc.integer({ min: 500, max: 20_000 }),
        (kind, accounts, rate) => {
          const admission = makeAdmission()
          // Measures a rate.
          for (let i = 0; i < 100; i++) {
            admission.begin({ kind, account: 'x', sends: rate / 10 })
            admission.finish({ kind, account: 'x', sends: rate / 10 })
            admission.sample({ ...idleSample })
          }
          const heavy = Array.from({ length: accounts }, (_, i) => ({
            kind,
            account: `heavy ${i}`,
            sends: 1,
          }))
          for (let added = 1; added > 0;) {
            added = heavy.filter(
              (one) => admission.refusal(one) === null && (admission.begin(one), true),
            ).length
          }
          assert.isAbove(admission.inProgress(), ALWAYS)
          assert.isNull(admission.refusal({ kind, account: 'light', sends: 1 }))
        },
      ),
    )
  })

  it('admits a whole batch beside a few sends five seconds after the load has ended', () => {
    fc.assert(
      fc.property(state, (reached) => {
        finishAll(reached)
        const { admission } = reached
        for (let i = 0; i < 50; i++) admission.sample(idleSample)
        assert.isAtLeast(admission.rate(), INITIAL_RATE)
        for (let i = 0; i < 20; i++) admission.begin(single('service', 'x'))
        assert.isNull(admission.refusal({ kind: 'batch', account: 'x', sends: 1000 }))
      }),
    )
  })
})

describe('admission', () => {
  it('bounds a burst without any measurement, and admits again when sends have finished', () => {
    const admission = makeAdmission()
    const one = single('service', 'a')
    const admitted = fill(admission, one)
    assert.closeTo(admitted, ((2 / 3) * INITIAL_RATE * BURST_LIMIT_MS.service) / 1000, 2)
    assert.strictEqual(admission.refusal(one), 'share')
    admission.finish(one)
    assert.isNull(admission.refusal(one))
  })

  it('names its reason', () => {
    const admission = makeAdmission()
    fill(admission, single('service', 'a'))
    assert.strictEqual(admission.refusal(single('service', 'a')), 'share')
    for (const account of ['b', 'c', 'd', 'e', 'f']) fill(admission, single('service', account))
    assert.strictEqual(admission.refusal({ kind: 'batch', account: 'x', sends: 1 }), 'urgent')
    assert.isNull(admission.refusal(single('otp', 'a')))
    for (let i = 0; i < 100; i++) fill(admission, single('service', `account ${i}`))
    assert.strictEqual(admission.refusal(single('service', 'x')), 'wait')
  })

  it('gives an account with a higher weight a larger share', () => {
    const admission = makeAdmission()
    const one = single('service', 'a')
    admission.begin(one)
    admission.weigh('a', 4)
    assert.closeTo(1 + fill(admission, one), ((8 / 9) * INITIAL_RATE * BURST_LIMIT_MS.service) / 1000, 2)
  })

  it('measures the rate only while it has work, so few sends do not make it look slow', () => {
    const admission = makeAdmission()
    for (let i = 0; i < 100; i++) {
      admission.begin(single('service', 'a'))
      admission.sample(idleSample)
      admission.finish(single('service', 'a'))
    }
    assert.strictEqual(admission.rate(), INITIAL_RATE)
  })

  it('adds the delay of the event loop to the wait, up to half of the limit', () => {
    const limit = BURST_LIMIT_MS.service
    for (const [delay, left] of [
      [0, limit],
      [100, limit - 100],
      [10 * limit, limit / 2],
    ] as const) {
      const admission = makeAdmission()
      admission.sample({ ms: 100, eventLoopDelayMs: delay, eventLoopUtilization: 1 })
      assert.closeTo(fill(admission, single('service', 'a')), ((2 / 3) * INITIAL_RATE * left) / 1000, 2)
    }
  })

  it('shows the share of the capacity in use', () => {
    const settle = (admission: Admission, between: () => void): number => {
      for (let i = 0; i < 300; i++) {
        between()
        admission.sample({ ...idleSample, eventLoopUtilization: 0.25 })
      }
      return admission.capacityUsed()
    }
    assert.closeTo(
      settle(makeAdmission(), () => {}),
      0.25,
      0.01,
    )
    const overloaded = makeAdmission()
    const one = single('service', 'a')
    const twice = () => {
      for (let i = 0; i < 200; i++) {
        overloaded.begin(one)
        overloaded.finish(one)
        overloaded.refused(one)
      }
    }
    assert.closeTo(settle(overloaded, twice), 2, 0.01)
    assert.closeTo(
      settle(overloaded, () => {}),
      0.25,
      0.01,
    )
  })
})

/** Sends per second that the modelled process can do. */
const CAPACITY = 1000

describe('a load on a model of the process', () => {
  const accounts = (rate: number) => [{ name: 'a', sendsPerSecond: rate, codesOfTen: 1 }]

  it.for([1, 1.5, 2, 4])('of %d times the capacity leaves the goodput and the codes alone', (multiple) => {
    const result = simulate({ capacity: CAPACITY, seconds: 20, accounts: accounts(multiple * CAPACITY) })
    assert.isAtLeast(result.goodput, 0.97 * CAPACITY)
    assert.isAtMost(result.p99.service, 1500)
    assert.isAtMost(result.p99.otp, 500)
    assert.strictEqual(result.byAccount['a']!.refusedCodes, 0)
  })

  it('of only codes is bounded too', () => {
    const codes = [{ name: 'a', sendsPerSecond: 4 * CAPACITY, codesOfTen: 10 }]
    const result = simulate({ capacity: CAPACITY, seconds: 20, accounts: codes })
    assert.isAtLeast(result.goodput, 0.97 * CAPACITY)
    assert.isAtMost(result.p99.otp, 500)
  })

  it.for([5, 50, 100])(
    'of one account with ten times the sends of others, which arrive every %d ms, takes nothing from them',
    (turnMs) => {
      // Each of the others sends less than a tenth of the capacity, which is its share.
      const others = Array.from({ length: 9 }, (_, i) => ({
        name: `other ${i}`,
        sendsPerSecond: 0.09 * CAPACITY,
        codesOfTen: 1,
      }))
      const heavy = { name: 'heavy', sendsPerSecond: 0.9 * CAPACITY, codesOfTen: 1 }
      const result = simulate({ capacity: CAPACITY, seconds: 20, accounts: [heavy, ...others], turnMs })
      for (const { name } of others) {
        const { accepted, sent } = result.byAccount[name]!
        assert.isAtLeast(accepted / sent, 0.97, name)
      }
      assert.isAtLeast(result.goodput, 0.97 * CAPACITY)
    },
  )

  it('is served as before when the process gets slower and faster', () => {
    for (const [before, after] of [
      [1000, 200],
      [200, 1000],
    ] as const) {
      const result = simulate({
        capacity: (second) => (second < 10 ? before : after),
        seconds: 30,
        accounts: accounts(1500),
      })
      assert.isAtLeast(result.acceptedIn(15, 30), 0.97 * after * 15)
      assert.isAtMost(result.slowestIn(15, 30), 1500)
    }
  })

  it.for([200, 500, 1000, 2000])(
    'of a fifth of the capacity is not refused while servers take %d ms',
    (ms) => {
      const result = simulate({
        capacity: 5 * CAPACITY,
        pathMs: (second) => (second < 5 || second >= 20 ? 20 : ms),
        seconds: 30,
        accounts: accounts(CAPACITY),
      })
      assert.strictEqual(result.refusedIn(0, 5), 0)
      // In the first seconds it is not known whether servers are slow or the load is too high.
      assert.strictEqual(result.refusedIn(6 + (3 * ms) / 1000, 20), 0)
      assert.strictEqual(result.refusedIn(20, 30), 0)
    },
  )

  it.for([1.5, 2, 4])('of %d times the capacity is bounded while servers take 500 ms', (multiple) => {
    const result = simulate({
      capacity: CAPACITY,
      pathMs: 500,
      seconds: 20,
      accounts: accounts(multiple * CAPACITY),
    })
    assert.isAtLeast(result.acceptedIn(2, 20), 0.97 * CAPACITY * 18)
    assert.isAtMost(result.p99.service, 500 + 1500)
    assert.isAtMost(result.p99.otp, 500 + 500)
  })

  it('that ends leaves nothing behind', () => {
    const result = simulate({
      capacity: CAPACITY,
      seconds: 30,
      accounts: [
        { name: 'a', sendsPerSecond: (second) => (second < 20 ? 4 * CAPACITY : 100), codesOfTen: 1 },
      ],
    })
    assert.strictEqual(result.refusedIn(21, 30), 0)
    assert.isAtMost(result.slowestIn(25, 30), 200)
  })
})
