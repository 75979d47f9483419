import { assert, describe, it } from '@effect/vitest'
import { encodeId, type LogFact, type MessageAccepted, type MessageFact, rank } from '@hub/domain'
import fc from 'fast-check'
import { type Changes, fold, type HistoryLine, shown } from './fold.ts'
import type { MessageRow } from './row.ts'
import { placeEvents } from './transaction.ts'

const idOf = (n: number) => encodeId('msg', `0193a1b2-0000-7000-8000-${n.toString(16).padStart(12, '0')}`)
const account = encodeId('acc', '0193a1b2-0000-7000-8000-00000000acc0')
const T = Date.UTC(2026, 10, 21)

const acceptedOf = (messageId: string, at = T): MessageAccepted => ({
  type: 'MessageAccepted',
  messageId,
  at,
  account,
  mode: 'live',
  class: 'service',
  recipient: 'ab'.repeat(32),
  template: 'order_ready',
  sender: 'HUB',
  clientRef: 'order-1',
  batch: null,
  parts: 2,
  price: { amount: '4.00', currency: 'RUB' },
  variables: ['order'],
  expiresAt: T + 86_400_000,
  sealingKey: 'service-1',
  sealed: new Uint8Array([1]),
  republished: false,
})

/** What PostgreSQL would hold, polls applied one after the other. */
const makeModel = () => {
  const rows = new Map<string, MessageRow>()
  const history = new Map<string, HistoryLine>()
  const operatorIds = new Set<string>()
  const journal: Array<{ readonly id: string; readonly sequence: number; readonly body: string }> = []
  return {
    rows,
    history,
    operatorIds,
    journal,
    apply: (facts: ReadonlyArray<MessageFact>): Changes => {
      const stored = new Map(
        [...rows].map(([id, row]) => [
          id,
          {
            ...row,
            waiting:
              row.subject === null
                ? [...history.values()]
                    .filter((line) => line.messageId === id && line.status !== 'accepted')
                    .reverse()
                : [],
          },
        ]),
      )
      const changes = fold(stored, facts)
      for (const row of [...changes.accepted.map((a) => a.row), ...changes.updated, ...changes.unaccepted]) {
        rows.set(row.messageId, row)
      }
      for (const line of changes.history) {
        const key = `${line.messageId} ${line.factId}`
        if (!history.has(key)) history.set(key, line)
      }
      for (const { messageId, operator, operatorId } of changes.operatorIds) {
        operatorIds.add(`${operator} ${operatorId} ${messageId}`)
      }
      const { events } = placeEvents(
        changes.events,
        [{ account, mode: 'live', sequence: journal.length, recordedAt: T }],
        new Set(journal.map((event) => event.id)),
      )
      journal.push(...events)
      return changes
    },
    /** All of it, without what the order of arrival may decide: the places in the journal. */
    content: () => ({
      rows: [...rows.values()]
        .map((row) => ({ ...row, ...shown(row), waiting: [] }))
        .sort((a, b) => (a.messageId < b.messageId ? -1 : 1)),
      history: [...history.values()].sort((a, b) =>
        a.messageId + a.factId < b.messageId + b.factId ? -1 : 1,
      ),
      operatorIds: [...operatorIds].sort(),
      events: journal.map(({ body }) => body).sort(),
    }),
  }
}

const run = (polls: ReadonlyArray<ReadonlyArray<MessageFact>>) => {
  const model = makeModel()
  for (const poll of polls) model.apply(poll)
  return model
}

