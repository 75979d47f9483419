import { assert, describe, it } from '@effect/vitest'
import { type MessageFact, rank } from '@hub/domain'
import fc from 'fast-check'
import {
  acceptedOf,
  account,
  idOf,
  interleave,
  messageHistoryArbitrary,
  mixHistories,
  run,
  T,
  withRepeats,
  streamsArbitrary,
} from '../testing/model.ts'
import { fold, derivedColumns } from './fold.ts'
import { changesOf } from './row.ts'
import { assignSequences } from '../events/journal.ts'

describe('fold', () => {
  it('gives the same rows, events, aggregates and charges for any interleaving, repetition and batching', () => {
    fc.assert(
      fc.property(streamsArbitrary, ({ choices, laneRepeats, histories, logRepeats, mix }) => {
        const lane = [1, 2, 3].map((n) => acceptedOf(idOf(n), T + n))
        const inOrder = run([...lane, ...histories.flat()].map((fact) => [fact]))
        const log = mixHistories(histories, mix)
        const mixed = run(interleave(withRepeats(lane, laneRepeats), withRepeats(log, logRepeats), choices))
        assert.deepStrictEqual(mixed.content(), inOrder.content())
      }),
      { numRuns: 500 },
    )
  })

  it('changes nothing in a complete replay', () => {
    fc.assert(
      fc.property(streamsArbitrary, ({ choices, histories, mix }) => {
        const batches = interleave(
          [1, 2, 3].map((n) => acceptedOf(idOf(n))),
          mixHistories(histories, mix),
          choices,
        )
        const model = run(batches)
        const before = { content: model.content(), recorded: model.journal.length }
        for (const batch of batches) {
          const changes = model.apply(batch)
          assert.deepStrictEqual(
            { ...changes, operatorIds: [] },
            {
              accepted: [],
              updated: [],
              unaccepted: [],
              operatorIds: [],
              events: [],
              batches: [],
              dailyStats: [],
              hourlyStats: [],
              rangeStats: [],
              charges: [],
            },
          )
        }
        assert.deepStrictEqual({ content: model.content(), recorded: model.journal.length }, before)
      }),
      { numRuns: 200 },
    )
  })

  it('returns the events of a message in order, whenever the acceptance arrives', () => {
    fc.assert(
      fc.property(messageHistoryArbitrary(idOf(1)), fc.nat(20), (history, place) => {
        const facts: Array<MessageFact> = [...history]
        facts.splice(Math.min(place, facts.length), 0, acceptedOf(idOf(1)))
        const model = run(facts.map((fact) => [fact]))
        const journaled = model.journal.map(
          ({ body }) => JSON.parse(body) as { type: string; data: { object: never } },
        )
        const ranks = journaled.map(({ data, type }) => {
          const object = data.object as { status: never; reason_code: never }
          return rank(object.status, object.reason_code) + (type === 'message.seen' ? 1 : 0)
        })
        assert.deepStrictEqual(
          ranks,
          ranks.toSorted((a, b) => a - b),
        )
        assert.strictEqual(journaled[0]?.type, 'message.accepted')
      }),
    )
  })

  it('returns no visible row and no event before the acceptance', () => {
    const messageId = idOf(1)
    const model = run([
      [
        { type: 'MessageSent', messageId, at: T, operator: 'http', operatorIds: ['1'], reportDeadline: T },
        { type: 'MessageDelivered', messageId, at: T },
      ],
    ])
    assert.isNull(model.rows.get(messageId)?.subject)
    assert.deepStrictEqual(model.journal, [])
    assert.deepInclude(model.rows.get(messageId), { sentAt: T, timedOutAt: null, finalAt: T })
  })

  it('returns no event for facts that are internal to the hub', () => {
    const about = { messageId: idOf(1), at: T + 1 }
    const internal: ReadonlyArray<MessageFact> = [
      { type: 'HandoverStarted', ...about, epoch: 1, attempt: 1, operator: 'http' },
      { type: 'HandoverRefused', ...about, attempt: 1, retryAt: 0 },
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
    ]
    const { journal } = run([[acceptedOf(idOf(1))], ...internal.map((fact) => [fact])])
    assert.deepStrictEqual(
      journal.map(({ body }) => (JSON.parse(body) as { type: string }).type),
      ['message.accepted'],
    )
  })

  // Rules: MSG-25
  it('keeps the first of two racing final statuses', () => {
    const messageId = idOf(1)
    const facts: ReadonlyArray<MessageFact> = [
      acceptedOf(messageId),
      { type: 'MessageDelivered', messageId, at: T + 1 },
      { type: 'MessageUndelivered', messageId, at: T + 2, reason: 'delivery_failed' },
      { type: 'MessageExpired', messageId, at: T + 3, reason: 'dlr_timeout_local' },
    ]
    const { journal, rows } = run(facts.map((fact) => [fact]))
    assert.strictEqual(rows.get(messageId)?.status, 'delivered')
    assert.strictEqual(rows.get(messageId)?.updatedAt, T + 1)
    assert.deepInclude(rows.get(messageId), { sentAt: null, timedOutAt: null, finalAt: T + 1 })
    assert.strictEqual(journal.length, 2)
  })

  // Rules: MSG-26
  it('lets a late report replace the expiry by the hub once, and removes its reason', () => {
    const messageId = idOf(1)
    const { journal, rows } = run([
      [
        acceptedOf(messageId),
        { type: 'MessageSent', messageId, at: T + 1, operator: 'http', operatorIds: [], reportDeadline: T },
        { type: 'MessageExpired', messageId, at: T + 2, reason: 'dlr_timeout_local' },
      ],
      [{ type: 'MessageDelivered', messageId, at: T + 3 }],
      [{ type: 'MessageUndelivered', messageId, at: T + 4, reason: 'delivery_failed' }],
    ])
    const row = rows.get(messageId)
    assert.isDefined(row)
    assert.deepInclude(row, { status: 'delivered', reason: null })
    assert.deepInclude(derivedColumns(row), { final: true, rank: 3 })
    assert.deepStrictEqual(changesOf(row), [
      { status: 'sent', reason: null, at: T + 1 },
      { status: 'expired', reason: 'dlr_timeout_local', at: T + 2 },
      { status: 'delivered', reason: null, at: T + 3 },
    ])
    assert.strictEqual(journal.length, 4)
  })

  // Rules: LIM-15, LIM-19
  it('charges nothing for unbilled messages, also in their events, and nothing in test mode', () => {
    const messageId = idOf(1)
    for (const facts of [
      [acceptedOf(messageId), { type: 'MessageRejected', messageId, at: T + 1, reason: 'operator_rejected' }],
      [
        { type: 'MessageExpired', messageId, at: T + 1, reason: 'ttl_expired_before_submit' },
        acceptedOf(messageId),
      ],
      [
        { ...acceptedOf(messageId), mode: 'test' },
        { type: 'MessageDelivered', messageId, at: T + 1 },
      ],
    ] as ReadonlyArray<ReadonlyArray<MessageFact>>) {
      const changes = fold(new Map(), facts)
      const row = changes.accepted[0]?.row
      assert.isDefined(row)
      assert.deepStrictEqual(derivedColumns(row).price, { amount: '0.00', currency: 'RUB' })
      assert.deepInclude(changes.events.at(-1)?.event.object, {
        price: { amount: '0.00', currency: 'RUB' },
      })
    }
    const billed = fold(new Map(), [
      acceptedOf(messageId),
      { type: 'MessageDelivered', messageId, at: T + 1 },
    ])
    assert.deepInclude(billed.events.at(-1)?.event.object, { price: { amount: '4.00', currency: 'RUB' } })
  })

  // Rules: MSG-22
  it('counts as attempts the claims after which a request left for the operator', () => {
    const messageId = idOf(1)
    const claim = (attempt: number, unsubmitted: number | null = null): MessageFact => ({
      type: 'HandoverStarted',
      messageId,
      at: T + attempt,
      epoch: 1,
      attempt,
      operator: 'http',
      unsubmitted,
    })
    const refusal = (attempt: number, unsubmitted: number | null): MessageFact => ({
      type: 'HandoverRefused',
      messageId,
      at: T + 10 + attempt,
      attempt,
      retryAt: T,
      unsubmitted,
    })
    const sent: MessageFact = {
      type: 'MessageSent',
      messageId,
      at: T + 100,
      operator: 'http',
      operatorIds: ['1'],
      reportDeadline: T + 200,
    }
    const attemptsOf = (facts: ReadonlyArray<MessageFact>) =>
      fold(new Map(), facts).unaccepted[0]?.attempts ?? null
    // Facts of older versions. A claim counts when its outcome or a later claim is known.
    assert.strictEqual(attemptsOf([claim(1), claim(2), claim(1)]), 1)
    assert.strictEqual(attemptsOf([claim(1), claim(2), claim(1), sent, sent]), 2)
    assert.strictEqual(attemptsOf([claim(1), refusal(1, null)]), 1)
    const story = [claim(1), refusal(1, 1), claim(2, 1), refusal(2, 1), claim(3, 1), refusal(3, 2)]
    for (const [length, attempts] of [0, 0, 0, 1, 1, 1].entries()) {
      const facts = story.slice(0, length + 1)
      assert.strictEqual(attemptsOf(facts), attempts, `after ${length + 1} facts`)
      // Repetitions of older facts change nothing.
      assert.strictEqual(attemptsOf([...facts, ...facts.slice(0, -1)]), attempts, `repeated ${length + 1}`)
    }
    assert.strictEqual(attemptsOf([...story, claim(4, 2), sent, claim(4, 2), refusal(3, 2)]), 2)
    const [row] = fold(new Map(), story.slice(0, 3)).unaccepted
    assert.isDefined(row)
    assert.deepInclude(row, { attempts: 0, claims: 2, claimOpen: true, updatedAt: 0 })
    // The next transaction continues from the stored row.
    const [next] = fold(new Map([[messageId, row]]), [claim(1), sent]).unaccepted
    assert.deepInclude(next, { attempts: 1, claims: 2, claimOpen: false, updatedAt: T + 100 })
  })
})

