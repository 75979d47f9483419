/** Property tests of `decide` and `evolve` together, with random commands in random order. */
import { Result } from 'effect'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { EVENT_TYPES } from '../event/event.ts'
import { factId } from '../id/id.ts'
import type { MessageCommand, ReportOutcome } from './command.ts'
import { reappendOpen, reappendRefusal, decide } from './decide.ts'
import { type AcceptanceForEvents, type MessageEvent, seenEvent, statusEvent } from './events.ts'
import { evolve, statusOf } from './evolve.ts'
import {
  epochOf,
  EXPIRED_REASONS,
  type LogFact,
  type MessageFact,
  type ReasonCode,
  REJECTED_REASONS,
  UNDELIVERED_REASONS,
  withEpoch,
} from './fact.ts'
import { deadlineOf, isFinal, type MessageState, rank, type Status } from './state.ts'
import { messageAccepted } from '../testing/message-accepted.ts'
import { factIdOf, stepOf } from './step.ts'

const accepted = messageAccepted({
  at: 0,
  class: 'otp',
  template: 'otp_code',
  clientRef: 'ref-1',
  parts: 2,
  price: { amount: '5.00', currency: 'RUB' },
  expiresAt: 100,
})
const messageId = accepted.messageId

const anyOperator = fc.constantFrom('http', 'smpp')
const anyIds = fc.constantFrom<ReadonlyArray<string>>([], ['a'], ['a', 'b'])
const anyParts = fc.constantFrom(null, 2, 3)
const anyOutcome: fc.Arbitrary<ReportOutcome> = fc.oneof(
  fc.constant({ status: 'delivered' as const }),
  fc.constantFrom(...UNDELIVERED_REASONS).map((reason) => ({ status: 'undelivered' as const, reason })),
  fc.constantFrom(...REJECTED_REASONS).map((reason) => ({ status: 'rejected' as const, reason })),
  fc.constant({ status: 'expired' as const, reason: 'dlr_timeout' as const }),
)
/** A command without its time. */
const anyRequest = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({
      type: fc.constant('ClaimHandover' as const),
      epoch: fc.nat({ max: 3 }),
      operator: anyOperator,
      dedupes: fc.boolean(),
    }),
  },
  fc.record({
    type: fc.constant('RecordSubmitted' as const),
    operator: anyOperator,
    operatorIds: anyIds,
    reportDeadline: fc.nat({ max: 300 }),
  }),
  fc.record({
    type: fc.constant('RecordRefusal' as const),
    submitted: fc.boolean(),
    retryAt: fc.nat({ max: 150 }),
  }),
  fc.record({
    type: fc.constant('RecordRejection' as const),
    reason: fc.constantFrom(...REJECTED_REASONS, ...UNDELIVERED_REASONS),
  }),
  fc.record({ type: fc.constant('AssumeSent' as const), reportDeadline: fc.nat({ max: 300 }) }),
  {
    weight: 3,
    arbitrary: fc.record({ type: fc.constant('RecordReport' as const), outcome: anyOutcome }),
  },
  fc.record({ type: fc.constant('RecordReadReceipt' as const) }),
  { weight: 2, arbitrary: fc.record({ type: fc.constant('PassDeadline' as const) }) },
)
/** Commands at increasing times, mostly within the lifetime. */
const anyHistory: fc.Arbitrary<ReadonlyArray<MessageCommand>> = fc
  .array(fc.tuple(anyRequest, fc.constantFrom(0, 1, 5, 20, 150)), { maxLength: 25, size: 'max' })
  .map((steps) => {
    let at = 0
    return steps.map(([request, later]) => ({ ...request, at: (at += later) }))
  })

const fold = (facts: ReadonlyArray<MessageFact>, from: MessageState | null = null): MessageState | null =>
  facts.reduce<MessageState | null>((state, fact) => evolve(state, fact), from)

