/**
 * Delivery reports and handovers in unusual orders: early, late, repeated, partial, or without a
 * match.
 */
import { Fence } from '@hub/actor'
import { assert, describe, it } from '@effect/vitest'
import type { LogFact } from '@hub/domain'
import { messageAccepted } from '@hub/domain/testing'
import type { OpenSubmission, SubmitOutcome } from '@hub/operator'
import type { ShardInput } from './inputs.ts'
import type { ReadModelMessage, Message, PreparedSubmission, DeliveryReport } from './message.ts'
import type { ParkedReport } from './parked-reports.ts'
import { MessageShard } from './shard.ts'

const ACCOUNT = 'acc_a'
const MINUTE = 60_000
/** These tests do not decrypt payloads. */
const SUBMISSION = {} as PreparedSubmission

/**
 * A shard whose log acknowledges at once, and whose operator answers when the test calls
 * `answered`.
 */
const shardOf = (
  dedupes = true,
  log: ReadonlyArray<readonly [LogFact, string]> = [],
  logPosition = log.length,
) => {
  const written: Array<LogFact> = log.map(([fact]) => fact)
  const submitted: Array<Message> = []
  const resumed: Array<OpenSubmission> = []
  const counted: Array<string> = []
  const time = { now: 10 * MINUTE }
  const machine = new MessageShard({
    operators: { test: 'op', live: 'op' },
    dedupes: () => dedupes,
    onReady: () => {},
    reportDeadline: (_state, _submission, sentAt) => sentAt + 60 * MINUTE,
  })
  const run = (input: ShardInput): void => {
    for (const effect of machine.handle(input, time.now)) {
      if (effect.type === 'submit') submitted.push(effect.message)
      else if (effect.type === 'resume') resumed.push(...effect.open)
      else if (effect.type === 'count') counted.push(effect.what)
      else if (effect.type !== 'damaged') {
        if (effect.type === 'append') written.push(effect.fact)
        else written.push(...effect.open.map(({ fact }) => fact))
        run({ type: 'appended', effect, offset: written.length - 1 })
      }
    }
  }
  /** The inputs of the shard at the current time, with their effects executed. */
  const shard = {
    take: (lane: number) => machine.take(lane, 'op', ACCOUNT),
    claim: (message: Message) =>
      run({ type: 'prepared', message, preparation: { type: 'prepared', submission: SUBMISSION } }),
    discard: (message: Message) => run({ type: 'prepared', message, preparation: { type: 'destroyed' } }),
    answered: (message: Message, outcome: SubmitOutcome) =>
      run({ type: 'answered', message, outcome, submission: SUBMISSION }),
    tick: () => run({ type: 'tick' }),
    committed: (lanes: ReadonlyArray<number>, position: number) =>
      run({ type: 'committed', lanes, logPosition: position }),
    isOwn: (at: number) => machine.isOwn(at),
    onFact: (at: number, recipient: string, fact: LogFact) =>
      run({ type: 'fact', offset: at, recipient, fact, fence: new Fence() }),
    reportsToLookUp: (limit: number) => machine.parkedReports.due(time.now, limit),
    reportLookedUp: (parked: { readonly report: DeliveryReport }, message: ReadModelMessage | null) =>
      run({ type: 'reportLookedUp', parked: parked as ParkedReport, known: message }),
    lowestPinned: () => machine.lowestPinned(),
    queries: machine,
  }
  for (const [at, [fact, recipient]] of log.entries()) {
    shard.isOwn(at)
    shard.onFact(at, recipient, fact)
  }
  run({ type: 'opened', epoch: 1, laneEnds: [0, 0], logPosition })
  let offset = 0
  let reports = 0
  return {
    shard,
    time,
    resumed,
    counted,
    story: () => written.map((fact) => fact.type),
    written,
    /** Accepts, claims and submits a message. The operator has not answered yet. */
    submit: (id: string, recipient = 'r', parts = 1) => {
      const accepted = messageAccepted({
        messageId: id,
        at: time.now,
        account: ACCOUNT,
        mode: 'test',
        recipient,
        parts,
        expiresAt: time.now + 60 * MINUTE,
      })
      const at = offset++
      if (machine.judge(1, at, accepted) === 'keep') {
        run({ type: 'accepted', lane: 1, offset: at, appendedAt: time.now, accepted })
      }
      const message = shard.take(1)
      if (message === null) throw new Error('no message to take')
      shard.claim(message)
      return submitted.at(-1)!
    },
    report: (operatorId: string, more: Partial<DeliveryReport> = {}) => {
      const report: DeliveryReport = {
        offset: reports++,
        operator: 'op',
        operatorId,
        reference: null,
        recipient: 'r',
        receivedAt: time.now,
        outcome: { status: 'delivered' },
        ...more,
      }
      run({ type: 'report', report })
      return report
    },
    accepted: (message: Message, ...operatorIds: ReadonlyArray<string>) =>
      shard.answered(message, { type: 'accepted', operatorIds }),
  }
}

