/**
 * The sandbox numbers, alone and in batches. The slowest takes twenty seconds, so everything is
 * sent before the first test of the suite and checked after the last.
 */
import { beforeAll, describe, expect, it } from 'vitest'
import { eventually } from '@hub/testkit'
import { send } from '../../support/client.ts'
import { freshNumber } from '../../support/hub-admin.ts'
import { completed, element, post } from './batch.ts'
import { type Section, untilFinal, type Fixture } from './fixture.ts'

const OUTCOMES: ReadonlyArray<[string, string, string | null, ReadonlyArray<string>]> = [
  ['+79000000001', 'delivered', null, ['accepted', 'sent', 'delivered']],
  ['+79112223344', 'delivered', null, ['accepted', 'sent', 'delivered']],
  ['+79000000002', 'undelivered', 'recipient_unreachable', ['accepted', 'sent', 'undelivered']],
  ['+79000000003', 'undelivered', 'recipient_nonexistent', ['accepted', 'sent', 'undelivered']],
  ['+79000000004', 'undelivered', 'recipient_blocked', ['accepted', 'sent', 'undelivered']],
  ['+79000000005', 'rejected', 'spam_filter_content', ['accepted', 'rejected']],
  ['+79000000006', 'rejected', 'spam_filter_sender', ['accepted', 'sent', 'rejected']],
  ['+79000000007', 'expired', 'dlr_timeout', ['accepted', 'sent', 'expired']],
  ['+79000000008', 'expired', 'dlr_timeout_local', ['accepted', 'sent', 'expired']],
  ['+79000000010', 'delivered', null, ['accepted', 'sent', 'delivered']],
  ['+79000000011', 'expired', 'ttl_expired_before_submit', ['accepted', 'expired']],
]

/** Last digits of the numbers that a batch may contain. */
const ENDS = ['01', '02', '03', '04', '05', '06', '07', '10', '08', '11']

const sendAll = async ({ admin }: Fixture) => {
  const [one, two, three] = await Promise.all([
    admin.createAccount(),
    admin.createAccount(),
    admin.createAccount(),
  ])
  const table = {
    test: one.test,
    sent: await Promise.all(
      OUTCOMES.map(
        async ([to]): Promise<string> => (await one.test.post('/v1/messages', send('service', to))).body.id,
      ),
    ),
    late: (await one.test.post('/v1/messages', send('service', '+79000000012'))).body.id as string,
  }
  const { body } = await post(
    two.test,
    ENDS.map((end) => element(`end-${end}`, { to: `+790000000${end}` })),
  )
  const before = {
    read: await two.test.get(`/v1/batches/${body.id}`),
    completed: await completed(two.test, body.id),
  }
  const late = await post(three.test, [element('late', { to: '+79000000012' })])
  return { table, every: { test: two.test, body, before }, late: { test: three.test, body: late.body } }
}