describe('assignSequences', () => {
  it('numbers events densely after the head, and leaves out recorded events', () => {
    const { events } = fold(new Map(), [acceptedOf(idOf(1)), acceptedOf(idOf(2)), acceptedOf(idOf(3))])
    const head = { account, mode: 'live', sequence: 41, recordedAt: T, subscribed: true } as const
    const second = events[1]
    assert.isDefined(second)
    const assigned = assignSequences([...events, second], [head], new Set([second.event.id]))
    assert.deepStrictEqual(
      assigned.events.map(({ sequence }) => sequence),
      [42, 43],
    )
    assert.strictEqual(assigned.heads[0]?.sequence, 43)
    assert.deepStrictEqual(JSON.parse(assigned.events[0]?.body ?? ''), {
      id: events[0]?.event.id,
      object: 'event',
      type: 'message.accepted',
      created_at: '2026-11-21T00:00:00.000Z',
      mode: 'live',
      data: {
        object: {
          id: idOf(1),
          object: 'message',
          status: 'accepted',
          final: false,
          class: 'service',
          reason_code: null,
          client_ref: 'order-1',
          batch: null,
          template: 'order_ready',
          created_at: '2026-11-21T00:00:00.000Z',
          parts: 2,
          price: { amount: '4.00', currency: 'RUB' },
        },
      },
    })
  })
})
