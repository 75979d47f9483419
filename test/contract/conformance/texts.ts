/** Estimate and part counting; templates, senders and their moderation. */
import { describe, expect, it } from 'vitest'
import { type Client, send } from '../../support/client.ts'
import { freshNumber } from '../../support/hub-admin.ts'
import { aMoment, anId, errorOf, type Section } from './fixture.ts'

const estimate = (apiClient: Client, body: unknown) => apiClient.post('/v1/messages/estimate', body)

/** Only placeholders, so that the values are the text. */
const plain = { name: 'plain', class: 'service', body: '{{a}}{{b}}{{c}}{{d}}' } as const
const filled = (text: string) => {
  const characters = Array.from(text)
  const at = (index: number): string => characters.slice(index * 450, (index + 1) * 450).join('')
  return {
    ...send('service', '+79000000001'),
    template: 'plain',
    variables: { a: at(0), b: at(1), c: at(2), d: at(3) },
  }
}

export const texts: Section = (fixture) => {
  describe('Estimate and part counting', () => {
    // Rules: EST-1, EST-6, EST-7, EST-8
    it.each<[string, string, 'gsm7' | 'ucs2', number, number]>([
      ['160 Latin characters fit one part', 'x'.repeat(160), 'gsm7', 160, 1],
      ['161 Latin characters take two', 'x'.repeat(161), 'gsm7', 161, 2],
      ['306 Latin characters take two', 'x'.repeat(306), 'gsm7', 306, 2],
      ['307 Latin characters take three', 'x'.repeat(307), 'gsm7', 307, 3],
      ['70 Cyrillic characters fit one part', 'ж'.repeat(70), 'ucs2', 70, 1],
      ['71 Cyrillic characters take two', 'ж'.repeat(71), 'ucs2', 71, 2],
      ['134 Cyrillic characters take two', 'ж'.repeat(134), 'ucs2', 134, 2],
      ['135 Cyrillic characters take three', 'ж'.repeat(135), 'ucs2', 135, 3],
      ['extension characters count as two', '€'.repeat(80), 'gsm7', 160, 1],
      ['an extension character is never split', `${'x'.repeat(152)}€${'x'.repeat(10)}`, 'gsm7', 164, 2],
      [
        'an extension character that would be split begins a new part',
        `${'x'.repeat(152)}€${'x'.repeat(152)}`,
        'gsm7',
        306,
        3,
      ],
      ['ç is not in the GSM table', 'ç', 'ucs2', 1, 1],
      ['Ç is in the GSM table', 'Ç', 'gsm7', 1, 1],
      ['a grave accent is not in the GSM table', '`', 'ucs2', 1, 1],
      ['№ is not in the GSM table', '№', 'ucs2', 1, 1],
      ['a line feed is in the GSM table', 'a\nb', 'gsm7', 3, 1],
      ['an emoji is two code units', '👍', 'ucs2', 2, 1],
      ['a surrogate pair is never split', `${'ж'.repeat(66)}👍${'ж'.repeat(66)}`, 'ucs2', 134, 3],
      ['ten parts are the maximum', 'x'.repeat(1530), 'gsm7', 1530, 10],
    ])('%s', async (_what, text, encoding, characters, parts) => {
      const { admin } = fixture()
      const account = await admin.createAccount()
      await admin.addTemplate(account, 'live', plain)
      const answer = await estimate(account.live, filled(text))
      expect(answer.status).toBe(200)
      expect(answer.body).toEqual({
        object: 'estimate',
        encoding,
        characters,
        parts,
        price: { amount: `${parts * 2}.00`, currency: 'RUB' },
      })
    })

    // Rules: EST-5
    it('the price depends on class and account, and is shown in both modes', async () => {
      const { admin } = fixture()
      const { live, test } = await admin.createAccount({
        live: { price_otp: '3.10', price_service: '0.07' },
        test: { price_otp: '3.10' },
      })
      const price = async (apiClient: Client, kind: 'otp' | 'service') =>
        (await estimate(apiClient, send(kind, '+79000000001'))).body.price
      expect(await price(live, 'otp')).toEqual({ amount: '3.10', currency: 'RUB' })
      expect(await price(live, 'service')).toEqual({ amount: '0.07', currency: 'RUB' })
      expect(await price(test, 'otp')).toEqual({ amount: '3.10', currency: 'RUB' })
      expect(await price(test, 'service')).toEqual({ amount: '2.00', currency: 'RUB' })
    })

    // Rules: EST-2
    it('several messages: each has its own result, and the totals contain the valid ones', async () => {
      const { test } = await fixture().admin.createAccount()
      const answer = await estimate(test, {
        messages: [
          send('service', '+79000000001'),
          { ...send('service', '+79000000001'), template: 'nothing' },
          send('otp', '+79000000001'),
          { ...send('otp', 'x') },
        ],
      })
      expect(answer.status).toBe(200)
      expect(answer.body).toMatchObject({
        object: 'estimate',
        data: [
          { index: 0, encoding: 'ucs2', characters: 16, parts: 1, price: { amount: '2.00' } },
          { index: 1, error: { code: 'template_not_found', param: 'messages[1].template' } },
          { index: 2, encoding: 'gsm7', characters: 9, parts: 1, price: { amount: '2.50' } },
          { index: 3, error: { code: 'recipient_invalid', param: 'messages[3].to' } },
        ],
        totals: { parts: 2, price: { amount: '4.50', currency: 'RUB' } },
      })
      expect(answer.body.data[1].parts).toBeUndefined()
    })

    // Rules: EST-3
    it('only shape, template and variables are checked, and nothing is created', async () => {
      const { admin } = fixture()
      const { live } = await admin.createAccount({ live: { spend_limit: '0.00' } })
      const number = freshNumber()
      await admin.optOut(number)
      const body = send('service', number, 'estimated')
      expect((await estimate(live, body)).status).toBe(200)
      expect((await estimate(live, { ...body, to: '+79000000009' })).status).toBe(200)
      expect((await estimate(live, { ...body, to: '+79000000009' })).status).toBe(200)
      expect(errorOf(await estimate(live, { ...body, to: 'x' }))).toEqual([422, 'recipient_invalid', 'to'])
      expect(errorOf(await estimate(live, { ...body, send_at: null }))).toEqual([
        422,
        'send_at_not_supported',
        'send_at',
      ])
      expect(errorOf(await estimate(live, { ...body, template: 'nothing' }))).toEqual([
        422,
        'template_not_found',
        'template',
      ])
      expect(errorOf(await estimate(live, { ...body, variables: {} }))).toEqual([
        422,
        'template_variable_missing',
        'variables.order',
      ])
      await admin.optIn(number)
    })

    // Rules: EST-4
    it('more than batch_max elements are refused', async () => {
      const { test } = await fixture().admin.createAccount({ test: { batch_max: 2 } })
      const one = send('service', '+79000000001')
      expect((await estimate(test, { messages: [one, one] })).status).toBe(200)
      expect(errorOf(await estimate(test, { messages: [one, one, one] }))).toEqual([
        422,
        'batch_too_large',
        'messages',
      ])
      expect(errorOf(await estimate(test, { messages: [] }))).toEqual([422, 'invalid_parameter', 'messages'])
    })
  })

  describe('Templates', () => {
    const good = { name: 'welcome', class: 'service', sender: 'HUB', body: 'Hello {{ name }}, {{name}}!' }

    // Rules: TPL-1, TPL-8, TPL-11
    it('creation answers 201; a test template is usable at once', async () => {
      const { test } = await fixture().admin.createAccount()
      const made = await test.post('/v1/templates', { ...good, language: 'en' })
      expect(made.status).toBe(201)
      expect(made.body).toMatchObject({
        id: anId('tpl'),
        object: 'template',
        name: 'welcome',
        class: 'service',
        sender: 'HUB',
        body: 'Hello {{ name }}, {{name}}!',
        language: 'en',
        status: 'approved',
        created_at: aMoment(),
      })
      const read = await test.get(`/v1/templates/${made.body.id}`)
      expect([read.status, read.body]).toEqual([200, made.body])
      const { body } = await test.post('/v1/messages', {
        to: freshNumber(),
        class: 'service',
        template: 'welcome',
        variables: { name: 'Ann' },
      })
      expect((await test.get(`/v1/messages/${body.id}`)).body.text).toBe('Hello Ann, Ann!')
    })

    // Rules: TPL-8, TPL-16
    it('a live template waits for moderation, and shows the reason if it is declined', async () => {
      const { admin } = fixture()
      const account = await admin.createAccount()
      const made = await account.live.post('/v1/templates', good)
      expect([made.status, made.body.status]).toEqual([201, 'pending_moderation'])
      const one = { to: freshNumber(), class: 'service', template: 'welcome', variables: { name: 'Ann' } }
      expect(errorOf(await account.live.post('/v1/messages', one))).toEqual([
        422,
        'template_not_approved',
        'template',
      ])
      await admin.addTemplate(account, 'live', {
        ...good,
        class: 'service',
        status: 'declined',
        reason: 'an advertisement',
      })
      const declined = await account.live.get(`/v1/templates/${made.body.id}`)
      expect([declined.body.status, declined.body.reason]).toEqual(['declined', 'an advertisement'])
      expect(errorOf(await account.live.post('/v1/messages', one))).toEqual([
        422,
        'template_declined',
        'template',
      ])
      await admin.addTemplate(account, 'live', { ...good, class: 'service', status: 'approved' })
      expect((await account.live.post('/v1/messages', one)).status).toBe(202)
    })

    // Rules: TPL-5, TPL-13
    it('a pending one can be deleted, an approved one cannot', async () => {
      const { live, test } = await fixture().admin.createAccount()
      const pending = await live.post('/v1/templates', good)
      const path = `/v1/templates/${pending.body.id}`
      expect((await live.request('DELETE', path)).body).toEqual({
        id: pending.body.id,
        object: 'template',
        deleted: true,
      })
      expect((await live.get(path)).status).toBe(404)
      const approved = await test.post('/v1/templates', good)
      expect(approved.body.placeholders).toEqual(['name'])
      expect(errorOf(await test.request('DELETE', `/v1/templates/${approved.body.id}`))).toEqual([
        422,
        'deletion_not_allowed',
        undefined,
      ])
    })

    // Rules: TPL-6, GEN-10
    it('a name is unique per account and mode', async () => {
      const { admin } = fixture()
      const { live, test } = await admin.createAccount()
      const other = await admin.createAccount()
      expect((await test.post('/v1/templates', good)).status).toBe(201)
      expect(errorOf(await test.post('/v1/templates', { ...good, body: 'other' }))).toEqual([
        422,
        'duplicate_rejected',
        'name',
      ])
      expect((await live.post('/v1/templates', good)).status).toBe(201)
      expect((await other.test.post('/v1/templates', good)).status).toBe(201)
    })

    // Rules: TPL-2, TPL-3, TPL-4, TPL-7, GEN-8
    it.each<[string, Record<string, unknown>, string, string]>([
      ['no name', { name: undefined }, 'invalid_parameter', 'name'],
      ['an empty name', { name: '' }, 'invalid_parameter', 'name'],
      ['a name of 65 characters', { name: 'x'.repeat(65) }, 'invalid_parameter', 'name'],
      ['a name in capitals', { name: 'Welcome' }, 'invalid_parameter', 'name'],
      ['an unknown class', { class: 'promo' }, 'invalid_parameter', 'class'],
      ['no class', { class: undefined }, 'invalid_parameter', 'class'],
      ['no sender', { sender: undefined }, 'invalid_parameter', 'sender'],
      ['a sender that does not exist', { sender: 'NOBODY' }, 'sender_not_registered', 'sender'],
      ['no body', { body: undefined }, 'invalid_parameter', 'body'],
      ['an empty body', { body: '' }, 'invalid_parameter', 'body'],
      ['a body of 2001 characters', { body: 'x'.repeat(2001) }, 'invalid_parameter', 'body'],
      ['a body with a tab', { body: 'a\tb' }, 'invalid_parameter', 'body'],
      ['an unterminated placeholder', { body: 'a {{name' }, 'template_invalid', 'body'],
      ['three braces', { body: '{{{name}}}' }, 'template_invalid', 'body'],
      ['a placeholder with a dash', { body: '{{first-name}}' }, 'template_invalid', 'body'],
      ['a placeholder that begins with a digit', { body: '{{1st}}' }, 'template_invalid', 'body'],
      ['a placeholder of 65 characters', { body: `{{${'n'.repeat(65)}}}` }, 'template_invalid', 'body'],
      ['a line feed inside a placeholder', { body: '{{na\nme}}' }, 'template_invalid', 'body'],
      ['an empty placeholder', { body: '{{}}' }, 'template_invalid', 'body'],
    ])('a template with %s is refused', async (_what, over, code, param) => {
      const { test } = await fixture().admin.createAccount()
      expect(errorOf(await test.post('/v1/templates', { ...good, ...over }))).toEqual([422, code, param])
    })

    // Rules: TPL-7, SND-10, HTTP-30
    it('a template with a pending sender can be created, and is refused at the first send', async () => {
      const { admin } = fixture()
      const account = await admin.createAccount()
      const sender = await account.live.post('/v1/senders', { name: 'SHOP', registration: { inn: '77' } })
      expect([sender.status, sender.body.status]).toEqual([201, 'pending'])
      const made = await account.live.post('/v1/templates', { ...good, sender: 'SHOP' })
      expect(made.status).toBe(201)
      const one = { to: freshNumber(), class: 'service', template: 'welcome', variables: { name: 'Ann' } }
      // The moderation of the template is checked before the sender.
      expect(errorOf(await account.live.post('/v1/messages', one))[1]).toBe('template_not_approved')
      await admin.addTemplate(account, 'live', { ...good, class: 'service', sender: 'SHOP' })
      expect(errorOf(await account.live.post('/v1/messages', one))).toEqual([
        422,
        'sender_not_registered',
        'template',
      ])
    })

    // Rules: TPL-14, TPL-19, TPL-20, TPL-22
    it('render returns text, encoding, parts and characters, and validates the values', async () => {
      const { test } = await fixture().admin.createAccount()
      const { body } = await test.post('/v1/templates', good)
      const render = (variables: unknown) => test.post(`/v1/templates/${body.id}/render`, { variables })
      const shown = await render({ name: 'Ann' })
      expect(shown.status).toBe(200)
      expect(shown.body).toMatchObject({
        text: 'Hello Ann, Ann!',
        encoding: 'gsm7',
        parts: 1,
        characters: 15,
      })
      expect(errorOf(await render({}))).toEqual([422, 'template_variable_missing', 'variables.name'])
      expect(errorOf(await render({ name: 'A', more: 'B' }))).toEqual([
        422,
        'template_variable_unknown',
        'variables.more',
      ])
      expect(errorOf(await render({ name: [] }))).toEqual([
        422,
        'template_variable_invalid',
        'variables.name',
      ])
      const long = await test.post('/v1/templates', { ...good, name: 'many', body: '{{a}}{{b}}' })
      const tooLong = await test.post(`/v1/templates/${long.body.id}/render`, {
        variables: { a: 'ж'.repeat(400), b: 'ж'.repeat(400) },
      })
      expect(errorOf(tooLong)[1]).toBe('template_text_too_long')
      expect((await test.post('/v1/templates/tpl_nothing/render', { variables: {} })).status).toBe(404)
    })

    // Rules: TPL-11, LIST-4, LIST-5, LIST-9, GEN-4
    it('templates of the account and mode are listed in pages, newest first', async () => {
      const { admin } = fixture()
      const { live, test } = await admin.createAccount()
      const other = await admin.createAccount()
      const made: Array<string> = []
      for (const name of ['one', 'two', 'three']) {
        made.unshift((await test.post('/v1/templates', { ...good, name })).body.id)
      }
      const page = await test.get('/v1/templates?limit=2')
      expect(page.body).toMatchObject({ object: 'list', has_more: true, next_cursor: made[1] })
      expect(page.body.data.map(({ id }: any) => id)).toEqual(made.slice(0, 2))
      const rest = await test.get(`/v1/templates?starting_after=${made[1]}`)
      expect(rest.body.data[0].id).toBe(made[2])
      // The third template, and the two of every test account.
      expect(rest.body).toMatchObject({ has_more: false })
      expect(rest.body.data).toHaveLength(3)
      for (const apiClient of [live, other.test]) {
        expect(errorOf(await apiClient.get(`/v1/templates/${made[0]}`))).toEqual([
          404,
          'not_found',
          undefined,
        ])
        expect((await apiClient.get(`/v1/templates?starting_after=${made[0]}`)).status).toBe(404)
      }
    })
  })

  describe('Senders', () => {
    // Rules: SND-1, SND-3, SND-4, SND-5, SND-7
    it('creation answers 201: registered at once in test mode, pending in live mode', async () => {
      const { live, test } = await fixture().admin.createAccount()
      const registration = { inn: '7707083893', documents: [{ kind: 'letter' }] }
      const made = await test.post('/v1/senders', { name: 'Shop-1', registration })
      expect(made.status).toBe(201)
      expect(made.body).toMatchObject({
        id: anId('snd'),
        object: 'sender',
        name: 'Shop-1',
        registration,
        status: 'registered',
        created_at: aMoment(),
      })
      expect((await test.get(`/v1/senders/${made.body.id}`)).body).toEqual(made.body)
      const plainOne = await live.post('/v1/senders', { name: 'Shop-1' })
      expect([plainOne.status, plainOne.body.status]).toEqual([201, 'pending'])
      expect(errorOf(await live.post('/v1/senders', { name: 'Shop-1' }))).toEqual([
        422,
        'duplicate_rejected',
        'name',
      ])
      const list = await live.get('/v1/senders')
      expect(list.body).toMatchObject({ object: 'list', has_more: false })
      expect(list.body.data.map(({ name }: any) => name)).toEqual(['Shop-1', 'HUB'])
    })

    // Rules: SND-2, SND-3
    it.each<[string, Record<string, unknown>, string]>([
      ['no name', {}, 'name'],
      ['an empty name', { name: '' }, 'name'],
      ['twelve characters', { name: 'ABCDEFGHIJKL' }, 'name'],
      ['digits only', { name: '12345' }, 'name'],
      ['Cyrillic letters', { name: 'МАГАЗИН' }, 'name'],
      ['an exclamation mark', { name: 'SHOP!' }, 'name'],
      ['a number as its name', { name: 7 }, 'name'],
      ['a string as its registration', { name: 'SHOP', registration: 'x' }, 'registration'],
      ['an array for its registration', { name: 'SHOP', registration: [] }, 'registration'],
      ['9 KiB of registration', { name: 'SHOP', registration: { a: 'x'.repeat(9000) } }, 'registration'],
    ])('a sender with %s is refused', async (_what, body, param) => {
      const { test } = await fixture().admin.createAccount()
      expect(errorOf(await test.post('/v1/senders', body))).toEqual([422, 'invalid_parameter', param])
    })

    // Rules: SND-7, GEN-4
    it('senders of another account or mode get the same answer as missing ones', async () => {
      const { admin } = fixture()
      const { live, test } = await admin.createAccount()
      const other = await admin.createAccount()
      const { body } = await test.post('/v1/senders', { name: 'MINE' })
      for (const apiClient of [live, other.test]) {
        expect(errorOf(await apiClient.get(`/v1/senders/${body.id}`))).toEqual([404, 'not_found', undefined])
      }
    })
  })
}