const known = (more: Partial<ReadModelMessage> = {}): ReadModelMessage => ({
  id: 'msg_old',
  recipient: 'r',
  class: 'service',
  status: 'expired',
  reason: 'dlr_timeout_local',
  attempts: 1,
  seen: false,
  operator: 'op',
  operatorIds: ['o1'],
  ...more,
})

describe('a delivery report', () => {
  it('before the submit answer waits for it and stays pinned', () => {
    const { accepted, submit, report, shard, story } = shardOf()
    const message = submit('msg_a')
    report('o1')
    assert.strictEqual(shard.lowestPinned().reports, 0)
    accepted(message, 'o1')
    assert.deepStrictEqual(story(), ['HandoverStarted', 'MessageSent', 'MessageDelivered'])
    assert.isNull(shard.lowestPinned().reports)
  })

  it('is matched by our reference if the answer with its id was lost', () => {
    const { submit, report, shard, story } = shardOf(false)
    shard.answered(submit('msg_a'), { type: 'unknown' })
    report('o1', { reference: 'msg_a' })
    assert.deepStrictEqual(story(), ['HandoverStarted', 'MessageSent', 'MessageDelivered'])
  })

  it('of one part waits for all ids if the message is submitted again to get them', () => {
    const { accepted, submit, report, shard, story, time } = shardOf()
    const message = submit('msg_a', 'r', 2)
    shard.answered(message, { type: 'unknown' })
    report('o1', { reference: 'msg_a' })
    assert.deepStrictEqual(story(), ['HandoverStarted'])
    time.now += 2000
    shard.tick()
    shard.claim(shard.take(1)!)
    accepted(message, 'o1', 'o2')
    assert.deepStrictEqual(story(), ['HandoverStarted', 'HandoverStarted', 'MessageSent'])
    report('o2', { reference: 'msg_a' })
    assert.strictEqual(story().at(-1), 'MessageDelivered')
  })

  it('of one part waits for all ids if another member has submitted the message', () => {
    const { submit, report, shard, story, time } = shardOf()
    const message = submit('m', 'r', 2)
    shard.answered(message, { type: 'notWritten' })
    report('op-1', { reference: 'm' })
    assert.notInclude(story(), 'MessageDelivered')
    const sent: LogFact = {
      type: 'MessageSent',
      messageId: 'm',
      at: time.now,
      operator: 'op',
      operatorIds: ['op-1', 'op-2'],
      reportDeadline: time.now + MINUTE,
    }
    shard.onFact(10, 'r', sent)
    assert.notInclude(story(), 'MessageDelivered')
    report('op-2', { reference: 'm' })
    assert.strictEqual(story().at(-1), 'MessageDelivered')
  })

  it('of one part of several stays pinned until the other reports arrive', () => {
    const { accepted, submit, report, shard, story } = shardOf()
    accepted(submit('msg_a', 'r', 2), 'o1', 'o2')
    report('o1')
    report('o1')
    assert.strictEqual(shard.lowestPinned().reports, 0)
    assert.notInclude(story(), 'MessageDelivered')
    report('o2')
    assert.include(story(), 'MessageDelivered')
    assert.isNull(shard.lowestPinned().reports)
  })

  it('of one failed part decides the message', () => {
    const { accepted, submit, report, written } = shardOf()
    accepted(submit('msg_a', 'r', 2), 'o1', 'o2')
    report('o1')
    report('o2', { outcome: { status: 'undelivered', reason: 'recipient_blocked' } })
    assert.deepInclude(written.at(-1), { type: 'MessageUndelivered', reason: 'recipient_blocked' })
  })

  it('of one part is remembered in the re-append, also over a restart', () => {
    const first = shardOf()
    first.accepted(first.submit('msg_a', 'r', 2), 'o1', 'o2')
    first.report('o1')
    first.time.now += 3 * MINUTE
    first.shard.committed([0, 0], 2)
    assert.deepInclude(first.written.at(-1), { type: 'OpenMessageCarried', operatorIds: ['o2'] })
    assert.isNull(first.shard.lowestPinned().reports)
    assert.strictEqual(first.shard.lowestPinned().log, 2, 'the re-append replaces the older facts')

    const second = shardOf(true, [[first.written[2]!, 'r']])
    assert.deepStrictEqual(second.resumed, [
      { reference: 'msg_a', recipient: 'r', operatorIds: ['o2'], sentAt: 10 * MINUTE },
    ])
    second.report('o2')
    assert.deepStrictEqual(second.story(), ['OpenMessageCarried', 'MessageDelivered'])
  })

  it('after our own deadline corrects the message once', () => {
    const { accepted, submit, report, shard, story, time } = shardOf()
    accepted(submit('msg_a'), 'o1')
    time.now += 61 * MINUTE
    shard.tick()
    report('o1')
    report('o1', { outcome: { status: 'undelivered', reason: 'recipient_blocked' } })
    assert.deepStrictEqual(story(), ['HandoverStarted', 'MessageSent', 'MessageExpired', 'MessageDelivered'])
    assert.isNull(shard.lowestPinned().reports)
  })

  it('of the last part corrects a message after our own deadline, also after a change of ownership', () => {
    const first = shardOf()
    first.accepted(first.submit('msg_a', 'r', 3), 'o1', 'o2', 'o3')
    const reported = [first.report('o1'), first.report('o2')]
    first.time.now += 61 * MINUTE
    first.shard.tick()
    assert.strictEqual(first.story().at(-1), 'MessageExpired')
    assert.strictEqual(first.shard.lowestPinned().reports, 0, 'a new owner reads both reports again')

    const second = shardOf(
      true,
      first.written.map((fact) => [fact, 'r']),
    )
    for (const { operatorId } of reported) second.report(operatorId)
    second.report('o3')
    assert.strictEqual(second.story().at(-1), 'MessageDelivered')
    assert.isNull(second.shard.lowestPinned().reports)

    first.time.now += MINUTE
    first.shard.committed([0, 0], 100)
    assert.isNull(first.shard.lowestPinned().reports, 'a forgotten message pins no report')
  })

  it('about a forgotten message is looked up, and corrects it when all parts are reported', () => {
    const { report, shard, story, time } = shardOf()
    const first = report('o1')
    assert.deepStrictEqual(shard.reportsToLookUp(10), [], 'the submit answer may still arrive')
    time.now += 300
    const [parked] = shard.reportsToLookUp(10)
    assert.deepInclude(parked, { report: first, logOffset: 0 })
    shard.reportLookedUp({ report: first }, known({ operatorIds: ['o1', 'o2'] }))
    assert.deepStrictEqual(story(), [])
    report('o2')
    assert.deepStrictEqual(story(), ['MessageDelivered'])
    assert.isNull(shard.lowestPinned().reports)
  })

  it('about a message with another final status is dropped', () => {
    const { counted, report, shard, story, time } = shardOf()
    const late = report('o1')
    time.now += 300
    shard.reportLookedUp({ report: late }, known({ status: 'delivered', reason: null }))
    assert.deepStrictEqual(story(), [])
    assert.include(counted, 'report_duplicate')
    assert.isNull(shard.lowestPinned().reports)
  })

  it('without a message is looked up for a while and then dropped', () => {
    const { counted, report, shard, time } = shardOf()
    const stray = report('o9')
    for (let i = 0; i < 30; i++) {
      time.now += 1000
      shard.reportLookedUp({ report: stray }, null)
    }
    assert.include(counted, 'report_unmatched')
    assert.isNull(shard.lowestPinned().reports)
    assert.strictEqual(shard.queries.parkedReports.size, 0)
  })

  it('about a handover with a lost answer is matched by recipient, unless two messages match', () => {
    const one = shardOf(false)
    one.shard.answered(one.submit('msg_a'), { type: 'unknown' })
    const report = one.report('o1')
    one.time.now += 6000
    one.shard.reportLookedUp({ report }, null)
    assert.deepStrictEqual(one.story(), [
      'HandoverStarted',
      'MessageSent',
      'OpenMessageCarried',
      'MessageDelivered',
    ])

    const two = shardOf(false)
    two.shard.answered(two.submit('msg_a'), { type: 'unknown' })
    two.shard.answered(two.submit('msg_b'), { type: 'unknown' })
    const ambiguous = two.report('o1')
    two.time.now += 6000
    two.shard.reportLookedUp({ report: ambiguous }, null)
    assert.notInclude(two.story(), 'MessageDelivered')
  })

  it('is not matched to a claim of an earlier owner while another answer is lost', () => {
    const first = shardOf()
    first.submit('msg_a')
    const next = shardOf(
      true,
      first.written.map((fact) => [fact, 'r'] as const),
    )
    next.shard.answered(next.submit('msg_b'), { type: 'unknown' })
    // It may be about either message.
    const report = next.report('o1')
    next.time.now += 6000
    next.shard.reportLookedUp({ report }, null)
    assert.notInclude(next.story(), 'MessageDelivered')
  })

  it('of one part is not matched by recipient for all parts, because the operator may have no other', () => {
    const { submit, report, shard, story, time, written } = shardOf(false)
    shard.answered(submit('msg_a', 'r', 2), { type: 'unknown' })
    const first = report('o1')
    time.now += 6000
    shard.reportLookedUp({ report: first }, null)
    assert.notInclude(story(), 'MessageDelivered')

    const second = report('o2')
    time.now += 6000
    shard.reportLookedUp({ report: second }, null)
    assert.strictEqual(story().at(-1), 'MessageDelivered')
    assert.deepInclude(written.at(-2), { type: 'OpenMessageCarried', operatorIds: ['o2', 'o1'] })
    assert.isNull(shard.lowestPinned().reports)
    assert.strictEqual(shard.queries.parkedReports.size, 0)
    // A repetition changes nothing.
    report('o1')
    assert.strictEqual(story().filter((type) => type === 'MessageDelivered').length, 1)
  })

  it('of one part is not matched by recipient for all parts by a new owner', () => {
    const first = shardOf(false)
    first.shard.answered(first.submit('msg_a', 'r', 2), { type: 'unknown' })
    assert.deepStrictEqual(first.story(), ['HandoverStarted', 'MessageSent'])
    first.report('o1')
    assert.strictEqual(first.shard.lowestPinned().reports, 0, 'a new owner reads the report again')

    // The former owner has also recorded that the answer is lost, or only its claim.
    for (const facts of [first.written, first.written.slice(0, 1)]) {
      const { report, shard, story, time } = shardOf(
        false,
        facts.map((fact) => [fact, 'r']),
      )
      const again = report('o1')
      time.now += 6000
      shard.reportLookedUp({ report: again }, null)
      assert.notInclude(story(), 'MessageDelivered')

      const second = report('o2')
      time.now += 6000
      shard.reportLookedUp({ report: second }, null)
      assert.strictEqual(story().at(-1), 'MessageDelivered')
      assert.isNull(shard.lowestPinned().reports)
    }
  })

  it('of one part is not completed by a report that may be about another message', () => {
    const { submit, report, shard, story, time } = shardOf(false)
    shard.answered(submit('msg_a', 'r', 2), { type: 'unknown' })
    const first = report('o1')
    time.now += 4000
    shard.answered(submit('msg_b', 'r'), { type: 'unknown' })
    const second = report('o2')
    time.now += 1000
    shard.reportLookedUp({ report: second }, null)
    time.now += 5000
    shard.reportLookedUp({ report: first }, null)
    assert.notInclude(story(), 'MessageDelivered')
  })

  it('of one part is not completed by a report that the read model may know', () => {
    const { submit, report, shard, story, time } = shardOf(false)
    shard.answered(submit('msg_a', 'r', 2), { type: 'unknown' })
    const first = report('o1')
    time.now += 6000
    const repeated = report('o9')
    shard.reportLookedUp({ report: first }, null)
    assert.notInclude(story(), 'MessageDelivered')
    shard.reportLookedUp(
      { report: repeated },
      known({ status: 'delivered', reason: null, operatorIds: ['o9'] }),
    )
    shard.reportLookedUp({ report: first }, null)
    assert.notInclude(story(), 'MessageDelivered')
  })

  it('of one failed part is matched by recipient', () => {
    const { submit, report, shard, story, time } = shardOf(false)
    shard.answered(submit('msg_a', 'r', 2), { type: 'unknown' })
    const failed = report('o1', { outcome: { status: 'undelivered', reason: 'recipient_blocked' } })
    time.now += 6000
    shard.reportLookedUp({ report: failed }, null)
    assert.strictEqual(story().at(-1), 'MessageUndelivered')
  })

  it('that was matched by recipient is not given to another message when the operator repeats it', () => {
    const first = shardOf(false)
    first.shard.answered(first.submit('msg_a'), { type: 'unknown' })
    const report = first.report('o1')
    const repeated = first.report('o1')
    first.time.now += 6000
    first.shard.reportLookedUp({ report }, null)
    assert.deepInclude(first.written.at(-2), { type: 'OpenMessageCarried', operatorIds: ['o1'] })
    assert.deepInclude(first.written.at(-1), { type: 'MessageDelivered', messageId: 'msg_a' })
    assert.isNull(first.shard.lowestPinned().reports)
    first.shard.answered(first.submit('msg_b'), { type: 'unknown' })
    first.time.now += 6000
    first.shard.reportLookedUp({ report: repeated }, null)
    assert.notDeepInclude(first.written, { type: 'MessageDelivered', messageId: 'msg_b', at: first.time.now })

    // A new owner has read the claim only.
    const second = shardOf(
      false,
      first.written.slice(0, 1).map((fact) => [fact, 'r']),
    )
    const late = second.report('o1')
    second.time.now += 6000
    second.shard.reportLookedUp({ report: late }, null)
    assert.deepStrictEqual(second.story(), ['HandoverStarted', 'MessageSent', 'MessageDelivered'])
    assert.deepInclude(second.written[1], { operatorIds: ['o1'] })
  })

  it('that was stored before a message was claimed is not matched to it by recipient', () => {
    const { submit, report, shard, story, time } = shardOf(false)
    const early = report('o1')
    time.now += 4000
    shard.answered(submit('msg_b'), { type: 'unknown' })
    time.now += 6000
    shard.reportLookedUp({ report: early }, null)
    assert.deepStrictEqual(story(), ['HandoverStarted', 'MessageSent'])
  })

  it('that could be about two messages is not matched to the second one when the first one expires', () => {
    const submitTwo = () => {
      const shard = shardOf(false)
      shard.shard.answered(shard.submit('msg_a'), { type: 'unknown' })
      shard.time.now += 60 * MINUTE - 10_000
      shard.shard.answered(shard.submit('msg_b'), { type: 'unknown' })
      return shard
    }
    const before = submitTwo()
    const report = before.report('o1')
    before.time.now += 6000
    before.shard.reportLookedUp({ report }, null)
    before.time.now += 5000
    before.shard.tick()
    assert.strictEqual(before.story().at(-1), 'MessageExpired')
    before.shard.reportLookedUp({ report }, null)
    assert.notInclude(before.story(), 'MessageDelivered')

    // A new owner reads the report again, after the first message has expired.
    const after = submitTwo()
    after.time.now += 11_000
    after.shard.tick()
    const again = after.report('o1')
    after.time.now += 6000
    after.shard.reportLookedUp({ report: again }, null)
    assert.notInclude(after.story(), 'MessageDelivered')
  })

  it('under a reused id matches the message of its recipient', () => {
    const { accepted, submit, report, shard, written } = shardOf()
    accepted(submit('msg_a', 'r'), 'o1')
    accepted(submit('msg_b', 'another'), 'o1')
    report('o1', { recipient: 'third' })
    assert.strictEqual(shard.queries.parkedReports.size, 1)
    report('o1', { recipient: 'r' })
    assert.deepInclude(written.at(-1), { type: 'MessageDelivered', messageId: 'msg_a' })
    report('o1', { recipient: 'another' })
    assert.deepInclude(written.at(-1), { type: 'MessageDelivered', messageId: 'msg_b' })
  })

  it('with a reference to a message of another recipient is parked', () => {
    const { accepted, submit, report, shard, story } = shardOf()
    accepted(submit('msg_a', 'r'), 'o1')
    report('o9', { reference: 'msg_a', recipient: 'another' })
    assert.strictEqual(shard.queries.parkedReports.size, 1)
    report('o9', {
      reference: 'msg_a',
      recipient: 'r',
      outcome: { status: 'expired', reason: 'dlr_timeout' },
    })
    assert.deepStrictEqual(story(), ['HandoverStarted', 'MessageSent', 'MessageExpired'])
  })

  it('is looked up until the read model knows what the shard has forgotten', () => {
    // Recovery started after the final fact of the message, and read only the fence.
    const { counted, report, shard, time } = shardOf(true, [], 7)
    const late = report('o1')
    time.now += 90_000_000
    assert.deepStrictEqual(
      shard.reportsToLookUp(10).map(({ logOffset }) => logOffset),
      [7],
    )
    // Without an answer, the lookups are repeated for a day, and the report stays pinned.
    assert.deepStrictEqual(counted, [])
    assert.strictEqual(shard.lowestPinned().reports, 0)
    time.now += 1000
    assert.lengthOf(shard.reportsToLookUp(10), 1)
    shard.reportLookedUp({ report: late }, known())
    assert.isNull(shard.lowestPinned().reports)
  })

  it('without a message neither fills the memory nor is dropped before its lookup', () => {
    const { counted, report, shard, time } = shardOf()
    for (let i = 0; i < 10_000; i++) {
      assert.isFalse(shard.queries.parkedReports.isFull)
      report(`o${i}`)
    }
    assert.isTrue(shard.queries.parkedReports.isFull)
    // A report that is already fetched is kept in any case.
    report('fetched')
    assert.strictEqual(shard.queries.parkedReports.size, 10_001)
    assert.strictEqual(shard.lowestPinned().reports, 0)
    time.now += 1000
    for (const parked of shard.reportsToLookUp(2)) shard.reportLookedUp(parked, null)
    assert.isFalse(shard.queries.parkedReports.isFull)
    assert.isTrue(shard.queries.parkedReports.hasRoom)
    assert.deepStrictEqual(counted, [])
    report('one more')
    report('and another')
    assert.deepStrictEqual(counted, ['report_unmatched', 'report_unmatched'])
    assert.strictEqual(shard.queries.parkedReports.size, 10_001)
    assert.strictEqual(shard.lowestPinned().reports, 2)
    assert.isTrue(shard.queries.parkedReports.isFull)
  })
})