interface Run {
  readonly facts: ReadonlyArray<MessageFact>
  /** The state after each fact. */
  readonly states: ReadonlyArray<MessageState>
  readonly granted: ReadonlyArray<{ readonly command: MessageCommand; readonly before: MessageState }>
}
const run = (commands: ReadonlyArray<MessageCommand>): Run => {
  let state = evolve(null, accepted)
  const facts: Array<MessageFact> = [accepted]
  const states = [state]
  const granted: Array<Run['granted'][number]> = []
  for (const command of commands) {
    const decision = decide(state, command)
    if (Result.isFailure(decision)) continue
    if (decision.success.length > 0) granted.push({ command, before: state })
    for (const fact of decision.success) {
      facts.push(fact)
      states.push((state = evolve(state, fact)))
    }
  }
  return { facts, states, granted }
}
const named = (state: MessageState) =>
  state.reason === null ? state.status : `${state.status} ${state.reason}`

/** Every status change that the contract permits. */
const PERMITTED = new Set([
  'accepted → sent',
  ...UNDELIVERED_REASONS.map((reason) => `accepted → undelivered ${reason}`),
  ...REJECTED_REASONS.map((reason) => `accepted → rejected ${reason}`),
  'accepted → expired ttl_expired_before_submit',
  'sent → delivered',
  ...UNDELIVERED_REASONS.map((reason) => `sent → undelivered ${reason}`),
  ...REJECTED_REASONS.map((reason) => `sent → rejected ${reason}`),
  'sent → expired dlr_timeout',
  'sent → expired dlr_timeout_local',
  'expired dlr_timeout_local → delivered',
  ...UNDELIVERED_REASONS.map((reason) => `expired dlr_timeout_local → undelivered ${reason}`),
])
const changesOf = ({ states }: Run) =>
  states.slice(1).flatMap((state, i) => {
    const change = `${named(states[i]!)} → ${named(state)}`
    return named(states[i]!) === named(state) ? [] : [change]
  })

