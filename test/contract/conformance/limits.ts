/** Flood windows, spend limit, and the daily limit of the hub. */
import { describe, expect, it } from 'vitest'
import { eventually } from '@hub/testkit'
import { type Client, send } from '../../support/client.ts'
import { freshNumber } from '../../support/hub-admin.ts'
import {
  eventsOf,
  SETTINGS_APPLIED,
  errorOf,
  type Section,
  untilFinal,
  whileStopped,
  type Fixture,
} from './fixture.ts'

const spent = async (apiClient: Client): Promise<string> =>
  (await apiClient.get('/v1/account')).body.spend_limit.spent.amount

const setOperatorBehaviour = async ({ hub }: Fixture, behaviour: Record<string, unknown>): Promise<void> => {
  const answer = await fetch(`${hub.describe().operator_url}/behaviour`, {
    method: 'PUT',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(behaviour),
  })
  expect(answer.status).toBe(200)
}

const floodErrorOf = (answer: { readonly body: any }): ReadonlyArray<unknown> => [
  answer.body.error?.code,
  answer.body.error?.window,
]

const HOUR = 3600
const DAY = 24 * HOUR

export const limits: Section = (fixture) => {
  describe('Per-recipient anti-flood', () => {
    // Rules: LIM-6, LIM-7
    it('5: a full window is refused with recipient_flood_limited', async () => {
      const { live } = await fixture().admin.createAccount()
      const number = freshNumber()
      expect((await live.post('/v1/messages', send('service', number))).status).toBe(202)
      const second = await live.post('/v1/messages', send('otp', number))
      expect(errorOf(second)).toEqual([422, 'recipient_flood_limited', 'to'])
      expect(second.body.error.window).toBe('pause')
      expect(second.body.error.retry_after).toBeGreaterThan(0)
    })

    // Rules: SBX-8
    it('+79000000009: a second send within five minutes is refused by the pause; other sandbox numbers consume no windows', async () => {
      const { test } = await fixture().admin.createAccount()
      expect((await test.post('/v1/messages', send('service', '+79000000009'))).status).toBe(202)
      const second = await test.post('/v1/messages', send('otp', '+79000000009'))
      expect(errorOf(second)).toEqual([422, 'recipient_flood_limited', 'to'])
      expect(second.body.error.window).toBe('pause')
      expect(second.body.error.retry_after).toBeGreaterThan(290)
      expect(second.body.error.retry_after).toBeLessThanOrEqual(300)
      for (let index = 0; index < 25; index += 1) {
        expect((await test.post('/v1/messages', send('otp', '+79000000001'))).status).toBe(202)
      }
    })

    // Rules: LIM-6, LIM-7, LIM-8
    it('pause: the minimum time between messages of any class to one number', async () => {
      const { live } = await fixture().admin.createAccount({ live: { flood_pause_seconds: 30 } })
      const number = freshNumber()
      await live.post('/v1/messages', send('otp', number))
      const second = await live.post('/v1/messages', send('service', number))
      expect([...errorOf(second), second.body.error.window]).toEqual([
        422,
        'recipient_flood_limited',
        'to',
        'pause',
      ])
      expect(second.body.error.retry_after).toBeGreaterThan(20)
      expect(second.body.error.retry_after).toBeLessThanOrEqual(30)
      // Each number has its own windows.
      expect((await live.post('/v1/messages', send('service', freshNumber()))).status).toBe(202)
    })

    // Rules: LIM-6, LIM-7, LIM-8
    it.each([
      ['hour', { flood_pause_seconds: 0, flood_per_hour: 2, flood_per_day: 20 }, HOUR],
      ['day', { flood_pause_seconds: 0, flood_per_hour: 20, flood_per_day: 2 }, DAY],
    ] as const)('%s: the maximum number of messages in the window', async (window, settings, seconds) => {
      const { live } = await fixture().admin.createAccount({ live: settings })
      const number = freshNumber()
      for (let index = 0; index < 2; index += 1) {
        expect((await live.post('/v1/messages', send('service', number))).status).toBe(202)
      }
      const third = await live.post('/v1/messages', send('otp', number))
      expect(floodErrorOf(third)).toEqual(['recipient_flood_limited', window])
      expect(third.body.error.retry_after).toBeGreaterThan(seconds - 30)
      expect(third.body.error.retry_after).toBeLessThanOrEqual(seconds)
    })

    // Rules: LIM-7, LIM-8
    it('with several full windows, the first is named and retry_after belongs to it', async () => {
      const { live } = await fixture().admin.createAccount({
        live: { flood_pause_seconds: 10, flood_per_hour: 1, flood_per_day: 1 },
      })
      const number = freshNumber()
      await live.post('/v1/messages', send('service', number))
      const second = await live.post('/v1/messages', send('service', number))
      expect(floodErrorOf(second)).toEqual(['recipient_flood_limited', 'pause'])
      expect(second.body.error.retry_after).toBeGreaterThan(0)
      expect(second.body.error.retry_after).toBeLessThanOrEqual(10)
    })

    // Rules: LIM-6, GEN-10
    it('accounts and modes have separate windows', async () => {
      const { admin } = fixture()
      const one = await admin.createAccount()
      const two = await admin.createAccount()
      const number = freshNumber()
      for (const apiClient of [one.live, two.live, one.test, one.test]) {
        expect((await apiClient.post('/v1/messages', send('service', number))).status).toBe(202)
      }
    })

    // Rules: LIM-9
    it('a refused message consumes no window', async () => {
      const { admin } = fixture()
      const { live } = await admin.createAccount({
        live: { flood_pause_seconds: 60, spend_limit: '2.40' },
      })
      const number = freshNumber()
      const refused = [
        await live.post('/v1/messages', { ...send('service', number), template: 'nothing' }),
        await live.post('/v1/messages', { ...send('service', number), variables: {} }),
        // A code costs 2.50, so the spend limit refuses it after its flood reservation.
        await live.post('/v1/messages', send('otp', number, 'too-expensive')),
      ]
      expect(refused.map(({ body }) => body.error?.code)).toEqual([
        'template_not_found',
        'template_variable_missing',
        'spend_limit_reached',
      ])
      expect((await live.post('/v1/messages', send('service', number))).status).toBe(202)
    })

    // Rules: LIM-9
    it('a refused message does not use up its client_ref', async () => {
      const { live } = await fixture().admin.createAccount()
      const number = freshNumber()
      await live.post('/v1/messages', send('service', number))
      expect(floodErrorOf(await live.post('/v1/messages', send('service', number, 'reused')))[1]).toBe(
        'pause',
      )
      const elsewhere = await live.post('/v1/messages', send('service', freshNumber(), 'reused'))
      expect([elsewhere.status, elsewhere.body.duplicate]).toEqual([202, undefined])
    })

    // Rules: LIM-11
    it('one of fifty concurrent messages to one number is accepted', async () => {
      const { live } = await fixture().admin.createAccount()
      const number = freshNumber()
      const answers = await Promise.all(
        Array.from({ length: 50 }, () => live.post('/v1/messages', send('service', number))),
      )
      expect(answers.filter(({ status }) => status === 202)).toHaveLength(1)
      expect(
        new Set(answers.filter(({ status }) => status !== 202).map((answer) => floodErrorOf(answer)[1])),
      ).toEqual(new Set(['pause']))
    })
  })

  describe('Spend limit', () => {
    // Rules: LIM-13
    it('6: a send above the limit is refused with spend_limit_reached', async () => {
      const { live } = await fixture().admin.createAccount({ live: { spend_limit: '2.00' } })
      expect((await live.post('/v1/messages', send('service', freshNumber()))).status).toBe(202)
      const second = await live.post('/v1/messages', send('service', freshNumber()))
      expect(errorOf(second)).toEqual([422, 'spend_limit_reached', undefined])
    })

    // Rules: LIM-13
    it('is never exceeded by any class, and the account shows the spend', async () => {
      const { live } = await fixture().admin.createAccount({ live: { spend_limit: '5.00' } })
      for (let index = 0; index < 2; index += 1) {
        expect((await live.post('/v1/messages', send('service', freshNumber()))).status).toBe(202)
      }
      for (const kind of ['otp', 'service'] as const) {
        const answer = await live.post('/v1/messages', send(kind, freshNumber()))
        expect(errorOf(answer)).toEqual([422, 'spend_limit_reached', undefined])
      }
      expect(await spent(live)).toBe('4.00')
    })

    // Rules: LIM-13
    it('accepts as many of forty concurrent messages as it covers', async () => {
      const { live } = await fixture().admin.createAccount({ live: { spend_limit: '20.00' } })
      const answers = await Promise.all(
        Array.from({ length: 40 }, () => live.post('/v1/messages', send('service', freshNumber()))),
      )
      expect(answers.filter(({ status }) => status === 202)).toHaveLength(10)
      expect(
        new Set(answers.filter(({ status }) => status !== 202).map(({ body }) => body.error.code)),
      ).toEqual(new Set(['spend_limit_reached']))
      expect(await spent(live)).toBe('20.00')
    })

    // Rules: BAT-8, LIM-13
    it('rejects batch elements that exceed it, in order', async () => {
      const { live } = await fixture().admin.createAccount({ live: { spend_limit: '5.00' } })
      const answer = await live.post('/v1/messages/batch', {
        messages: Array.from({ length: 4 }, (_, index) => send('service', freshNumber(), `s-${index}`)),
      })
      expect(answer.body.results.map((one: any) => one.error?.code ?? one.result)).toEqual([
        'accepted',
        'accepted',
        'spend_limit_reached',
        'spend_limit_reached',
      ])
      expect(await spent(live)).toBe('4.00')
    })

    // Rules: LIM-14, MSG-19, GEN-6, GEN-9
    it('charges parts at the price of the account', async () => {
      const { admin } = fixture()
      const account = await admin.createAccount({ live: { price_service: '0.35', spend_limit: '1.00' } })
      await admin.addTemplate(account, 'live', { name: 'long', class: 'service', body: '{{a}}' })
      const { body } = await account.live.post('/v1/messages', {
        to: freshNumber(),
        class: 'service',
        template: 'long',
        variables: { a: 'ж'.repeat(100) },
      })
      expect([body.parts, body.price]).toEqual([2, { amount: '0.70', currency: 'RUB' }])
      expect(await spent(account.live)).toBe('0.70')
    })

    // Rules: LIM-16
    it('charges nothing for a repeat by client_ref', async () => {
      const { live } = await fixture().admin.createAccount({ live: { spend_limit: '100.00' } })
      const body = send('service', freshNumber(), 'paid-once')
      for (let index = 0; index < 5; index += 1) {
        expect((await live.post('/v1/messages', body)).status).toBe(202)
      }
      expect(await spent(live)).toBe('2.00')
    })

    // Rules: LIM-15, MSG-19
    it('releases the amount of an unbilled message', async () => {
      const { live } = await fixture().admin.createAccount({ live: { spend_limit: '2.00' } })
      try {
        await setOperatorBehaviour(fixture(), { rejected_percent: 100 })
        const first = await live.post('/v1/messages', send('service', freshNumber()))
        expect(first.status).toBe(202)
        const done = await untilFinal(live, first.body.id)
        expect([done.status, done.reason_code, done.price]).toEqual([
          'rejected',
          'spam_filter_content',
          { amount: '0.00', currency: 'RUB' },
        ])
      } finally {
        await setOperatorBehaviour(fixture(), { rejected_percent: 0 })
      }
      await eventually(
        async () => {
          expect(await spent(live)).toBe('0.00')
          return true
        },
        { everyMs: 100 },
      )
      expect((await live.post('/v1/messages', send('service', freshNumber()))).status).toBe(202)
      // Undelivered is billed.
      expect(await spent(live)).toBe('2.00')
    })

    // Rules: LIM-18
    it('accepts sends again when hub staff raise it', async () => {
      const { admin } = fixture()
      const account = await admin.createAccount({ live: { spend_limit: '0.00' } })
      const one = send('service', freshNumber())
      expect(errorOf(await account.live.post('/v1/messages', one))[1]).toBe('spend_limit_reached')
      await admin.setAccountSettings(account, 'live', { spend_limit: '10.00' })
      await eventually(async () => {
        expect((await account.live.post('/v1/messages', one)).status).toBe(202)
        return true
      }, SETTINGS_APPLIED)
    })

    // Rules: EVT-8, EVT-9
    it('emits the soft threshold event once per period', async () => {
      const { live } = await fixture().admin.createAccount({ live: { spend_limit: '10.00' } })
      const sendOne = () => live.post('/v1/messages', send('service', freshNumber()))
      for (let index = 0; index < 3; index += 1) await sendOne()
      for (let index = 0; index < 2; index += 1) expect((await sendOne()).status).toBe(202)
      const [event] = await eventually(
        async () => {
          const found = await eventsOf(live, 'account.spend_threshold')
          return found.length > 0 ? found : null
        },
        { everyMs: 100 },
      )
      expect(event).toMatchObject({ object: 'event', mode: 'live', type: 'account.spend_threshold' })
      // All five messages are projected, and there is still one event.
      await eventually(
        async () => {
          expect(await eventsOf(live, 'message.delivered')).toHaveLength(5)
          return true
        },
        { everyMs: 100 },
      )
      expect(await eventsOf(live, 'account.spend_threshold')).toHaveLength(1)
    })
  })

  describe('Hub daily limit', () => {
    // Rules: LIM-20, LIM-21
    it('7: reaching it is 429 for every key, mode and class, with retry_after to midnight UTC', async () => {
      const { admin } = fixture()
      const account = await admin.createAccount()
      const probe = (await admin.createAccount()).test
      try {
        // Fewer messages than the suite has sent today.
        await admin.setHubSettings({ daily_limit: 3 })
        await eventually(async () => {
          expect((await probe.post('/v1/messages', send('otp', '+79000000001'))).status).toBe(429)
          return true
        }, SETTINGS_APPLIED)
        for (const apiClient of [account.live, account.test]) {
          for (const kind of ['otp', 'service'] as const) {
            const answer = await apiClient.post('/v1/messages', send(kind, freshNumber()))
            expect(errorOf(answer)).toEqual([429, 'hub_daily_limit_reached', undefined])
            const midnight = (DAY * 1000 - (Date.now() % (DAY * 1000))) / 1000
            expect(answer.body.error.retry_after).toBeGreaterThanOrEqual(60)
            expect(answer.body.error.retry_after).toBeLessThanOrEqual(Math.max(60, midnight + 5))
          }
        }
      } finally {
        await admin.setHubSettings({})
      }
      await eventually(async () => {
        expect((await probe.post('/v1/messages', send('otp', '+79000000001'))).status).toBe(202)
        return true
      }, SETTINGS_APPLIED)
    })

    // Rules: LIM-23
    it('7: repeats of accepted messages, reads and estimates still work', async () => {
      const { admin } = fixture()
      const { test } = await admin.createAccount()
      const before = await test.post('/v1/messages', send('service', '+79000000001', 'before'))
      await whileStopped(fixture(), async () => {
        const again = await test.post('/v1/messages', send('service', '+79000000001', 'before'))
        expect([again.status, again.body.id, again.body.duplicate]).toEqual([202, before.body.id, true])
        expect((await test.get(`/v1/messages/${before.body.id}`)).status).toBe(200)
        expect((await test.post('/v1/messages/estimate', send('otp', '+79000000001'))).status).toBe(200)
        // Other refusals keep their own reason.
        const opted = await test.post('/v1/messages', send('service', '+79000000013'))
        expect(errorOf(opted)[1]).toBe('recipient_opted_out')
      })
    })

    // Rules: BAT-9
    it('batch 5: it is checked once for the whole batch, before any message is created', async () => {
      const { admin } = fixture()
      const { test } = await admin.createAccount()
      const messages = ['a', 'b', 'c'].map((ref) => send('service', '+79000000001', ref))
      await whileStopped(fixture(), async () => {
        const answer = await test.post('/v1/messages/batch', { messages })
        expect(errorOf(answer)).toEqual([429, 'hub_daily_limit_reached', undefined])
        expect(answer.body.error.retry_after).toBeGreaterThanOrEqual(60)
      })
      const after = await test.post('/v1/messages/batch', { messages })
      expect(after.body.results.map((one: any) => one.result)).toEqual(['accepted', 'accepted', 'accepted'])
    })
  })
}