export const sandbox: Section = (fixture) => {
  let sends: Awaited<ReturnType<typeof sendAll>> | undefined
  const sentMessages = () => {
    if (sends === undefined) throw new Error('the messages are not sent yet: call this inside a test')
    return sends
  }
  beforeAll(async () => {
    sends = await sendAll(fixture())
  })

  describe('Sandbox numbers', () => {
    // Rules: SBX-2, SBX-3, SBX-4, SBX-5, SBX-6, SBX-7, SBX-9, SBX-10, SBX-11, MSG-18, MSG-26, MSG-34, EVT-4
    // Rules: EVT-5
    it('each number ends with its documented status, history and events', async () => {
      const { late, sent, test } = sentMessages().table
      for (const [index, [to, status, reason, history]] of OUTCOMES.entries()) {
        const read = await untilFinal(test, sent[index]!)
        expect([read.status, read.reason_code, read.history.map((one: any) => one.status)], to).toEqual([
          status,
          reason,
          history,
        ])
        expect(read.history.at(-1).reason_code, to).toBe(reason)
        expect(read.price, to).toEqual({ amount: '0.00', currency: 'RUB' })
      }
      // 12: like 08, then a late report makes it delivered.
      const corrected = await eventually(
        async () => {
          const { body } = await test.get(`/v1/messages/${late}`)
          return body.status === 'delivered' ? body : null
        },
        { everyMs: 200 },
      )
      expect([corrected.reason_code, corrected.final]).toEqual([null, true])
      expect(corrected.history.map((one: any) => one.status)).toEqual([
        'accepted',
        'sent',
        'expired',
        'delivered',
      ])
      const { data } = (await test.get('/v1/events?limit=1000')).body
      const kindsOf = (id: string) =>
        data.filter((event: any) => event.data.object.id === id).map((event: any) => event.type)
      expect(kindsOf(late).toSorted()).toEqual(
        ['accepted', 'delivered', 'expired', 'sent'].map((name) => `message.${name}`),
      )
      // 10: a read receipt creates an event and changes no status.
      const seen = sent[OUTCOMES.findIndex(([to]) => to === '+79000000010')]
      await eventually(
        async () => {
          const answer = await test.get('/v1/events?limit=1000&type=message.seen')
          expect(answer.body.data.map((event: any) => event.data.object.id)).toEqual([seen])
          return true
        },
        { everyMs: 100 },
      )
      expect((await test.get(`/v1/messages/${seen}`)).body.status).toBe('delivered')
      for (const event of data) {
        expect(new Set(Object.keys(event.data.object))).toEqual(
          new Set([
            'id',
            'object',
            'status',
            'final',
            'class',
            'reason_code',
            'client_ref',
            'batch',
            'template',
            'created_at',
            'parts',
            'price',
          ]),
        )
      }
    })

    // Rules: LIM-19, MSG-19
    it('test mode costs nothing and has no spend limit', async () => {
      const { test } = await fixture().admin.createAccount({ test: { spend_limit: '0.01' } })
      const answer = await test.post('/v1/messages', send('otp', freshNumber()))
      expect([answer.status, answer.body.price]).toEqual([202, { amount: '0.00', currency: 'RUB' }])
    })
  })

  describe('Batches to sandbox numbers', () => {
    // Rules: BAT-11, BAT-12, BAT-13
    it('7: batch.completed is sent exactly once, when all messages are final', async () => {
      const { before, body, test } = sentMessages().every
      expect(before.read.body).toMatchObject({ closed: false })
      expect(before.completed).toHaveLength(0)
      const closed = await eventually(
        async () => {
          const read = await test.get(`/v1/batches/${body.id}`)
          return read.body.closed === true ? read.body : null
        },
        { everyMs: 100 },
      )
      expect(closed).toEqual({
        object: 'batch',
        id: body.id,
        created_at: body.created_at,
        closed: true,
        counts: {
          total: 10,
          accepted: 10,
          duplicate: 0,
          rejected: 2,
          delivered: 2,
          undelivered: 3,
          expired: 3,
        },
      })
      const { data } = (await test.get(`/v1/messages?batch=${body.id}`)).body
      expect(data.every((message: any) => message.final)).toBe(true)
      const events = await eventually(
        async () => {
          const found = await completed(test, body.id)
          return found.length > 0 ? found : null
        },
        { everyMs: 100 },
      )
      expect(events.map((event) => [event.object, event.mode, event.data.object])).toEqual([
        ['event', 'test', closed],
      ])
    })

    // Rules: BAT-14
    it('7: a late correction changes the counts and sends no second batch.completed', async () => {
      const { body, test } = sentMessages().late
      await eventually(
        async () => {
          const read = await test.get(`/v1/batches/${body.id}`)
          expect(read.body).toMatchObject({ closed: true, counts: { expired: 0, delivered: 1 } })
          return true
        },
        { everyMs: 200 },
      )
      // The event has the counts at the close of the batch.
      const events = await completed(test, body.id)
      expect(events.map(({ data }) => data.object.counts)).toMatchObject([{ expired: 1, delivered: 0 }])
    })
  })
}
