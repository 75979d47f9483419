/** Rules of POST /v1/messages/batch, GET /v1/batches/{id}, and the messages of a batch. */
import { describe, expect, it } from 'vitest'
import { eventually } from '@hub/testkit'
import { type Client, send } from '../../support/client.ts'
import { freshNumber } from '../../support/hub-admin.ts'
import { aMoment, anId, eventsOf, errorOf, type Section } from './fixture.ts'

export const element = (clientRef: string, over: Record<string, unknown> = {}): Record<string, unknown> => ({
  ...send('service', '+79000000001', clientRef),
  ...over,
})

export const post = (apiClient: Client, elements: unknown, headers: Record<string, string> = {}) =>
  apiClient.post('/v1/messages/batch', { messages: elements }, headers)

const NOTHING = { total: 0, accepted: 0, duplicate: 0, rejected: 0, delivered: 0, undelivered: 0, expired: 0 }

/** Waits until a batch is closed and returns it. */
const untilClosed = (apiClient: Client, id: string): Promise<any> =>
  eventually(
    async () => {
      const { body } = await apiClient.get(`/v1/batches/${id}`)
      return body.closed === true ? body : null
    },
    // Only ends a wait that hangs: a batch of 1,000 takes long on a busy machine.
    { everyMs: 100 },
  )

export const completed = async (apiClient: Client, id: string): Promise<ReadonlyArray<any>> =>
  (await eventsOf(apiClient, 'batch.completed')).filter((event) => event.data.object.id === id)

