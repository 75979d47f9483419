import type { DispatcherStatus, OperatorStatus } from '@hub/counters'
import { toTimestamp } from '@hub/domain'
import { assert, it } from 'vitest'
import { statesOf } from './operators.ts'

const smpp = (more: Partial<OperatorStatus>): OperatorStatus => ({
  operator: 'smpp',
  binds: [{ role: 'transceiver', established: 2, wanted: 2, since: 1000 }],
  rate: null,
  configured: null,
  passed: 0,
  throttled: 0,
  ...more,
})

const dispatcher = (
  host: string,
  at: number,
  ...operators: ReadonlyArray<OperatorStatus>
): DispatcherStatus => ({
  host,
  at,
  operators,
})

it('an operator has the binds and the pace of all dispatchers, and the rate of the newest report', () => {
  const sandbox = smpp({ operator: 'sandbox', binds: [], passed: 3 })
  const states = statesOf([
    dispatcher('one', 2000, smpp({ rate: 41.26, configured: 50, passed: 20.4, throttled: 0.5 }), sandbox),
    dispatcher(
      'two',
      1000,
      smpp({
        rate: 38,
        passed: 10.2,
        binds: [{ role: 'transceiver', established: 1, wanted: 2, since: 5000 }],
      }),
    ),
  ])
  assert.deepStrictEqual(states, [
    {
      operator: 'sandbox',
      dispatchers: 1,
      binds: [],
      incomplete: [],
      rate: null,
      configured_rate: null,
      passed_per_second: 3,
      throttled_per_second: 0,
    },
    {
      operator: 'smpp',
      dispatchers: 2,
      binds: [{ role: 'transceiver', established: 3, wanted: 4 }],
      incomplete: [
        { dispatcher: 'two', role: 'transceiver', established: 1, wanted: 2, since: toTimestamp(5000) },
      ],
      rate: 41.3,
      configured_rate: 50,
      passed_per_second: 30.6,
      throttled_per_second: 0.5,
    },
  ])
})