/** A life as the log tells it, in order. */
const lifeArbitrary = (messageId: string): fc.Arbitrary<ReadonlyArray<LogFact>> =>
  fc
    .record({
      refusals: fc.integer({ min: 0, max: 2 }),
      carried: fc.boolean(),
      end: fc.constantFrom(
        'queued',
        'sent',
        'delivered',
        'undelivered',
        'rejected at hand-over',
        'rejected by report',
        'operator gave up',
        'silent',
        'silent, then delivered',
        'silent, then undelivered',
        'never handed over',
        'seen',
      ),
    })
    .map(({ carried, end, refusals }) => {
      let at = T
      const next = () => (at += 10)
      const facts: Array<LogFact> = []
      for (let attempt = 1; attempt <= refusals; attempt++) {
        facts.push({ type: 'HandoverStarted', messageId, at: next(), epoch: 1, attempt, operator: 'http' })
        facts.push({ type: 'HandoverRefused', messageId, at: next(), attempt, retryAt: at + 5 })
      }
      if (end === 'queued') return facts
      if (end === 'never handed over') {
        return [
          ...facts,
          { type: 'MessageExpired', messageId, at: next(), reason: 'ttl_expired_before_submit' },
        ]
      }
      facts.push({
        type: 'HandoverStarted',
        messageId,
        at: next(),
        epoch: 1,
        attempt: refusals + 1,
        operator: 'http',
      })
      if (end === 'rejected at hand-over') {
        return [...facts, { type: 'MessageRejected', messageId, at: next(), reason: 'spam_filter_content' }]
      }
      facts.push({
        type: 'MessageSent',
        messageId,
        at: next(),
        operator: 'http',
        operatorIds: [`${messageId}-1`, `${messageId}-2`],
        reportDeadline: at + 100,
      })
      if (carried) {
        facts.push({
          type: 'OpenMessageCarried',
          messageId,
          at: next(),
          operator: 'http',
          operatorIds: [`${messageId}-1`, `${messageId}-2`],
          class: 'service',
          attempts: refusals + 1,
          sentAt: T,
          reportDeadline: at + 100,
        })
      }
      switch (end) {
        case 'sent':
          break
        case 'undelivered':
          facts.push({ type: 'MessageUndelivered', messageId, at: next(), reason: 'recipient_blocked' })
          break
        case 'rejected by report':
          facts.push({ type: 'MessageRejected', messageId, at: next(), reason: 'spam_filter_sender' })
          break
        case 'operator gave up':
          facts.push({ type: 'MessageExpired', messageId, at: next(), reason: 'dlr_timeout' })
          break
        case 'delivered':
          facts.push({ type: 'MessageDelivered', messageId, at: next() })
          break
        case 'seen':
          facts.push({ type: 'MessageDelivered', messageId, at: next() })
          facts.push({ type: 'MessageSeen', messageId, at: next() })
          break
        default:
          facts.push({ type: 'MessageExpired', messageId, at: next(), reason: 'dlr_timeout_local' })
          if (end === 'silent, then delivered')
            facts.push({ type: 'MessageDelivered', messageId, at: next() })
          if (end === 'silent, then undelivered') {
            facts.push({ type: 'MessageUndelivered', messageId, at: next(), reason: 'delivery_failed' })
          }
      }
      return facts
    })

/** Lets facts come again behind their first time; a repeat may have been stamped later. */
const withRepeats = <F extends MessageFact>(
  facts: ReadonlyArray<F>,
  repeats: ReadonlyArray<readonly [number, number]>,
) => {
  const out = [...facts]
  for (const [which, distance] of repeats) {
    if (out.length === 0) break
    const from = which % out.length
    const fact = out[from]
    if (fact !== undefined)
      out.splice(Math.min(out.length, from + 1 + distance), 0, { ...fact, at: fact.at + 1 })
  }
  return out
}

/** Merges two streams, each in its order, as `choices` says, and cuts the result into polls. */
const interleave = (
  lane: ReadonlyArray<MessageFact>,
  log: ReadonlyArray<MessageFact>,
  choices: ReadonlyArray<readonly [boolean, boolean]>,
) => {
  const polls: Array<Array<MessageFact>> = [[]]
  let [l, g] = [0, 0]
  for (let i = 0; l < lane.length || g < log.length; i++) {
    const [fromLane, cut] = choices[i % choices.length] ?? [true, false]
    const fact = (fromLane && l < lane.length) || g >= log.length ? lane[l++] : log[g++]
    if (fact !== undefined) polls.at(-1)?.push(fact)
    if (cut) polls.push([])
  }
  return polls
}

const repeatsArbitrary = fc.array(fc.tuple(fc.nat(50), fc.nat(20)), { maxLength: 8 })
const worldArbitrary = fc.record({
  lives: fc.tuple(lifeArbitrary(idOf(1)), lifeArbitrary(idOf(2)), lifeArbitrary(idOf(3))),
  mix: fc.array(fc.nat(2), { minLength: 1, maxLength: 12 }),
  laneRepeats: repeatsArbitrary,
  logRepeats: repeatsArbitrary,
  choices: fc.array(fc.tuple(fc.boolean(), fc.boolean()), { minLength: 1, maxLength: 30 }),
})

/** The lives of several messages in one log, each in its order. */
const mixLives = (lives: ReadonlyArray<ReadonlyArray<LogFact>>, mix: ReadonlyArray<number>) => {
  const rest = lives.map((life) => [...life])
  const log: Array<LogFact> = []
  for (let i = 0; rest.some((life) => life.length > 0); i++) {
    const wanted = rest[mix[i % mix.length] ?? 0]
    const life = wanted !== undefined && wanted.length > 0 ? wanted : rest.find((other) => other.length > 0)
    const fact = life?.shift()
    if (fact !== undefined) log.push(fact)
  }
  return log
}