describe('any sequence of commands', () => {
  const always = (holds: (run: Run) => void) =>
    fc.assert(
      fc.property(anyHistory, (commands) => holds(run(commands))),
      { numRuns: 500 },
    )

  // Rules: MSG-24, MSG-25, MSG-26, MSG-29
  it('changes the status only as the contract permits', () => {
    always((history) => {
      for (const change of changesOf(history)) expect(PERMITTED).toContain(change)
    })
  })

  // Rules: MSG-24
  it('can produce every permitted status change', () => {
    const reached = new Set<string>()
    // Rare changes need thousands of histories. Most seeds finish earlier.
    for (let seed = 1; seed <= 40 && reached.size < PERMITTED.size; seed++) {
      for (const commands of fc.sample(anyHistory, { numRuns: 500, seed })) {
        for (const change of changesOf(run(commands))) reached.add(change)
      }
    }
    expect([...reached].toSorted()).toEqual([...PERMITTED].toSorted())
  })

  // Rules: MSG-25
  it('never makes a final message open again, and keeps status, stage and rank consistent', () => {
    always(({ states }) => {
      for (const [i, state] of states.entries()) {
        const before = states[i - 1]
        if (before?.final === true) expect(state.final).toBe(true)
        if (before !== undefined) {
          expect(rank(state.status, state.reason)).toBeGreaterThanOrEqual(rank(before.status, before.reason))
        }
        expect(state.final).toBe(isFinal(state.status))
        expect(state.final).toBe(state.stage === 'final')
        expect(state.status === 'sent').toBe(state.stage === 'awaitingReport')
      }
    })
  })

  // Rules: MSG-26
  it('corrects a final status at most once', () => {
    always(({ states }) => {
      const final = states.filter((state) => state.final).map(named)
      expect(new Set(final).size).toBeLessThanOrEqual(2)
    })
  })

  it('gives every fact and every event its own id', () => {
    always(({ facts }) => {
      expect(new Set(facts.map(factIdOf)).size).toBe(facts.length)
      const events = facts.flatMap((fact) => eventOf(accepted, fact) ?? [])
      expect(new Set(events.map((event) => event.id)).size).toBe(events.length)
      expect(new Set(events.map((event) => event.type)).size).toBe(events.length)
    })
  })

  it('gives facts whose repetition changes nothing, one by one or as a whole', () => {
    always(({ facts }) => {
      const once = fold(facts)
      expect(fold(facts, once)).toEqual(once)
      expect(fold(facts.flatMap((fact) => [fact, fact]))).toEqual(once)
    })
  })

  it('gives facts that change nothing when they come again, however late', () => {
    always(({ facts, states }) => {
      for (const [i, state] of states.entries()) {
        for (const fact of facts.slice(0, i + 1)) expect(evolve(state, fact)).toBe(state)
      }
    })
  })

  it('gives the same state if the acceptance is read after the log', () => {
    always(({ facts }) => {
      expect(fold([...facts.slice(1), accepted])).toEqual(fold(facts))
    })
  })

  // Rules: MSG-33
  it('repeats a claim without an answer only at an operator that deduplicates', () => {
    always(({ granted }) => {
      for (const { command, before } of granted) {
        if (command.type === 'ClaimHandover' && before.stage === 'claimed') {
          expect(command).toMatchObject({ dedupes: true, operator: before.operator })
        }
      }
    })
  })

  it('claims a message only within its lifetime, and counts attempts from one', () => {
    always(({ facts }) => {
      const claims = facts.filter((fact) => fact.type === 'HandoverStarted')
      expect(claims.map((claim) => claim.attempt)).toEqual(claims.map((_, i) => i + 1))
      for (const claim of claims) expect(claim.at).toBeLessThan(accepted.expiresAt)
    })
  })

  it('counts the claims after which nothing was submitted, until the message is sent', () => {
    always(({ granted, states }) => {
      const unsubmitted = granted.filter(
        ({ command }) => command.type === 'RecordRefusal' && !command.submitted,
      ).length
      const last = states.at(-1)!
      expect(last.unsubmitted).toBe(last.sentAt === null ? unsubmitted : 0)
    })
  })

  // Rules: MSG-30
  it('never reports that a resend is safe if an answer may be lost', () => {
    always(({ facts }) => {
      const end = facts.findIndex(
        (f) => f.type === 'MessageExpired' && f.reason === 'ttl_expired_before_submit',
      )
      if (end === -1) return
      const claims = facts.slice(0, end).filter((fact) => fact.type === 'HandoverStarted')
      const last = claims.at(-1)
      if (last === undefined) return
      expect(facts.slice(0, end)).toContainEqual(
        expect.objectContaining({ type: 'HandoverRefused', attempt: last.attempt }),
      )
    })
  })

  it('reaches a final status after all deadlines and with all answers lost', () => {
    always(({ facts }) => {
      let state = fold(facts)!
      for (const command of [
        { type: 'AssumeSent', reportDeadline: 10_000, at: 10_000 },
        { type: 'PassDeadline', at: 10_000 },
      ] as const) {
        state = fold(
          Result.getOrElse(decide(state, command), () => []),
          state,
        )!
      }
      expect(state.final).toBe(true)
    })
  })

  it('is fully represented by a re-appended fact of a sent message', () => {
    always(({ facts }) => {
      const state = fold(facts)!
      const reappended = reappendOpen(state, 1000)
      expect(reappended !== null).toBe(state.status === 'sent')
      if (reappended === null) return
      expect(evolve(state, reappended)).toEqual(state)
      expect(fold([reappended, accepted])).toEqual(state)
    })
  })

  it('has its number of parts in the log, while the operator ids do not tell it', () => {
    always(({ facts }) => {
      const inLog = fold(facts.slice(1))
      if (facts.some(({ type }) => type === 'HandoverStarted')) expect(inLog?.parts).toBe(accepted.parts)
      // The re-append replaces all older facts. Its writer may never have read the acceptance.
      const reappended = inLog === null ? null : reappendOpen(inLog, 1000)
      if (reappended !== null && reappended.operatorIds.length === 0) {
        expect(fold([reappended])?.parts).toBe(accepted.parts)
      }
    })
  })

  it('is represented by a re-appended refusal, except for the operator that refused', () => {
    always(({ facts }) => {
      const state = fold(facts)!
      const reappended = reappendRefusal(state, 1000)
      expect(reappended !== null).toBe(state.stage === 'queued' && state.attempts > 0)
      if (reappended === null) return
      expect(evolve(state, reappended)).toEqual(state)
      expect(fold([reappended, accepted])).toEqual({ ...state, operator: null })
    })
  })
})

