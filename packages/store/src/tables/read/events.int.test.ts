import { randomUUID } from 'node:crypto'
import { assert, describe, it } from '@effect/vitest'
import { encodeId, envelopeOf, type PublicEvent, seenEvent, statusEvent } from '@hub/domain'
import { freshDatabase } from '@hub/testkit'
import { Effect, Layer, Redacted } from 'effect'
import { afterAll } from 'vitest'
import { makeSql, ReadEvents, Sql, uuidOf } from '../../index.ts'

const { drop, url } = await freshDatabase()
afterAll(drop)
const layer = Layer.effect(Sql, makeSql(Redacted.make(url), 2, 'events-test'))

const AT = Date.now() - 60_000
describe('the event journal', () => {
  it.effect('finds the first event after a moment, also if the oldest months are deleted', () =>
    Effect.gen(function* () {
      const sql = yield* Sql
      const owner = { account: randomUUID(), mode: 'live' } as const
      const empty = yield* sql.run((q) => ReadEvents.positionBefore(q, owner, AT))
      assert.isNull(empty)
      yield* sql.run(
        (q) => q`SELECT command.ensure_months('read.event_journal', now() - interval '3 months', 4)`,
      )
      // Each two events have one time. They are from three months, and the first ten are deleted.
      const times = Array.from(
        { length: 60 },
        (_, index) => AT - (60 - (index - (index % 2))) * 36 * 3_600_000,
      )
      const events = times.map((createdAt, index) => ({
        ...owner,
        sequence: index + 1,
        id: randomUUID(),
        type: 'message.sent',
        createdAt,
        body: '{}',
      }))
      const left = events.slice(10)
      yield* sql.run((q) => ReadEvents.insert(q, left))
      for (const moment of [0, ...times.flatMap((at) => [at - 1, at]), Date.now()]) {
        const position = yield* sql.run((q) => ReadEvents.positionBefore(q, owner, moment))
        assert.isNotNull(position)
        const page = yield* sql.run((q) =>
          ReadEvents.readRange(q, owner, {
            afterSequence: Number(position!.sequence),
            createdUntil: new Date(),
            limit: 100,
          }),
        )
        assert.deepStrictEqual(
          page.map(({ id }) => id),
          left.filter(({ createdAt }) => createdAt > moment).map(({ id }) => id),
        )
      }
    }).pipe(Effect.provide(layer)),
  )

  it.effect('has the same texts for its readers, for people, and for programs of an earlier version', () =>
    Effect.gen(function* () {
      const sql = yield* Sql
      const owner = { account: randomUUID(), mode: 'test' } as const
      const subject = {
        messageId: encodeId('msg', randomUUID()),
        at: AT - 12,
        class: 'service',
        clientRef: null,
        batch: null,
        template: 'order_ready',
        parts: 1,
        price: { amount: '1.50', currency: 'RUB' },
      } as const
      const batch = encodeId('bat', randomUUID())
      const message = [
        statusEvent(subject, { status: 'accepted', reason: null }),
        statusEvent({ ...subject, clientRef: 'a "\\" \t é 😀' }, { status: 'sent', reason: null }),
        statusEvent({ ...subject, batch, at: 0 }, { status: 'delivered', reason: null }),
        statusEvent({ ...subject, class: 'otp' }, { status: 'expired', reason: 'ttl_expired_before_submit' }),
        seenEvent(subject),
      ]
      const other = {
        id: encodeId('evt', randomUUID()),
        type: 'recipient.opted_out',
        object: { batch },
      } as const
      const recorded: ReadonlyArray<PublicEvent> = [...message, other]
      const events = recorded.map((event, index) => ({
        ...owner,
        sequence: index + 1,
        id: uuidOf('evt', event.id),
        type: event.type,
        createdAt: AT,
        body: JSON.stringify(envelopeOf(event, { recordedAt: AT, mode: owner.mode })),
      }))
      const texts = events.map(({ body }) => body)
      yield* sql.run((q) => ReadEvents.insert(q, events))
      const rows = yield* sql.run(
        (q) => q<{ body: string }[]>`
        SELECT body FROM read.event_journal WHERE account = ${owner.account} ORDER BY sequence`,
      )
      assert.deepStrictEqual(
        rows.map(({ body }) => body.startsWith('{')),
        [...message.map(() => false), true],
      )
      // As a projector of an earlier version records an event.
      const old = { ...events[0]!, sequence: 7, id: randomUUID() }
      yield* sql.run(
        (q) => q`INSERT INTO read.events (account, mode, sequence, id, type, created_at, body)
                 VALUES (${old.account}, ${old.mode}, 7, ${old.id}, ${old.type}, ${new Date(AT)}, ${old.body})`,
      )
      texts.push(old.body)
      const viewed = yield* sql.run(
        (q) => q<{ body: string }[]>`
        SELECT body FROM read.events WHERE account = ${owner.account} ORDER BY sequence`,
      )
      assert.deepStrictEqual(
        viewed.map(({ body }) => body),
        texts,
      )
      const ids = [...events, old].map(({ id }) => id)
      const start = { sequence: '0', at: new Date(0) }
      for (const selection of [
        { by: 'type', types: [] },
        { by: 'id', ids },
      ] as const) {
        const page = yield* sql.run((q) => ReadEvents.readPage(q, owner, start, 6, selection))
        assert.strictEqual(Buffer.from(page.texts).toString(), texts.slice(0, 6).join(','))
        assert.deepStrictEqual([page.lastId, page.hasMore], [ids[5]!, true])
      }
      // Another journal has events of the same types.
      const others = events.map((event) => ({ ...event, mode: 'live' as const, id: randomUUID() }))
      yield* sql.run((q) => ReadEvents.insert(q, others))
      const ofTypes = { by: 'type', types: ['recipient.opted_out', 'message.sent'] } as const
      const some = yield* sql.run((q) => ReadEvents.readPage(q, owner, start, 6, ofTypes))
      assert.strictEqual(Buffer.from(some.texts).toString(), `${texts[1]},${texts[5]}`)
      const all = { afterSequence: 0, createdUntil: new Date(), limit: 100 }
      const range = yield* sql.run((q) => ReadEvents.readRange(q, owner, all))
      assert.deepStrictEqual(
        range.map(({ body }) => body),
        texts,
      )
      assert.deepStrictEqual(
        yield* sql.run((q) => ReadEvents.readBodies(q, owner, ids.toReversed())),
        texts.toReversed(),
      )
      for (const [index, id] of ids.entries()) {
        const event = yield* sql.run((q) => ReadEvents.read(q, id))
        assert.strictEqual(event?.body, texts[index])
      }
    }).pipe(Effect.provide(layer)),
  )
})