describe('a handover', () => {
  it('without a lease is recorded as refused, so that its outcome is not unknown', () => {
    const { submit, shard, story } = shardOf()
    const message = submit('msg_a')
    shard.answered(message, { type: 'notWritten' })
    assert.deepStrictEqual(story(), ['HandoverStarted', 'HandoverRefused'])
    assert.strictEqual(shard.take(1), message)
  })

  it('keeps a message that became final meanwhile until the operator has answered', () => {
    const { accepted, counted, submit, report, shard, time, written } = shardOf()
    const message = submit('msg_a')
    // A late fact of the former owner of the shard.
    const late: LogFact = { type: 'MessageDelivered', messageId: 'msg_a', at: time.now }
    written.push(late)
    shard.isOwn(1)
    shard.onFact(1, 'r', late)
    time.now += MINUTE
    shard.committed([1, 1], 2)
    accepted(message, 'o1')
    report('o1', { outcome: { status: 'seen' } })
    report('o1')
    assert.strictEqual(written.at(-1)?.type, 'MessageSeen')
    assert.deepStrictEqual(counted, ['report_duplicate'])
    time.now += 3 * MINUTE
    shard.committed([1, 1], 3)
    assert.deepStrictEqual(shard.lowestPinned(), { lanes: [null, null], log: null, reports: null })
  })

  it('that may have succeeded is not recorded as refused by a second attempt', () => {
    const { submit, shard, story, time } = shardOf()
    const message = submit('msg_a')
    shard.answered(message, { type: 'unknown' })
    assert.isNull(shard.take(1), 'only after a pause')
    time.now += 2000
    shard.tick()
    assert.strictEqual(shard.take(1), message)
    shard.claim(message)
    shard.answered(message, { type: 'refused', submitted: true, retryAfterMs: 100 })
    assert.deepStrictEqual(story(), ['HandoverStarted', 'HandoverStarted'])
    assert.strictEqual(message.state.stage, 'claimed')
  })

  it('counts only claims after which a request left for the operator', () => {
    const { submit, shard, time, written } = shardOf()
    const message = submit('msg_a')
    const again = () => {
      time.now += 60_000
      shard.tick()
      assert.strictEqual(shard.take(1), message)
      shard.claim(message)
    }
    const left = () => message.state.attempts - message.state.unsubmitted
    shard.answered(message, { type: 'refused', submitted: false, retryAfterMs: 0 })
    assert.strictEqual(left(), 0, 'a pause')
    again()
    shard.answered(message, { type: 'notWritten' })
    assert.strictEqual(left(), 0, 'no lease')
    again()
    shard.answered(message, { type: 'refused', submitted: true, retryAfterMs: 0 })
    assert.strictEqual(left(), 1)
    again()
    shard.answered(message, { type: 'unknown' })
    assert.strictEqual(left(), 2, 'the answer was lost')
    again()
    // No fact may say so while the lost answer may still come, but the next claim does.
    shard.answered(message, { type: 'refused', submitted: false, retryAfterMs: 0 })
    again()
    assert.strictEqual(left(), 3)
    assert.deepInclude(written.at(-1), { type: 'HandoverStarted', attempt: 6, unsubmitted: 3 })
  })

  it('without a payload key expires with the reason that it was never submitted', () => {
    const { shard, story, written, submit } = shardOf()
    shard.answered(submit('msg_a'), { type: 'refused', submitted: true, retryAfterMs: 0 })
    const message = shard.take(1)!
    shard.discard(message)
    assert.deepStrictEqual(story(), ['HandoverStarted', 'HandoverRefused', 'MessageExpired'])
    assert.deepInclude(written.at(-1), { reason: 'ttl_expired_before_submit' })
    assert.deepStrictEqual(shard.lowestPinned().lanes, [null, null])
    assert.strictEqual(shard.queries.handovers.count, 0)
  })

  it('that is throttled delays the later messages of its recipient', () => {
    const { submit, shard, time } = shardOf()
    const first = submit('msg_a')
    shard.answered(first, { type: 'refused', submitted: true, retryAfterMs: 5000 })
    assert.throws(() => submit('msg_b'), 'no message to take')
    time.now += 5000
    shard.tick()
    assert.strictEqual(shard.take(1), first)
    assert.isNull(shard.take(1))
  })
})
