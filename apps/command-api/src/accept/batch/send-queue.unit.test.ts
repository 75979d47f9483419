/** The order in which acceptance batches take sends. */
import fc from 'fast-check'
import { assert, describe, it } from 'vitest'
import type { PendingSend } from '../request.ts'
import { makeSendQueue, type QueueOptions, type Taken } from './send-queue.ts'

interface Asked {
  readonly account: string
  /** One letter for each send: `o` for a code, `s` for another one. */
  readonly classes: string
  readonly isBatch: boolean
  readonly arrivedAt: number
  readonly weight?: number
}

/** A request with the parts that the queue reads. The name of a send is that of its request and its index. */
const requestOf = (
  name: string,
  { account, arrivedAt, classes, isBatch, weight = 1 }: Asked,
): PendingSend['request'] => {
  const request = {
    context: { weight, ...(isBatch ? { batch: {} } : {}) },
    arrivedAt,
    sends: [] as Array<object>,
  }
  for (const [i, letter] of classes.split('').entries()) {
    const checked = {
      class: letter === 'o' ? 'otp' : 'service',
      owner: { accountUuid: account, mode: 'live' },
    }
    request.sends.push({ name: `${name}${i}`, checked, request })
  }
  return request as unknown as PendingSend['request']
}
const nameOf = (send: PendingSend): string => (send as unknown as { readonly name: string }).name

const queueOf = (options: Partial<QueueOptions> = {}) => {
  const queue = makeSendQueue({ sends: 1000, requests: 1000, bytes: 1e9, bytesOf: () => 1, ...options })
  return {
    ...queue,
    add: (
      name: string,
      account: string,
      classes: string,
      { isBatch = false, arrivedAt = 0, weight = 1 } = {},
    ) => queue.push(requestOf(name, { account, classes, isBatch, arrivedAt, weight })),
    taken: (taken: Taken = 'all', now = 0) => queue.take(taken, now, () => true).map(nameOf),
  }
}