describe('folding a poll', () => {
  it('gives the same rows, history and events however lanes and log are interleaved, repeated and cut', () => {
    fc.assert(
      fc.property(worldArbitrary, ({ choices, laneRepeats, lives, logRepeats, mix }) => {
        const lane = [1, 2, 3].map((n) => acceptedOf(idOf(n), T + n))
        const inOrder = run([...lane, ...lives.flat()].map((fact) => [fact]))
        const log = mixLives(lives, mix)
        const mixed = run(interleave(withRepeats(lane, laneRepeats), withRepeats(log, logRepeats), choices))
        assert.deepStrictEqual(mixed.content(), inOrder.content())
      }),
      { numRuns: 500 },
    )
  })

  it('changes nothing when everything is read again from the beginning', () => {
    fc.assert(
      fc.property(worldArbitrary, ({ choices, lives, mix }) => {
        const polls = interleave(
          [1, 2, 3].map((n) => acceptedOf(idOf(n))),
          mixLives(lives, mix),
          choices,
        )
        const model = run(polls)
        const before = { content: model.content(), recorded: model.journal.length }
        for (const poll of polls) {
          const changes = model.apply(poll)
          assert.deepStrictEqual(
            [changes.accepted, changes.updated, changes.unaccepted, changes.history, changes.events],
            [[], [], [], [], []],
          )
        }
        assert.deepStrictEqual({ content: model.content(), recorded: model.journal.length }, before)
      }),
      { numRuns: 200 },
    )
  })

  it('tells the events of a message in the order of its life, whenever the acceptance comes', () => {
    fc.assert(
      fc.property(lifeArbitrary(idOf(1)), fc.nat(20), (life, place) => {
        const facts: Array<MessageFact> = [...life]
        facts.splice(Math.min(place, facts.length), 0, acceptedOf(idOf(1)))
        const model = run(facts.map((fact) => [fact]))
        const told = model.journal.map(
          ({ body }) => JSON.parse(body) as { type: string; data: { object: never } },
        )
        const ranks = told.map(({ data, type }) => {
          const object = data.object as { status: never; reason_code: never }
          return rank(object.status, object.reason_code) + (type === 'message.seen' ? 1 : 0)
        })
        assert.deepStrictEqual(
          ranks,
          ranks.toSorted((a, b) => a - b),
        )
        assert.strictEqual(told[0]?.type, 'message.accepted')
      }),
    )
  })

  it('shows nothing and tells nothing of a message whose acceptance has not come', () => {
    const messageId = idOf(1)
    const model = run([
      [
        { type: 'MessageSent', messageId, at: T, operator: 'http', operatorIds: ['1'], reportDeadline: T },
        { type: 'MessageDelivered', messageId, at: T },
      ],
    ])
    assert.isNull(model.rows.get(messageId)?.subject)
    assert.deepStrictEqual(model.journal, [])
    assert.strictEqual(model.history.size, 2)
  })

  it('keeps the first of two final statuses that race', () => {
    const messageId = idOf(1)
    const facts: ReadonlyArray<MessageFact> = [
      acceptedOf(messageId),
      { type: 'MessageDelivered', messageId, at: T + 1 },
      { type: 'MessageUndelivered', messageId, at: T + 2, reason: 'delivery_failed' },
      { type: 'MessageExpired', messageId, at: T + 3, reason: 'dlr_timeout_local' },
    ]
    const { history, journal, rows } = run(facts.map((fact) => [fact]))
    assert.strictEqual(rows.get(messageId)?.status, 'delivered')
    assert.strictEqual(rows.get(messageId)?.updatedAt, T + 1)
    assert.strictEqual(history.size, 2)
    assert.strictEqual(journal.length, 2)
  })

  it('corrects our own deadline once, by a late report, and drops its reason', () => {
    const messageId = idOf(1)
    const { history, journal, rows } = run([
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
    assert.deepInclude(shown(row), { final: true, rank: 3 })
    assert.deepStrictEqual(
      [...history.values()].map(({ status }) => status),
      ['accepted', 'sent', 'expired', 'delivered'],
    )
    assert.strictEqual(journal.length, 4)
  })

  it('charges nothing for what was never billed, also in its event, and nothing at all in test mode', () => {
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
      assert.deepStrictEqual(shown(row).price, { amount: '0.00', currency: 'RUB' })
      assert.deepStrictEqual(changes.events.at(-1)?.event.object.price, { amount: '0.00', currency: 'RUB' })
    }
    const billed = fold(new Map(), [
      acceptedOf(messageId),
      { type: 'MessageDelivered', messageId, at: T + 1 },
    ])
    assert.deepStrictEqual(billed.events.at(-1)?.event.object.price, { amount: '4.00', currency: 'RUB' })
  })

  it('counts attempts by claims', () => {
    const messageId = idOf(1)
    const claim = (attempt: number): MessageFact => ({
      type: 'HandoverStarted',
      messageId,
      at: T,
      epoch: 1,
      attempt,
      operator: 'http',
    })
    assert.strictEqual(fold(new Map(), [claim(1), claim(2), claim(1)]).unaccepted[0]?.attempts, 2)
  })
})

describe('placing events', () => {
  it('numbers densely behind the head and leaves out what is recorded', () => {
    const { events } = fold(new Map(), [acceptedOf(idOf(1)), acceptedOf(idOf(2)), acceptedOf(idOf(3))])
    const head = { account, mode: 'live', sequence: 41, recordedAt: T } as const
    const second = events[1]
    assert.isDefined(second)
    const placed = placeEvents([...events, second], [head], new Set([second.event.id]))
    assert.deepStrictEqual(
      placed.events.map(({ sequence }) => sequence),
      [42, 43],
    )
    assert.strictEqual(placed.heads[0]?.sequence, 43)
    assert.deepStrictEqual(JSON.parse(placed.events[0]?.body ?? ''), {
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
