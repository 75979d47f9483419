/** How accounts share an operator queue. */
import { assert, describe, it } from '@effect/vitest'
import fc from 'fast-check'
import { AccountShares } from './account-shares.ts'
import type { Message } from './message.ts'

const LIMIT = 2000

const messageOf = (account: string) => ({ account, laneRecord: {} }) as Message
const always = () => true

/** An operator queue whose accounts append campaigns. */
class Queue {
  readonly shares = new AccountShares('op', LIMIT)
  readonly #units = new Map<Message, number>()

  get units(): number {
    return [...this.shares.values()].reduce((sum, { units }) => sum + units, 0)
  }

  unitsOf(account: string): number {
    return this.shares.of(account).units
  }

  /** Adds a message if the share allows it, as a shard does. */
  offer(account: string, units = 1): boolean {
    const share = this.shares.of(account)
    if (this.shares.isFull(share)) {
      this.shares.skipping(share)
      return false
    }
    for (;;) {
      const victim = this.shares.victimOf(share)
      const message = victim?.newest(always) ?? null
      if (victim === null || message === null) break
      assert.isAbove(victim.units, 2 * share.units, 'only much larger shares give up messages')
      this.shares.skipping(victim)
      this.remove(message)
    }
    const message = messageOf(account)
    this.#units.set(message, units)
    this.shares.add(message, units)
    return true
  }

  remove(message: Message): void {
    this.shares.remove(message, this.#units.get(message)!)
    Object.assign(message, { laneRecord: null })
  }

  /** Hands the oldest messages of an account over. */
  submit(account: string, count: number): void {
    for (let i = 0; i < count; i++) {
      const oldest = this.shares.of(account).oldest()
      if (oldest !== null) this.remove(oldest)
    }
  }

  /** Appends a campaign. The shard skips what does not fit. */
  campaign(account: string, messages: number): void {
    for (let i = 0; i < messages && this.offer(account); i++);
  }
}

const accountsOf = (count: number) => Array.from({ length: count }, (_, i) => `acc_${i}`)

describe('the shares of accounts', () => {
  it('give one account the whole queue, and another one room at once', () => {
    const queue = new Queue()
    queue.campaign('acc_a', 10_000)
    assert.strictEqual(queue.unitsOf('acc_a'), LIMIT)
    queue.campaign('acc_b', 100)
    assert.deepStrictEqual([queue.unitsOf('acc_a'), queue.unitsOf('acc_b')], [LIMIT - 100, 100])
  })

  it('differ by a factor of two at most when campaigns lie one after the other', () => {
    const queue = new Queue()
    const accounts = accountsOf(50)
    for (const account of accounts) queue.campaign(account, 1000)
    const units = accounts.map((account) => queue.unitsOf(account))
    assert.isAtMost(Math.max(...units), 2 * Math.min(...units) + 2)
    assert.strictEqual(queue.units, LIMIT)
  })

  it('are filled to half more than an equal part, because others are nearly empty', () => {
    const queue = new Queue()
    const accounts = accountsOf(50)
    for (const account of accounts) queue.campaign(account, 1000)
    for (const account of accounts) queue.submit(account, 30)
    for (const account of accounts.slice(0, 10)) {
      queue.campaign(account, 1000)
      assert.strictEqual(queue.unitsOf(account), (1.5 * LIMIT) / 50)
    }
  })

  it('leave to an account that is behind what small accounts do not use', () => {
    const queue = new Queue()
    for (const account of accountsOf(400)) queue.offer(account)
    queue.campaign('acc_a', 10_000)
    assert.strictEqual(queue.unitsOf('acc_a'), LIMIT - 400)
  })

  it('leave to accounts that are behind nothing of what an account that has caught up uses', () => {
    const queue = new Queue()
    queue.campaign('acc_a', 10_000)
    queue.submit('acc_a', LIMIT - 600)
    queue.shares.caughtUp(queue.shares.of('acc_a'))
    for (const account of ['acc_b', 'acc_c']) queue.campaign(account, 10_000)
    for (const account of ['acc_b', 'acc_c']) queue.submit(account, LIMIT)
    queue.campaign('acc_b', 10_000)
    assert.strictEqual(queue.unitsOf('acc_b'), (1.5 * (LIMIT - 600)) / 2)
  })

  it('give up only messages that still wait', () => {
    const queue = new Queue()
    queue.campaign('acc_a', 3)
    const share = queue.shares.of('acc_a')
    const newest = share.newest(always)!
    queue.remove(newest)
    assert.notStrictEqual(share.newest(always), newest)
    queue.submit('acc_a', 2)
    assert.isNull(share.newest(always))
  })

  it('are limited by units, of which a large message has several', () => {
    const queue = new Queue()
    for (const account of ['acc_a', 'acc_b']) {
      for (let i = 0; i < 1000; i++) queue.offer(account, 7)
      assert.isAtLeast(queue.units, LIMIT)
      assert.isBelow(queue.units, LIMIT + 7)
    }
    assert.isAtLeast(queue.unitsOf('acc_b'), LIMIT / 3 - 7)
  })

  it('are exact after each change, and empty ones are forgotten', () => {
    const step = fc.record({
      account: fc.nat(5).map((n) => `acc_${n}`),
      do: fc.constantFrom('offer', 'offer', 'submit', 'catchUp'),
      units: fc.integer({ min: 1, max: 400 }),
    })
    fc.assert(
      fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
        const queue = new Queue()
        for (const { account, do: what, units } of steps) {
          if (what === 'offer') queue.offer(account, units)
          else if (what === 'submit') queue.submit(account, 1)
          else queue.shares.caughtUp(queue.shares.of(account))
          assert.isAtMost(queue.units, LIMIT + 400)
        }
        for (const account of accountsOf(6)) {
          queue.submit(account, 300)
          queue.shares.caughtUp(queue.shares.of(account))
        }
        assert.strictEqual(queue.units, 0)
      }),
    )
  })
})
