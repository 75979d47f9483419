/** Lists and pages, events, statistics. */
import { describe, expect, it } from 'vitest'
import { eventually } from '@hub/testkit'
import { send } from '../../support/client.ts'
import { freshNumber } from '../../support/hub-admin.ts'
import { aMoment, anId, errorOf, type Section, untilFinal } from './fixture.ts'

/** Returns the UTC date at an offset in days from today. */
const day = (offset: number): string => new Date(Date.now() + offset * 86_400_000).toISOString().slice(0, 10)

export const reads: Section = (fixture) => {
  describe('Lists and pagination', () => {
    const lists = ['/v1/events', '/v1/webhook_endpoints', '/v1/templates', '/v1/senders'] as const
    const largest = { '/v1/events': 1000 } as Readonly<Record<string, number>>

    // Rules: LIST-1, LIST-5
    it.each(lists)('%s returns the list envelope', async (path) => {
      const { admin } = fixture()
      const account = await admin.createAccount()
      const { body, status } = await account.test.get(path)
      expect(status).toBe(200)
      expect(new Set(Object.keys(body))).toEqual(new Set(['object', 'data', 'has_more', 'next_cursor']))
      expect([body.object, body.has_more]).toEqual(['list', false])
      expect(body.next_cursor).toBe(body.data.at(-1)?.id ?? null)
    })

    // Rules: LIST-2, LIST-3, LIST-6, ERR-17
    it.each(lists)('%s limits the page size and validates the cursor', async (path) => {
      const { test } = await fixture().admin.createAccount()
      const max = largest[path] ?? 100
      for (const limit of ['0', '-1', String(max + 1), 'ten', '1.5', '', '1e1', '%201']) {
        expect(errorOf(await test.get(`${path}?limit=${limit}`)), limit).toEqual([
          422,
          'invalid_parameter',
          'limit',
        ])
      }
      for (const limit of [1, max]) expect((await test.get(`${path}?limit=${limit}`)).status).toBe(200)
      expect(errorOf(await test.get(`${path}?starting_after=nothing`))).toEqual([
        404,
        'not_found',
        'starting_after',
      ])
    })

    // Rules: LIST-5
    it('an empty page returns the given cursor', async () => {
      const { test } = await fixture().admin.createAccount()
      const { data } = (await test.get('/v1/senders')).body
      const last = data.at(-1).id
      const { body } = await test.get(`/v1/senders?starting_after=${last}`)
      expect(body).toEqual({ object: 'list', data: [], has_more: false, next_cursor: last })
    })
  })

  describe('Events', () => {
    // Rules: EVT-1, EVT-3, EVT-6, EVT-10, EVT-11, EVT-12, LIST-4, LIST-9, GEN-4
    it('are returned in recording order, by cursor, by time and by type', async () => {
      const { admin } = fixture()
      const { live, test } = await admin.createAccount()
      const ids = await Promise.all(
        Array.from(
          { length: 5 },
          async () => (await test.post('/v1/messages', send('otp', freshNumber()))).body.id,
        ),
      )
      for (const id of ids) await untilFinal(test, id)
      const all = (await test.get('/v1/events?limit=1000')).body.data
      expect(all).toHaveLength(15)
      for (const event of all) {
        expect(event).toEqual({
          id: anId('evt'),
          object: 'event',
          type: expect.stringMatching(/^message\.(?:accepted|sent|delivered)$/u),
          created_at: aMoment(),
          mode: 'test',
          data: { object: expect.objectContaining({ object: 'message' }) },
        })
        expect(Object.keys(event.data.object)).not.toContain('to')
      }
      const times = all.map((event: any) => event.created_at)
      expect(times).toEqual(times.toSorted())
      expect(new Set(all.map((event: any) => event.id)).size).toBe(15)
      // By cursor.
      const page = await test.get(`/v1/events?limit=4&starting_after=${all[3].id}`)
      expect(page.body.data).toEqual(all.slice(4, 8))
      expect(page.body).toMatchObject({ has_more: true, next_cursor: all[7].id })
      const end = await test.get(`/v1/events?starting_after=${all[14].id}`)
      expect(end.body).toEqual({ object: 'list', data: [], has_more: false, next_cursor: all[14].id })
      // By time, exclusively.
      const since = (await test.get(`/v1/events?limit=1000&created_after=${times[7]}`)).body.data
      expect(since).toEqual(all.filter((event: any) => event.created_at > times[7]))
      // By type.
      const some = await test.get('/v1/events?limit=1000&type=message.sent&type=message.delivered')
      expect(some.body.data).toEqual(all.filter((event: any) => event.type !== 'message.accepted'))
      // Only events of this account and mode.
      expect((await live.get('/v1/events')).body.data).toEqual([])
      expect((await live.get(`/v1/events?starting_after=${all[0].id}`)).status).toBe(404)
    })

    // Rules: EVT-12, GEN-5, LIST-8
    it.each([
      ['type=message.eaten', 'type'],
      ['created_after=yesterday', 'created_after'],
      ['created_after=2026-01-01', 'created_after'],
      ['created_after=2026-01-01T00:00:00Z', 'created_after'],
      ['created_after=2026-02-30T00:00:00.000Z', 'created_after'],
    ])('%s is refused', async (query, param) => {
      const { test } = await fixture().admin.createAccount()
      expect(errorOf(await test.get(`/v1/events?${query}`))).toEqual([422, 'invalid_parameter', param])
    })

    // Rules: LIST-7
    it('two cursors at once are refused', async () => {
      const { test } = await fixture().admin.createAccount()
      const answer = await test.get('/v1/events?created_after=2026-01-01T00:00:00.000Z&starting_after=evt_x')
      expect(errorOf(answer).slice(0, 2)).toEqual([422, 'invalid_parameter'])
    })
  })

  describe('Stats', () => {
    // Rules: STAT-1, STAT-2, STAT-4, STAT-5, STAT-8
    it('returns the counts of a period by day, hour, class, template, reason code or number range', async () => {
      const { live, test } = await fixture().admin.createAccount()
      const began = day(0)
      const ids: Array<string> = []
      for (const [kind, to] of [
        ['otp', '+79000000001'],
        ['otp', '+79000000002'],
        ['service', '+79000000001'],
        ['service', '+79000000005'],
        ['service', '+79000000007'],
      ] as const) {
        ids.push((await test.post('/v1/messages', send(kind, to))).body.id)
      }
      for (const id of ids) await untilFinal(test, id)
      const totals = {
        accepted: 5,
        sent: 4,
        delivered: 2,
        undelivered: 1,
        rejected: 1,
        expired: 1,
        parts: 5,
        price: { amount: '0.00', currency: 'RUB' },
      }
      // A run around midnight counts on two days.
      const range = `from=${began}&to=${day(0)}`
      const plain = await eventually(
        async () => {
          const answer = await test.get(`/v1/stats?${range}`)
          expect(answer.body.totals).toEqual(totals)
          return answer
        },
        { everyMs: 100 },
      )
      expect(plain.body).toEqual({ object: 'stats', from: began, to: day(0), totals, data: [] })
      const byClass = (await test.get(`/v1/stats?${range}&group_by=class`)).body
      expect(byClass.totals).toEqual(totals)
      expect(new Map(byClass.data.map((row: any) => [row.class, row.accepted]))).toEqual(
        new Map([
          ['otp', 2],
          ['service', 3],
        ]),
      )
      const byTemplate = (await test.get(`/v1/stats?${range}&group_by=template`)).body
      expect(byTemplate.data.map((row: any) => row.template).toSorted()).toEqual(
        ['otp_code', 'order_ready'].toSorted(),
      )
      const byDay = (await test.get(`/v1/stats?${range}&group_by=day`)).body
      expect(byDay.data.reduce((sum: number, row: any) => sum + row.accepted, 0)).toBe(5)
      expect(byDay.data[0].day).toBe(began)
      const byHour = (await test.get(`/v1/stats?${range}&group_by=hour`)).body
      expect(byHour.totals).toEqual(totals)
      expect(byHour.data.reduce((sum: number, row: any) => sum + row.accepted, 0)).toBe(5)
      const byReason = (await test.get(`/v1/stats?${range}&group_by=reason_code`)).body
      expect(byReason.totals).toEqual(totals)
      expect(byReason.data[0]).toMatchObject({ reason_code: null, delivered: totals.delivered })
      const byRange = (await test.get(`/v1/stats?${range}&group_by=range`)).body
      expect(byRange.totals).toEqual(totals)
      expect(byRange.data).toEqual([{ range: '900', ...totals }])
      // The default period is the current month until today. The other mode is not included.
      const usual = (await test.get('/v1/stats')).body
      expect([usual.from, usual.to]).toEqual([`${day(0).slice(0, 7)}-01`, day(0)])
      expect((await live.get('/v1/stats')).body.totals.accepted).toBe(0)
      expect((await test.get('/v1/stats?from=2020-01-01&to=2020-12-31')).body.totals.accepted).toBe(0)
    })

    // Rules: STAT-4
    it('returns the cost of live messages without unbilled ones', async () => {
      const { live } = await fixture().admin.createAccount()
      const { body } = await live.post('/v1/messages', send('otp', freshNumber()))
      await untilFinal(live, body.id)
      await eventually(
        async () => {
          const { totals } = (await live.get('/v1/stats')).body
          expect(totals).toMatchObject({ delivered: 1, price: { amount: '2.50', currency: 'RUB' } })
          return true
        },
        { everyMs: 100 },
      )
    })

    it.each([
      ['from=2026-02-30', 'from'],
      ['from=yesterday', 'from'],
      ['to=2026-1-1', 'to'],
      ['group_by=month', 'group_by'],
    ])('%s is refused', async (query, param) => {
      const { test } = await fixture().admin.createAccount()
      expect(errorOf(await test.get(`/v1/stats?${query}`))).toEqual([422, 'invalid_parameter', param])
    })

    // Rules: STAT-3
    it.each(['from=2026-02-02&to=2026-02-01', 'from=2024-01-01&to=2025-01-01'])(
      'the period %s is refused',
      async (query) => {
        const { test } = await fixture().admin.createAccount()
        expect(errorOf(await test.get(`/v1/stats?${query}`)).slice(0, 2)).toEqual([422, 'invalid_parameter'])
      },
    )

    // Rules: STAT-3
    it('accepts a period of 366 days', async () => {
      const { test } = await fixture().admin.createAccount()
      expect((await test.get('/v1/stats?from=2024-01-01&to=2024-12-31')).status).toBe(200)
    })
  })
}