export const batch: Section = (fixture) => {
  describe('Rules of POST /v1/messages/batch', () => {
    // Rules: BAT-1, BAT-3
    it('1: more than batch_max elements are refused, batch_max are accepted', async () => {
      const { test } = await fixture().admin.createAccount()
      const many = Array.from({ length: 1001 }, (_, index) => element(`max-${index}`))
      expect(errorOf(await post(test, many))).toEqual([422, 'batch_too_large', 'messages'])
      const taken = await post(test, many.slice(0, 1000))
      expect([taken.status, taken.body.counts]).toEqual([202, { ...NOTHING, total: 1000, accepted: 1000 }])
      await untilClosed(test, taken.body.id)
    })

    // Rules: BAT-1
    it('1: batch_max of the account applies', async () => {
      const { test } = await fixture().admin.createAccount({ test: { batch_max: 2 } })
      const three = ['a', 'b', 'c'].map((ref) => element(ref))
      expect(errorOf(await post(test, three))).toEqual([422, 'batch_too_large', 'messages'])
      expect((await post(test, three.slice(0, 2))).status).toBe(202)
    })

    // Rules: BAT-2
    it.each<[string, unknown, string]>([
      ['an empty batch', { messages: [] }, 'messages'],
      ['no messages', {}, 'messages'],
      ['null', { messages: null }, 'messages'],
      ['an object for messages', { messages: {} }, 'messages'],
      ['a string among the messages', { messages: [element('x'), 'y'] }, 'messages[1]'],
      ['null among the messages', { messages: [null] }, 'messages[0]'],
      ['an array among the messages', { messages: [[]] }, 'messages[0]'],
    ])('1: %s is refused as a whole', async (_what, body, param) => {
      const { test } = await fixture().admin.createAccount()
      expect(errorOf(await test.post('/v1/messages/batch', body))).toEqual([422, 'invalid_parameter', param])
    })

    // Rules: BAT-7
    it('2: client_ref is required on every element', async () => {
      const { test } = await fixture().admin.createAccount()
      const { client_ref: _, ...without } = element('x')
      const { body, status } = await post(test, [element('a'), without, element('')])
      expect(status).toBe(202)
      expect(body.results[1]).toMatchObject({
        index: 1,
        client_ref: null,
        result: 'rejected',
        error: { code: 'invalid_parameter', param: 'messages[1].client_ref' },
      })
      expect(body.results[2]).toMatchObject({
        index: 2,
        result: 'rejected',
        error: { code: 'invalid_parameter', param: 'messages[2].client_ref' },
      })
      expect(body.results[0].result).toBe('accepted')
    })

    // Rules: BAT-3, BAT-4, BAT-6, BAT-11, ERR-2, ERR-3, HTTP-18, GEN-11
    it('3: each element gets its own result; a rejected element does not cancel the others', async () => {
      const { test } = await fixture().admin.createAccount()
      const answer = await post(test, [
        element('good-1'),
        element('bad-number', { to: '+7900' }),
        element('bad-template', { template: 'nothing' }),
        element('bad-variables', { variables: {} }),
        element('bad-class', { class: 'promo' }),
        element('bad-time', { send_at: null }),
        element('bad-to', { to: 7 }),
        element('opted-out', { to: '+79000000013' }),
        element('good-2'),
      ])
      expect(answer.status).toBe(202)
      expect(answer.body).toMatchObject({
        object: 'batch',
        id: anId('bat'),
        created_at: aMoment(),
        closed: false,
        counts: { ...NOTHING, total: 9, accepted: 2, rejected: 7 },
      })
      const { results } = answer.body
      expect(
        results.map((one: any) => [one.index, one.client_ref, one.result, one.error?.code, one.error?.param]),
      ).toEqual([
        [0, 'good-1', 'accepted', undefined, undefined],
        [1, 'bad-number', 'rejected', 'recipient_invalid', 'messages[1].to'],
        [2, 'bad-template', 'rejected', 'template_not_found', 'messages[2].template'],
        [3, 'bad-variables', 'rejected', 'template_variable_missing', 'messages[3].variables.order'],
        [4, 'bad-class', 'rejected', 'invalid_parameter', 'messages[4].class'],
        [5, 'bad-time', 'rejected', 'send_at_not_supported', 'messages[5].send_at'],
        [6, 'bad-to', 'rejected', 'invalid_parameter', 'messages[6].to'],
        [7, 'opted-out', 'rejected', 'recipient_opted_out', 'messages[7].to'],
        [8, 'good-2', 'accepted', undefined, undefined],
      ])
      for (const { error } of results.slice(1, 8)) {
        expect(error.request_id).toBe(answer.headers.get('request-id'))
        expect(error.doc_url).toBe(`${fixture().base}/docs/errors#${error.code}`)
        expect(error.message.length).toBeGreaterThan(10)
      }
      expect(results[0].message).toMatchObject({
        object: 'message',
        id: anId('msg'),
        status: 'accepted',
        batch: answer.body.id,
        client_ref: 'good-1',
      })
      // An accepted element is an ordinary message.
      const read = await test.get(`/v1/messages/${results[8].message.id}`)
      expect([read.status, read.body.batch]).toEqual([200, answer.body.id])
      await untilClosed(test, answer.body.id)
    })

    // Rules: BAT-5
    it('3: a client_ref seen before is a duplicate with a link to the earlier message', async () => {
      const { test } = await fixture().admin.createAccount()
      const single = await test.post('/v1/messages', send('service', '+79000000001', 'single'))
      const { body } = await post(test, [
        element('single'),
        element('twice'),
        element('twice', { to: '+79000000002' }),
      ])
      expect(body.counts).toEqual({ ...NOTHING, total: 3, accepted: 1, duplicate: 2 })
      expect(body.results[0]).toEqual({
        index: 0,
        client_ref: 'single',
        result: 'duplicate',
        message_id: single.body.id,
        message_url: `/v1/messages/${single.body.id}`,
      })
      // The same client_ref twice in one batch: the second is a duplicate of the first.
      expect(body.results[2]).toMatchObject({
        index: 2,
        result: 'duplicate',
        message_id: body.results[1].message.id,
      })
      expect((await test.get(body.results[2].message_url)).status).toBe(200)
    })

    // Rules: BAT-11, BAT-12, BAT-13, BAT-15, BAT-16
    it('6: a repeated batch creates no messages and returns the earlier batch', async () => {
      const { test } = await fixture().admin.createAccount()
      const elements = [element('r-1'), element('r-2'), element('r-3', { to: '+79000000003' })]
      const first = await post(test, elements)
      const closed = await untilClosed(test, first.body.id)
      expect(closed.counts).toEqual({ ...NOTHING, total: 3, accepted: 3, delivered: 2, undelivered: 1 })
      const again = await post(test, elements)
      expect(again.status).toBe(202)
      expect(again.body).toMatchObject({
        id: first.body.id,
        created_at: first.body.created_at,
        closed: true,
        counts: { ...NOTHING, total: 3, duplicate: 3 },
      })
      expect(again.body.results.map((one: any) => one.message_id)).toEqual(
        first.body.results.map((one: any) => one.message.id),
      )
      // 7: exactly once; a repeat does not emit it again.
      const events = await eventually(
        async () => {
          const found = await completed(test, first.body.id)
          return found.length > 0 ? found : null
        },
        { everyMs: 100 },
      )
      expect(events).toHaveLength(1)
      expect(events[0].data.object).toEqual(closed)
    })

    // Rules: BAT-16, BAT-17
    it('6: duplicates from several batches name no common batch', async () => {
      const { test } = await fixture().admin.createAccount()
      const one = await post(test, [element('one')])
      const two = await post(test, [element('two')])
      expect(one.body.id).not.toBe(two.body.id)
      const both = await post(test, [element('one'), element('two')])
      expect(both.body).toMatchObject({
        id: null,
        created_at: null,
        counts: { ...NOTHING, total: 2, duplicate: 2 },
      })
      // The newly accepted elements of a repeat form a new batch.
      const more = await post(test, [element('one'), element('three')])
      expect(more.body.id).toEqual(anId('bat'))
      expect([one.body.id, two.body.id]).not.toContain(more.body.id)
      expect(more.body.counts).toEqual({ ...NOTHING, total: 2, accepted: 1, duplicate: 1 })
      expect((await untilClosed(test, more.body.id)).counts).toEqual({
        ...NOTHING,
        total: 2,
        accepted: 1,
        duplicate: 1,
        delivered: 1,
      })
    })

    // Rules: BAT-10, BAT-13
    it('a batch with only rejected elements is 202, closed at once, and completed', async () => {
      const { test } = await fixture().admin.createAccount()
      const { body, status } = await post(test, [element('no-1', { to: 'x' }), element('no-2', { to: 'x' })])
      expect([status, body.closed, body.counts]).toEqual([202, true, { ...NOTHING, total: 2, rejected: 2 }])
      expect(body.id).toEqual(anId('bat'))
      await eventually(
        async () => {
          expect(await completed(test, body.id)).toHaveLength(1)
          return true
        },
        { everyMs: 100 },
      )
      expect((await test.get(`/v1/batches/${body.id}`)).body).toMatchObject({
        closed: true,
        counts: { ...NOTHING, total: 2, rejected: 2 },
      })
    })

    // Rules: BAT-8, LIM-7
    it('live elements count against the flood windows one by one, in order', async () => {
      const { live } = await fixture().admin.createAccount()
      const number = freshNumber()
      const { body } = await post(live, [
        element('w-1', { to: number }),
        element('w-2', { to: number }),
        element('w-3', { to: freshNumber() }),
      ])
      expect(body.results.map((one: any) => one.result)).toEqual(['accepted', 'rejected', 'accepted'])
      expect(body.results[1].error).toMatchObject({
        code: 'recipient_flood_limited',
        param: 'messages[1].to',
        window: 'pause',
      })
      expect(body.results[1].error.retry_after).toBeGreaterThan(0)
    })
  })

  describe('GET /v1/batches/{id} and GET /v1/messages?batch=', () => {
    // Rules: BAT-19
    it('the batch can be read at once, and equals the answer without results', async () => {
      const { test } = await fixture().admin.createAccount()
      const { body } = await post(test, [element('b-1'), element('b-2', { to: 'x' })])
      const read = await test.get(`/v1/batches/${body.id}`)
      expect(read.status).toBe(200)
      expect(new Set(Object.keys(read.body))).toEqual(
        new Set(['object', 'id', 'created_at', 'closed', 'counts']),
      )
      expect(read.body).toMatchObject({
        id: body.id,
        created_at: body.created_at,
        counts: { total: 2, accepted: 1, rejected: 1 },
      })
    })

    // Rules: MSG-39, LIST-1, LIST-4, LIST-5, LIST-9, LIST-10
    it('messages are paged in the order of acceptance', async () => {
      const { test } = await fixture().admin.createAccount()
      const { body } = await post(
        test,
        Array.from({ length: 7 }, (_, index) => element(`p-${index}`)),
      )
      await untilClosed(test, body.id)
      const ids = body.results.map((one: any) => one.message.id)
      const seen: Array<string> = []
      let cursor = ''
      for (let page = 0; page < 4; page += 1) {
        const answer = await test.get(`/v1/messages?batch=${body.id}&limit=3${cursor}`)
        expect(answer.status).toBe(200)
        expect(answer.body.object).toBe('list')
        seen.push(...answer.body.data.map((message: any) => message.id))
        expect(answer.body.has_more).toBe(page < 2)
        expect(answer.body.next_cursor).toBe(seen.at(-1))
        cursor = `&starting_after=${answer.body.next_cursor}`
      }
      expect(seen).toEqual(ids)
      const [message] = (await test.get(`/v1/messages?batch=${body.id}&limit=1`)).body.data
      expect(message).toMatchObject({ object: 'message', batch: body.id, text: 'Заказ A-17 готов' })
    })

    // Rules: LIST-2, LIST-3, LIST-6
    it('a page of messages may have 1000 items', async () => {
      const { test } = await fixture().admin.createAccount()
      const { body } = await test.post('/v1/messages/batch', {
        messages: [send('service', '+79000000001', 'a')],
      })
      expect((await test.get(`/v1/messages?batch=${body.id}&limit=1000`)).status).toBe(200)
      expect(errorOf(await test.get(`/v1/messages?batch=${body.id}&limit=1001`))).toEqual([
        422,
        'invalid_parameter',
        'limit',
      ])
      expect((await test.get(`/v1/messages?batch=${body.id}&starting_after=msg_nothing`)).status).toBe(404)
    })

    // Rules: BAT-19, MSG-39, GEN-4
    it('a missing batch, and one of another account or mode, is 404 everywhere', async () => {
      const { admin } = fixture()
      const { live, test } = await admin.createAccount()
      const other = await admin.createAccount()
      const { body } = await post(test, [element('mine')])
      for (const [apiClient, id] of [
        [test, 'bat_00000000000000000000000000'],
        [test, 'nothing'],
        [live, body.id],
        [other.test, body.id],
      ] as const) {
        expect(errorOf(await apiClient.get(`/v1/batches/${id}`))).toEqual([404, 'not_found', undefined])
        expect((await apiClient.get(`/v1/messages?batch=${id}`)).status).toBe(404)
      }
    })

    // Rules: MSG-36, MSG-40, LIST-9
    it('GET /v1/messages without batch lists the newest messages of the account and mode', async () => {
      const { live, test } = await fixture().admin.createAccount()
      const { body } = await post(test, [element('first'), element('second')])
      const batch = await test.get(`/v1/messages?batch=${body.id}`)
      const newest = await test.get('/v1/messages')
      const ids = ({ data }: typeof newest.body) => data.map(({ id }: { id: string }) => id)
      expect(newest.status).toBe(200)
      expect(ids(newest.body)).toEqual(ids(batch.body).toReversed())
      expect((await live.get('/v1/messages')).body.data).toEqual([])
      expect(errorOf(await test.get(`/v1/messages?batch=${body.id}&status=sent`))).toEqual([
        422,
        'invalid_parameter',
        'status',
      ])
    })
  })
}