describe('evolve', () => {
  const anyFact: fc.Arbitrary<MessageFact> = fc
    .oneof(
      fc.constant(accepted),
      fc.record({
        type: fc.constant('HandoverStarted' as const),
        epoch: fc.nat({ max: 2 }),
        attempt: fc.integer({ min: 1, max: 4 }),
        operator: anyOperator,
        parts: anyParts,
      }),
      fc.record({
        type: fc.constant('HandoverRefused' as const),
        attempt: fc.integer({ min: 1, max: 4 }),
        unsubmitted: fc.constantFrom(null, 1),
        retryAt: fc.nat({ max: 9 }),
      }),
      fc.record({
        type: fc.constant('MessageSent' as const),
        operator: anyOperator,
        operatorIds: anyIds,
        reportDeadline: fc.nat({ max: 9 }),
      }),
      fc.constantFrom({ type: 'MessageDelivered' as const }, { type: 'MessageSeen' as const }),
      fc
        .constantFrom(...UNDELIVERED_REASONS)
        .map((reason) => ({ type: 'MessageUndelivered' as const, reason })),
      fc.constantFrom(...REJECTED_REASONS).map((reason) => ({ type: 'MessageRejected' as const, reason })),
      fc.constantFrom(...EXPIRED_REASONS).map((reason) => ({ type: 'MessageExpired' as const, reason })),
      fc.record({
        type: fc.constant('OpenMessageCarried' as const),
        operator: anyOperator,
        operatorIds: anyIds,
        class: fc.constant('otp' as const),
        attempts: fc.nat({ max: 4 }),
        sentAt: fc.nat({ max: 9 }),
        reportDeadline: fc.nat({ max: 9 }),
        parts: anyParts,
      }),
    )
    .chain((fact) =>
      fc
        .nat({ max: 9 })
        .map((at): MessageFact => (fact.type === 'MessageAccepted' ? fact : { ...fact, messageId, at })),
    )
  const anyFacts = fc.array(anyFact, { minLength: 1, maxLength: 12 })

  it('never fails and is idempotent for facts in any order, including impossible sequences', () => {
    fc.assert(
      fc.property(anyFacts, (facts) => {
        const once = fold(facts)!
        for (const fact of facts) expect(evolve(once, fact)).toBe(once)
        expect(once.final).toBe(isFinal(once.status))
      }),
      { numRuns: 500 },
    )
  })

  it('keeps the first status of the highest rank, and corrects an expiry by the hub only with a late report', () => {
    fc.assert(
      fc.property(anyFacts, (facts) => {
        const reported = facts.flatMap((fact) => statusOf(fact) ?? [])
        const first = (wanted: (status: Status, reason: ReasonCode | null) => boolean) =>
          reported.findIndex(({ status, reason }) => wanted(status, reason))
        const given = first((_, reason) => reason === 'dlr_timeout_local')
        const ended = first((status, reason) => rank(status, reason) === 3)
        const late = first((status) => status === 'delivered' || status === 'undelivered')
        const place =
          given >= 0 && (ended < 0 || given < ended)
            ? late < 0
              ? given
              : late
            : ended >= 0
              ? ended
              : first((status) => status === 'sent')
        const expected = reported[place] ?? { status: 'accepted', reason: null }
        const state = fold(facts)!
        expect({ status: state.status, reason: state.reason }).toEqual(expected)
      }),
      { numRuns: 500 },
    )
  })
})

