/** The rule for the start of an acceptance batch. The numbers come from the comments of `start-rule.ts`. */
import { assert, describe, it } from 'vitest'
import {
  type Batches,
  begun,
  ended,
  gathersFirst,
  nextBatch,
  NO_BATCHES,
  SLOW_BATCHES_IN_PROGRESS,
} from './start-rule.ts'

const waiting = (codes: number, others: number) => ({ codes, others })
/** Batches of other sends in progress, each with so many sends. They began at 1000 ms. */
const inProgress = (...sizes: ReadonlyArray<number>): Batches =>
  sizes.reduce((batches, size) => begun(batches, 'all', size, 1000), NO_BATCHES)

describe('the rule for the start of an acceptance batch', () => {
  it('starts the first batch for a single send, and none without a send', () => {
    assert.strictEqual(nextBatch(waiting(0, 1), NO_BATCHES, 1000), 'all')
    assert.strictEqual(nextBatch(waiting(1, 0), NO_BATCHES, 1000), 'all')
    assert.isNull(nextBatch(waiting(0, 0), NO_BATCHES, 1000))
  })

  it('starts a second batch only for half as many sends as are in progress, and no third one', () => {
    assert.isNull(nextBatch(waiting(0, 4), inProgress(10), 1000))
    assert.strictEqual(nextBatch(waiting(0, 5), inProgress(10), 1000), 'all')
    assert.isNull(nextBatch(waiting(0, 100), inProgress(10, 10), 1000))
  })

  it('starts further batches every 200 ms while the servers are slow, up to ten', () => {
    assert.isNull(nextBatch(waiting(0, 1), inProgress(10, 10), 1199))
    assert.strictEqual(nextBatch(waiting(0, 1), inProgress(10, 10), 1200), 'all')
    // The last one counts, not the first one.
    assert.isNull(nextBatch(waiting(0, 1), begun(inProgress(10, 10), 'all', 1, 1200), 1399))
    const full = inProgress(...Array.from({ length: SLOW_BATCHES_IN_PROGRESS }, () => 10))
    assert.strictEqual(SLOW_BATCHES_IN_PROGRESS, 10)
    assert.isNull(nextBatch(waiting(0, 1), full, 9000))
  })

  it('gives codes batches of their own while more than 128 sends wait or are in progress', () => {
    assert.strictEqual(nextBatch(waiting(1, 127), NO_BATCHES, 1000), 'all')
    assert.strictEqual(nextBatch(waiting(1, 128), NO_BATCHES, 1000), 'codes')
    // Also while two batches with others are in progress.
    assert.strictEqual(nextBatch(waiting(1, 0), inProgress(100, 100), 1000), 'codes')
    // The codes are in progress, so the next batch takes the others.
    assert.strictEqual(nextBatch(waiting(0, 200), begun(NO_BATCHES, 'codes', 5, 1000), 1000), 'others')
  })

  it('lets all batches take codes if nothing else waits', () => {
    const codesInProgress = begun(begun(NO_BATCHES, 'codes', 200, 1000), 'codes', 200, 1000)
    assert.strictEqual(nextBatch(waiting(1, 0), codesInProgress, 1000), 'all')
  })

  it('starts the next batch when one has ended', () => {
    const batches = ended(inProgress(10, 10), 'all', 10, waiting(0, 5))
    assert.strictEqual(nextBatch(waiting(0, 5), batches, 1000), 'all')
  })

  it('gathers a few sends after a batch that was not of one client that awaits its answers', () => {
    const afterOne = ended(inProgress(1), 'all', 1, waiting(0, 0))
    const afterTwo = ended(inProgress(2), 'all', 2, waiting(0, 0))
    const whileOneWaits = ended(inProgress(1), 'all', 1, waiting(0, 1))
    assert.isFalse(gathersFirst(waiting(0, 1), NO_BATCHES))
    assert.isFalse(gathersFirst(waiting(0, 1), afterOne))
    assert.isTrue(gathersFirst(waiting(0, 1), afterTwo))
    assert.isTrue(gathersFirst(waiting(0, 1), whileOneWaits))
    assert.isTrue(gathersFirst(waiting(0, 31), afterTwo))
    assert.isFalse(gathersFirst(waiting(0, 32), afterTwo))
    assert.isFalse(gathersFirst(waiting(1, 1), afterTwo))
  })
})
