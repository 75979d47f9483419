/** Rules of POST /v1/messages, of the created message, and of reads of it. */
import { describe, expect, it } from 'vitest'
import { eventually } from '@hub/testkit'
import { send } from '../../support/client.ts'
import { type Account, freshNumber } from '../../support/hub-admin.ts'
import {
  aMoment,
  anId,
  SETTINGS_APPLIED,
  errorOf,
  type Fixture,
  type Section,
  untilFinal,
} from './fixture.ts'

export const messages: Section = (fixture) => {
  describe('Rules of POST /v1/messages', () => {
    // Rules: MSG-1, MSG-15, MSG-16, MSG-17, MSG-18, MSG-19, GEN-1, GEN-5
    it('1: the response is 202 with a message object, accepted and not final', async () => {
      const { id: accountId, test } = await fixture().admin.createAccount()
      expect(accountId).toMatch(/^acc_/u)
      const answer = await test.post('/v1/messages', send('otp', '+79001234567', 'rule-1'))
      expect(answer.status).toBe(202)
      expect(answer.body).toEqual({
        id: anId('msg'),
        object: 'message',
        status: 'accepted',
        final: false,
        to: '+7900***4567',
        class: 'otp',
        created_at: aMoment(),
        updated_at: answer.body.created_at,
        reason_code: null,
        client_ref: 'rule-1',
        batch: null,
        template: 'otp_code',
        sender: 'HUB',
        attempts: 0,
        parts: 1,
        price: { amount: '0.00', currency: 'RUB' },
        history: [{ status: 'accepted', reason_code: null, at: answer.body.created_at }],
        mode: 'test',
      })
    })

    // Rules: LIM-14, MSG-5
    it('1: a live message has its price, and a null client_ref if none was sent', async () => {
      const { live } = await fixture().admin.createAccount()
      const otp = await live.post('/v1/messages', send('otp', freshNumber()))
      const service = await live.post('/v1/messages', send('service', freshNumber()))
      expect(otp.body).toMatchObject({
        mode: 'live',
        client_ref: null,
        price: { amount: '2.50', currency: 'RUB' },
      })
      expect(service.body).toMatchObject({ mode: 'live', price: { amount: '2.00', currency: 'RUB' } })
    })

    // Rules: MSG-3
    it.each([
      '79001234567',
      '+7900123456',
      '+790012345678',
      '+78001234567',
      '+4915112345678',
      ' +79001234567',
      '+79001234567\n',
      '+7 900 123-45-67',
      '+7９001234567',
      '',
    ])('2: the malformed number %j is refused and no message is created', async (to) => {
      const { admin } = fixture()
      const account = await admin.createAccount()
      const answer = await account.test.post('/v1/messages', send('service', to, 'malformed'))
      // Control characters are invalid_parameter, other malformed numbers recipient_invalid.
      expect(errorOf(answer)).toEqual([422, 'recipient_invalid', 'to'])
      // No message was created, so the client_ref is still free.
      const again = await account.test.post('/v1/messages', send('service', freshNumber(), 'malformed'))
      expect([again.status, again.body.duplicate]).toEqual([202, undefined])
    })

    // Rules: SND-10
    it('3: a sender is refused until it is registered', async () => {
      const { admin } = fixture()
      const account = await admin.createAccount()
      await admin.addSender(account, 'live', { name: 'PENDING', status: 'pending' })
      await admin.addSender(account, 'live', { name: 'DECLINED', status: 'declined' })
      await admin.addTemplate(account, 'live', {
        name: 'of_pending',
        class: 'service',
        body: 'x',
        sender: 'PENDING',
      })
      await admin.addTemplate(account, 'live', {
        name: 'of_declined',
        class: 'service',
        body: 'x',
        sender: 'DECLINED',
      })
      for (const template of ['of_pending', 'of_declined']) {
        const answer = await account.live.post('/v1/messages', {
          to: freshNumber(),
          class: 'service',
          template,
        })
        expect(errorOf(answer)).toEqual([422, 'sender_not_registered', 'template'])
      }
      await admin.addSender(account, 'live', { name: 'PENDING', status: 'registered' })
      const now = await account.live.post('/v1/messages', {
        to: freshNumber(),
        class: 'service',
        template: 'of_pending',
      })
      expect(now.status).toBe(202)
    })

    // Rules: TPL-15, TPL-16, TPL-17, TPL-19, TPL-20, TPL-21, TPL-22
    it.each<[string, Record<string, unknown>, string, string]>([
      ['does not exist', { template: 'nothing' }, 'template_not_found', 'template'],
      ['is pending moderation', { template: 'waiting' }, 'template_not_approved', 'template'],
      ['was declined', { template: 'declined' }, 'template_declined', 'template'],
      ['has the other class', { template: 'otp_code' }, 'template_class_mismatch', 'class'],
      ['lacks a value', { variables: {} }, 'template_variable_missing', 'variables.order'],
      ['lacks all values', { variables: undefined }, 'template_variable_missing', 'variables.order'],
      [
        'has no placeholder for a value',
        { variables: { order: '1', extra: '2' } },
        'template_variable_unknown',
        'variables.extra',
      ],
      [
        'lacks a value and has an unknown one',
        { variables: { extra: '2' } },
        'template_variable_missing',
        'variables.order',
      ],
      [
        'gets an object as a value',
        { variables: { order: {} } },
        'template_variable_invalid',
        'variables.order',
      ],
      [
        'gets null as a value',
        { variables: { order: null } },
        'template_variable_invalid',
        'variables.order',
      ],
      [
        'gets a boolean as a value',
        { variables: { order: true } },
        'template_variable_invalid',
        'variables.order',
      ],
      [
        'gets a value of 501 characters',
        { variables: { order: 'x'.repeat(501) } },
        'template_variable_invalid',
        'variables.order',
      ],
      [
        'gets a control character',
        { variables: { order: 'a\tb' } },
        'template_variable_invalid',
        'variables.order',
      ],
      [
        'has a number beyond 2^53',
        { variables: { order: 1e21 } },
        'template_variable_invalid',
        'variables.order',
      ],
      [
        'renders to eleven parts',
        { template: 'long', variables: LONG },
        'template_text_too_long',
        'template',
      ],
    ])('3: a template that %s is refused with a template_ code', async (_what, over, code, param) => {
      const { live } = await templateAccount(fixture())
      const answer = await live.post('/v1/messages', { ...send('service', freshNumber()), ...over })
      expect(errorOf(answer)).toEqual([422, code, param])
    })

    // Rules: TPL-20, MSG-20, GEN-7
    it.each<[string, unknown, string]>([
      ['a string of 500 characters', 'x'.repeat(500), 'x'.repeat(500)],
      ['an empty string', '', ''],
      ['a number', 12.5, '12.5'],
      ['the largest number that a double holds exactly', 2 ** 53, '9007199254740992'],
      ['a line feed', 'a\nb', 'a\nb'],
      ['an emoji', '👍', '👍'],
    ])('3: a value may be %s', async (_what, value, shown) => {
      const { test } = await templateAccount(fixture())
      const answer = await test.post('/v1/messages', {
        ...send('service', freshNumber()),
        variables: { order: value },
      })
      expect(answer.status).toBe(202)
      const { body } = await test.get(`/v1/messages/${answer.body.id}`)
      expect(body.text).toBe(`Заказ ${shown} готов`)
    })

    // Rules: MSG-7, SBX-12
    it('4: a recipient who opted out is refused for service and not for otp', async () => {
      const { admin } = fixture()
      const { live, test } = await admin.createAccount()
      const number = freshNumber()
      await admin.optOut(number)
      await eventually(async () => {
        const answer = await live.post('/v1/messages', send('service', number))
        expect(errorOf(answer)).toEqual([422, 'recipient_opted_out', 'to'])
        return true
      }, SETTINGS_APPLIED)
      expect((await live.post('/v1/messages', send('otp', number))).status).toBe(202)
      expect(errorOf(await test.post('/v1/messages', send('service', '+79000000013')))).toEqual([
        422,
        'recipient_opted_out',
        'to',
      ])
      expect((await test.post('/v1/messages', send('otp', '+79000000013'))).status).toBe(202)
      await admin.optIn(number)
    })

    // Rules: MSG-4
    it.each([null, '2030-01-01T00:00:00.000Z', 0, false, '', {}])(
      '8: send_at of %j is refused',
      async (send_at) => {
        const { test } = await fixture().admin.createAccount()
        const answer = await test.post('/v1/messages', { ...send('otp', freshNumber()), send_at })
        expect(errorOf(answer)).toEqual([422, 'send_at_not_supported', 'send_at'])
      },
    )
  })

  describe('The body of a send', () => {
    // Rules: HTTP-16, HTTP-19
    it('unknown body fields are ignored, also names like __proto__', async () => {
      const { test } = await fixture().admin.createAccount()
      const body = JSON.stringify({ ...send('otp', freshNumber()), colour: 'red' }).replace(
        '{',
        '{"__proto__":{"to":"x"},"constructor":1,',
      )
      const answer = await test.request('POST', '/v1/messages', {
        headers: { 'content-type': 'application/json' },
        body,
      })
      expect(answer.status).toBe(202)
    })

    // Rules: HTTP-12
    it('a body without Content-Type, or with Content-Encoding identity, is parsed as JSON', async () => {
      const { test } = await fixture().admin.createAccount()
      const body = JSON.stringify(send('otp', freshNumber()))
      for (const headers of [
        {},
        { 'content-encoding': 'identity', 'content-type': 'application/json; charset=utf-8' },
      ]) {
        const answer = await test.request('POST', '/v1/messages', {
          headers: headers as Record<string, string>,
          body: new TextEncoder().encode(body),
        })
        expect(answer.status).toBe(202)
      }
    })

    // Rules: MSG-5, GEN-7, GEN-8
    it.each<[string, unknown, number]>([
      ['no characters', '', 422],
      ['one character', 'x', 202],
      ['128 characters', 'x'.repeat(128), 202],
      ['129 characters', 'x'.repeat(129), 422],
      ['128 characters beyond the basic plane', '👍'.repeat(128), 202],
      ['spaces and non-ASCII letters', 'a b/ü?', 202],
      ['a line feed', 'a\nb', 202],
      ['a carriage return', 'a\rb', 422],
      ['a number as its value', 7, 422],
      ['null as its value', null, 422],
    ])('a client_ref with %s', async (_what, clientRef, status) => {
      const { test } = await fixture().admin.createAccount()
      const answer = await test.post('/v1/messages', {
        ...send('otp', freshNumber()),
        client_ref: clientRef,
      })
      if (status === 202) expect([answer.status, answer.body.client_ref]).toEqual([202, clientRef])
      else expect(errorOf(answer)).toEqual([422, 'invalid_parameter', 'client_ref'])
    })
  })

  describe('The message', () => {
    // Rules: MSG-9
    it('a used client_ref returns 202 with the current earlier message, without text, and with duplicate: true', async () => {
      const { test } = await fixture().admin.createAccount()
      const first = await test.post('/v1/messages', send('service', '+79001112233', 'twice'))
      const done = await untilFinal(test, first.body.id)
      const second = await test.post('/v1/messages', send('service', '+79001112233', 'twice'))
      expect(second.status).toBe(202)
      const { text, variables, ...rest } = done
      expect([text, variables]).toEqual(['Заказ A-17 готов', { order: 'A-17' }])
      expect(second.body).toEqual({ ...rest, duplicate: true })
    })

    // Rules: MSG-10, MSG-11, HTTP-29
    it('a used client_ref takes precedence over the other fields of a well-formed body', async () => {
      const { live, test } = await fixture().admin.createAccount()
      const first = await test.post('/v1/messages', send('service', freshNumber(), 'same'))
      for (const other of [
        send('otp', freshNumber(), 'same'),
        { ...send('service', '+79000000013', 'same'), template: 'nothing', variables: { a: {} } },
      ]) {
        const again = await test.post('/v1/messages', other)
        expect([again.status, again.body.id, again.body.duplicate]).toEqual([202, first.body.id, true])
      }
      // References are separate for each mode.
      const elsewhere = await live.post('/v1/messages', send('service', freshNumber(), 'same'))
      expect([elsewhere.status, elsewhere.body.duplicate]).toEqual([202, undefined])
    })

    // Rules: MSG-10, HTTP-29
    it('a malformed body is refused also with a used client_ref', async () => {
      const { test } = await fixture().admin.createAccount()
      await test.post('/v1/messages', send('service', freshNumber(), 'form'))
      const malformed = await test.post('/v1/messages', send('service', '123', 'form'))
      expect(errorOf(malformed)).toEqual([422, 'recipient_invalid', 'to'])
    })

    // Rules: MSG-8, MSG-35
    it('a message can be read as soon as its 202 has been received', async () => {
      const { test } = await fixture().admin.createAccount()
      for (const messageClass of ['otp', 'service'] as const) {
        const { body } = await test.post('/v1/messages', send(messageClass, freshNumber(), messageClass))
        const read = await test.get(`/v1/messages/${body.id}`)
        expect([read.status, read.body.id, read.body.client_ref]).toEqual([200, body.id, messageClass])
      }
    })

    // Rules: MSG-21
    it('an otp message is read without its text and with masked variables', async () => {
      const { test } = await fixture().admin.createAccount()
      const { body } = await test.post('/v1/messages', send('otp', freshNumber()))
      for (const read of [
        (await test.get(`/v1/messages/${body.id}`)).body,
        await untilFinal(test, body.id),
      ]) {
        expect(read).toMatchObject({ text: null, variables: { code: '***' } })
        expect(JSON.stringify(read)).not.toContain('4821')
      }
    })
  })

  describe('Foreign ids', () => {
    // Rules: GEN-4
    it('a message of another account or mode gets the same answer as a missing one', async () => {
      const { admin } = fixture()
      const mine = await admin.createAccount()
      const other = await admin.createAccount()
      const { body } = await mine.test.post('/v1/messages', send('service', freshNumber()))
      const missing = await mine.test.get('/v1/messages/msg_00000000000000000000000000')
      for (const apiClient of [mine.live, other.test, other.live]) {
        const answer = await apiClient.get(`/v1/messages/${body.id}`)
        expect(answer.status).toBe(404)
        expect({ ...answer.body.error, request_id: '' }).toEqual({ ...missing.body.error, request_id: '' })
      }
    })
  })
}

/** Renders to eleven UCS-2 parts, with values of at most 500 characters. */
const LONG = { a: 'ж'.repeat(400), b: 'ж'.repeat(400) }

const templateAccount = async ({ admin }: Fixture): Promise<Account> => {
  const account = await admin.createAccount()
  await admin.addTemplate(account, 'live', {
    name: 'waiting',
    class: 'service',
    body: 'x',
    status: 'pending_moderation',
  })
  await admin.addTemplate(account, 'live', {
    name: 'declined',
    class: 'service',
    body: 'x',
    status: 'declined',
    reason: 'an advertisement',
  })
  await admin.addTemplate(account, 'live', { name: 'long', class: 'service', body: '{{a}}{{b}}' })
  return account
}