describe('the id of a fact', () => {
  const about = { messageId, at: 5 }
  it.each<[string, MessageFact]>([
    ['accepted', accepted],
    ['handover:3:2', { type: 'HandoverStarted', ...about, epoch: 3, attempt: 2, operator: 'http' }],
    ['refused:2', { type: 'HandoverRefused', ...about, attempt: 2, retryAt: 0 }],
    ['sent', { type: 'MessageSent', ...about, operator: 'http', operatorIds: ['a'], reportDeadline: 0 }],
    ['delivered', { type: 'MessageDelivered', ...about }],
    ['undelivered', { type: 'MessageUndelivered', ...about, reason: 'recipient_blocked' }],
    ['rejected', { type: 'MessageRejected', ...about, reason: 'operator_rejected' }],
    ['expired:dlr_timeout_local', { type: 'MessageExpired', ...about, reason: 'dlr_timeout_local' }],
    ['seen', { type: 'MessageSeen', ...about }],
    [
      'carried:5',
      {
        type: 'OpenMessageCarried',
        ...about,
        operator: 'http',
        operatorIds: [],
        class: 'otp',
        attempts: 1,
        sentAt: 0,
        reportDeadline: 0,
      },
    ],
  ])('derives from the message and its step: %s', (step, fact) => {
    expect(stepOf(fact)).toBe(step)
    expect(factIdOf(fact)).toBe(factId(messageId, step))
  })
})

describe('rank', () => {
  it.each([
    ['accepted', null, 0],
    ['sent', null, 1],
    ['expired', 'dlr_timeout_local', 2],
    ['expired', 'dlr_timeout', 3],
    ['expired', 'ttl_expired_before_submit', 3],
    ['delivered', null, 3],
    ['undelivered', 'recipient_blocked', 3],
    ['rejected', 'operator_rejected', 3],
  ] as const)('of %s %s is %i', (status, reason, expected) => {
    expect(rank(status, reason)).toBe(expected)
  })
})

describe('deadlines', () => {
  const sent: LogFact = {
    type: 'MessageSent',
    messageId,
    at: 7,
    operator: 'http',
    operatorIds: [],
    reportDeadline: 300,
  }
  const claim: LogFact = { type: 'HandoverStarted', messageId, at: 5, epoch: 1, attempt: 1, operator: 'http' }

  it('exist while the message is queued or waits for its report', () => {
    expect(deadlineOf(fold([accepted])!)).toBe(100)
    expect(deadlineOf(fold([accepted, claim])!)).toBeNull()
    expect(deadlineOf(fold([accepted, claim, sent])!)).toBe(300)
    expect(
      deadlineOf(fold([accepted, claim, sent, { type: 'MessageDelivered', messageId, at: 9 }])!),
    ).toBeNull()
  })
})

/** The event of a fact that changes a status or reports that a person has seen the message. */
const eventOf = (message: AcceptanceForEvents, fact: MessageFact): MessageEvent | null => {
  if (fact.type === 'MessageSeen') return seenEvent(message)
  // It repeats the status of an open message.
  if (fact.type === 'OpenMessageCarried') return null
  const next = statusOf(fact)
  return next === null ? null : statusEvent(message, next)
}