describe('the queue of sends', () => {
  it('has codes before other sends, and single sends before batches', () => {
    const queue = queueOf()
    queue.add('mixed', 'a', 'os', { isBatch: true })
    queue.add('service', 'a', 's')
    queue.add('codes', 'a', 'oo', { isBatch: true })
    queue.add('code', 'a', 'o')
    assert.deepStrictEqual(queue.taken(), ['code0', 'codes0', 'codes1', 'service0', 'mixed0', 'mixed1'])
    assert.strictEqual(queue.count('all'), 0)
  })

  it('lets accounts take turns', () => {
    const queue = queueOf({ sends: 4 })
    for (let i = 0; i < 6; i++) queue.add(`heavy${i}:`, 'heavy', 's')
    for (let i = 0; i < 2; i++) queue.add(`light${i}:`, 'light', 's')
    const first = queue.taken().toSorted()
    assert.deepStrictEqual(first, ['heavy0:0', 'heavy1:0', 'light0:0', 'light1:0'])
    queue.add('light2:', 'light', 's')
    assert.include(queue.taken().slice(0, 2), 'light2:0')
  })

  it('counts the codes of an account for its turns with other sends', () => {
    const queue = queueOf({ sends: 6 })
    for (let i = 0; i < 4; i++) queue.add(`code${i}:`, 'heavy', 'o')
    for (let i = 0; i < 4; i++) queue.add(`heavy${i}:`, 'heavy', 's')
    for (let i = 0; i < 4; i++) queue.add(`light${i}:`, 'light', 's')
    // Four codes first. Then the other account has had nothing.
    assert.deepStrictEqual(queue.taken().slice(4), ['light0:0', 'light1:0'])
  })

  it('gives an account with a higher weight more', () => {
    const queue = queueOf({ sends: 8 })
    for (let i = 0; i < 8; i++) {
      queue.add(`one${i}:`, 'one', 's')
      queue.add(`three${i}:`, 'three', 's', { weight: 3 })
    }
    assert.strictEqual(queue.taken().filter((name) => name.startsWith('three')).length, 6)
  })

  it('takes whole turns of a batch, so that the batches of two accounts do not both end last', () => {
    const queue = queueOf({ sends: 500 })
    queue.add('a', 'a', 's'.repeat(500), { isBatch: true })
    queue.add('b', 'b', 's'.repeat(250), { isBatch: true })
    const first = queue.taken()
    assert.strictEqual(first.filter((name) => name.startsWith('b')).length, 250)
  })

  it('takes sends first that have waited too long, the longest wait first', () => {
    const queue = queueOf({ sends: 3 })
    queue.add('old', 'a', 's', { arrivedAt: 0 })
    queue.add('older', 'b', 's', { arrivedAt: -100 })
    for (let i = 0; i < 10; i++) queue.add(`code${i}:`, 'a', 'o', { arrivedAt: 1400 })
    assert.deepStrictEqual(queue.taken('all', 1500), ['older0', 'old0', 'code0:0'])
  })

  it('takes sends that are decided again before all others, except with codes alone', () => {
    const queue = queueOf()
    queue.add('code', 'a', 'o')
    const request = requestOf('again', { account: 'a', classes: 's', isBatch: false, arrivedAt: 0 })
    queue.pushFirst(request.sends)
    assert.deepStrictEqual([queue.count('all'), queue.count('codes'), queue.count('others')], [2, 1, 1])
    assert.deepStrictEqual(queue.taken('codes'), ['code0'])
    queue.add('code', 'a', 'o')
    assert.deepStrictEqual(queue.taken('all'), ['again0', 'code0'])
  })

  it('drops sends that have their outcome', () => {
    const queue = queueOf()
    queue.add('a', 'a', 'sss', { isBatch: true })
    assert.deepStrictEqual(queue.take('all', 0, (send) => nameOf(send) !== 'a1').map(nameOf), ['a0', 'a2'])
    assert.strictEqual(queue.count('all'), 0)
  })

  it('bounds an acceptance batch by sends, requests and bytes', () => {
    const fill = (options: Partial<QueueOptions>) => {
      const queue = queueOf(options)
      for (let i = 0; i < 10; i++) queue.add(`a${i}:`, 'a', 'ss', { isBatch: true })
      return queue.taken().length
    }
    assert.strictEqual(fill({ sends: 7 }), 7)
    assert.strictEqual(fill({ requests: 3 }), 6)
    assert.strictEqual(fill({ bytes: 50, bytesOf: () => 10 }), 5)
    // A larger send has an acceptance batch of its own.
    assert.strictEqual(fill({ bytes: 50, bytesOf: () => 100 }), 1)
  })

  it('takes each send once, and those of a request in their order', () => {
    const asked = fc.record({
      account: fc.constantFrom('a', 'b', 'c'),
      classes: fc.stringMatching(/^[os]{1,20}$/u),
      isBatch: fc.boolean(),
      arrivedAt: fc.integer({ min: 0, max: 3000 }),
    })
    const options = fc.record({
      sends: fc.integer({ min: 1, max: 30 }),
      requests: fc.integer({ min: 1, max: 10 }),
      bytes: fc.integer({ min: 1, max: 30 }),
    })
    const takes = fc.array(fc.constantFrom('codes' as const, 'others' as const, 'all' as const), {
      maxLength: 20,
    })
    fc.assert(
      fc.property(fc.array(asked, { maxLength: 20 }), options, takes, (requests, limits, kinds) => {
        const queue = queueOf(limits)
        // Accounts are in the order of arrival.
        const sorted = requests.toSorted((a, b) => a.arrivedAt - b.arrivedAt)
        for (const [i, one] of sorted.entries()) queue.push(requestOf(`${i}:`, one))
        const names: Array<string> = []
        for (const [i, kind] of kinds.entries()) names.push(...queue.taken(kind, 200 * i))
        while (queue.count('all') > 0) {
          const more = queue.taken('all', 5000)
          assert.isNotEmpty(more)
          names.push(...more)
        }
        const all = sorted.flatMap(({ classes }, i) =>
          Array.from({ length: classes.length }, (_, j) => `${i}:${j}`),
        )
        assert.deepStrictEqual(names.toSorted(), all.toSorted())
        for (const i of sorted.keys()) {
          const own = names
            .filter((name) => name.startsWith(`${i}:`))
            .map((name) => Number(name.split(':')[1]))
          assert.deepStrictEqual(
            own,
            own.toSorted((a, b) => a - b),
          )
        }
      }),
    )
  })
})