describe('public events', () => {
  const at = 1_800_000_000_000
  const message = { ...accepted, at, batch: 'bat_01h455vb4pex5vsknk084sn02q' }
  const about = { messageId, at: at + 1 }

  // Rules: EVT-4, EVT-5
  it('contain the fields of the contract and no personal data', () => {
    expect(eventOf(message, message)).toEqual({
      id: expect.stringMatching(/^evt_[0-9a-z]{26}$/),
      type: 'message.accepted',
      object: {
        id: messageId,
        object: 'message',
        status: 'accepted',
        final: false,
        class: 'otp',
        reason_code: null,
        client_ref: 'ref-1',
        batch: 'bat_01h455vb4pex5vsknk084sn02q',
        template: 'otp_code',
        created_at: '2027-01-15T08:00:00.000Z',
        parts: 2,
        price: { amount: '5.00', currency: 'RUB' },
      },
    })
  })

  // Rules: EVT-3, EVT-4, LIM-15
  it.each<[string, LogFact, string, boolean, string | null, string]>([
    [
      'message.sent',
      { type: 'MessageSent', ...about, operator: 'http', operatorIds: [], reportDeadline: 0 },
      'sent',
      false,
      null,
      '5.00',
    ],
    ['message.delivered', { type: 'MessageDelivered', ...about }, 'delivered', true, null, '5.00'],
    [
      'message.undelivered',
      { type: 'MessageUndelivered', ...about, reason: 'recipient_blocked' },
      'undelivered',
      true,
      'recipient_blocked',
      '5.00',
    ],
    [
      'message.rejected',
      { type: 'MessageRejected', ...about, reason: 'spam_filter_sender' },
      'rejected',
      true,
      'spam_filter_sender',
      '0.00',
    ],
    [
      'message.expired',
      { type: 'MessageExpired', ...about, reason: 'dlr_timeout' },
      'expired',
      true,
      'dlr_timeout',
      '5.00',
    ],
    [
      'message.expired',
      { type: 'MessageExpired', ...about, reason: 'dlr_timeout_local' },
      'expired',
      true,
      'dlr_timeout_local',
      '5.00',
    ],
    [
      'message.expired',
      { type: 'MessageExpired', ...about, reason: 'ttl_expired_before_submit' },
      'expired',
      true,
      'ttl_expired_before_submit',
      '0.00',
    ],
    ['message.seen', { type: 'MessageSeen', ...about }, 'delivered', true, null, '5.00'],
  ])('%s', (type, fact, status, final, reason_code, amount) => {
    expect(eventOf(message, fact)).toMatchObject({
      type,
      object: { status, final, reason_code, price: { amount, currency: 'RUB' } },
    })
    expect(EVENT_TYPES).toContain(type)
  })

  // Rules: EVT-3, GEN-3
  it('have the same id on a replay, and another id for a correction', () => {
    const expired: LogFact = { type: 'MessageExpired', ...about, reason: 'dlr_timeout_local' }
    const delivered: LogFact = { type: 'MessageDelivered', ...about }
    const id = (fact: MessageFact) => eventOf(message, fact)!.id
    expect(id(delivered)).toBe(id({ ...delivered, at: at + 99 }))
    expect(id(delivered)).not.toBe(id(expired))
    expect(id(delivered)).not.toBe(eventOf({ ...message, messageId: 'msg_2' }, delivered)!.id)
  })
})

describe('the epoch of a fact', () => {
  const about = { messageId, at: 5 }
  const sent = { type: 'MessageSent', ...about, operator: 'smpp', reportDeadline: 300 } as const

  it('is set if a member derived the fact itself', () => {
    const derived: ReadonlyArray<LogFact> = [
      { type: 'HandoverRefused', ...about, attempt: 1, retryAt: 9 },
      { ...sent, operatorIds: [] },
      { type: 'MessageExpired', ...about, reason: 'ttl_expired_before_submit' },
      { type: 'MessageExpired', ...about, reason: 'dlr_timeout_local' },
    ]
    for (const fact of derived) {
      expect(epochOf(fact)).toBeNull()
      expect(epochOf(withEpoch(fact, 7))).toBe(7)
    }
  })

  it('is not set if the operator reported the fact', () => {
    const reported: ReadonlyArray<LogFact> = [
      { ...sent, operatorIds: ['1'] },
      { type: 'MessageDelivered', ...about },
      { type: 'MessageRejected', ...about, reason: 'operator_rejected' },
      { type: 'MessageExpired', ...about, reason: 'dlr_timeout' },
    ]
    for (const fact of reported) {
      expect(withEpoch(fact, 7)).toEqual(fact)
      expect(epochOf({ ...fact, epoch: 7 } as LogFact)).toBeNull()
    }
  })
})
