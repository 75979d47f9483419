/**
 * Declined templates and senders: submitted again, listed and deleted; and the placeholders of a
 * template. Source: the pages templates and senders of docs/contract.
 */
import { assert, describe, it } from 'vitest'
import {
  type Account,
  type Api,
  call,
  type Deployment,
  startBeforeTests,
  type TestResponse,
} from '../testing/harness.ts'

let deployment: Deployment
let api: Api
let account: Account
startBeforeTests((started) => ({ deployment, api, account } = started))

interface Resource {
  readonly id: string
  readonly status: string
  readonly [name: string]: unknown
}

const request = (
  method: string,
  path: string,
  body?: object,
  key = account.keys.live,
  headers: Readonly<Record<string, string>> = {},
) => call(api.url, path, { key, method, headers, ...(body === undefined ? {} : { body }) })
const resource = (answer: TestResponse, status: number): Resource => {
  assert.strictEqual(answer.status, status, JSON.stringify(answer.body))
  return answer.body as Resource
}
const code = ({ body, status }: TestResponse) => [
  status,
  (body as { readonly error: { readonly code: string } }).error.code,
]
const names = async (path: string) => {
  const { data } = resource(await request('GET', path), 200) as unknown as { data: ReadonlyArray<Resource> }
  return data.map(({ id }) => id)
}

const KINDS = [
  {
    kind: 'templates',
    table: 'command.templates',
    body: (name: string) => ({ name, class: 'service', sender: 'HUB', body: 'Заказ {{order}} готов' }),
    pending: 'pending_moderation',
    usable: 'approved',
  },
  {
    kind: 'senders',
    table: 'command.senders',
    body: (name: string) => ({ name, registration: { inn: '7700000000' } }),
    pending: 'pending',
    usable: 'registered',
  },
] as const

describe.each(KINDS)('declined $kind', ({ body, kind, pending, table, usable }) => {
  const path = `/v1/${kind}`
  const decide = (name: string, status: string) =>
    deployment.sql(
      (q) => q`UPDATE ${q(table)} SET status = ${status}, reason = 'advertising'
                WHERE account = ${account.uuid} AND mode = 'live' AND name = ${name}`,
    )

  // Rules: TPL-9, TPL-12, SND-6, SND-7
  it('can be submitted again under their name, and are superseded by the new ones', async () => {
    const first = resource(await request('POST', path, body('again.1')), 201)
    assert.deepStrictEqual(code(await request('POST', path, body('again.1'))), [422, 'duplicate_rejected'])
    await decide('again.1', 'declined')
    const answers = await Promise.all(Array.from({ length: 6 }, () => request('POST', path, body('again.1'))))
    const made = answers.filter(({ status }) => status === 201)
    assert.lengthOf(made, 1)
    const second = resource(made[0]!, 201)
    assert.notStrictEqual(second.id, first.id)
    assert.deepInclude(second, { status: pending, reason: null, name: 'again.1' })

    const all = await names(path)
    assert.include(all, second.id)
    assert.notInclude(all, first.id)
    assert.notInclude(await names(`${path}?status=${pending}`), first.id)
    assert.include(await names(`${path}?status=declined`), first.id)
    assert.deepInclude(resource(await request('GET', `${path}/${first.id}`), 200), {
      status: 'declined',
      reason: 'advertising',
    })

    await decide('again.1', 'declined')
    const third = resource(await request('POST', path, body('again.1')), 201)
    const declined = await names(`${path}?status=declined`)
    assert.deepStrictEqual(
      declined.filter((id) => id === first.id || id === second.id),
      [second.id, first.id],
    )
    assert.deepStrictEqual(
      (await names(`${path}?status=declined&limit=1&starting_after=${second.id}`)).slice(0, 1),
      [first.id],
    )
    assert.include(await names(path), third.id)
  })

  // Rules: TPL-12, SND-7
  it('are listed until they are superseded', async () => {
    const made = resource(await request('POST', path, body('listed')), 201)
    await decide('listed', 'declined')
    assert.include(await names(path), made.id)
    assert.include(await names(`${path}?status=declined`), made.id)
  })

  // Rules: TPL-13, SND-8
  it('can be deleted, like pending ones, and no others', async () => {
    const waiting = resource(await request('POST', path, body('waiting.1')), 201)
    assert.deepStrictEqual((await request('DELETE', `${path}/${waiting.id}`)).body, {
      id: waiting.id,
      object: kind.slice(0, -1),
      deleted: true,
    })
    assert.deepStrictEqual(code(await request('DELETE', `${path}/${waiting.id}`)), [404, 'not_found'])
    assert.deepStrictEqual(code(await request('GET', `${path}/${waiting.id}`)), [404, 'not_found'])

    const superseded = resource(await request('POST', path, body('waiting.1')), 201)
    await decide('waiting.1', 'declined')
    const current = resource(await request('POST', path, body('waiting.1')), 201)
    resource(await request('DELETE', `${path}/${superseded.id}`), 200)
    assert.notInclude(await names(`${path}?status=declined`), superseded.id)
    assert.include(await names(path), current.id)

    await decide('waiting.1', usable)
    assert.deepStrictEqual(code(await request('DELETE', `${path}/${current.id}`)), [
      422,
      'deletion_not_allowed',
    ])
    assert.deepStrictEqual(
      code(await request('DELETE', `${path}/${current.id}`, undefined, account.keys.test)),
      [404, 'not_found'],
    )
    assert.deepStrictEqual(code(await request('DELETE', `${path}/nothing`)), [404, 'not_found'])
  })

  // Rules: TPL-12, SND-7, LIST-8
  it('answer an unknown status with its name', async () => {
    const answer = await request('GET', `${path}?status=lost`)
    assert.strictEqual(answer.status, 422)
    assert.deepInclude((answer.body as { error: object }).error, { param: 'status' })
  })
})

describe('a sender', () => {
  // Rules: SND-8, SND-9
  it('that a template names is not deleted', async () => {
    const sender = resource(await request('POST', '/v1/senders', { name: 'Named' }), 201)
    const template = resource(
      await request('POST', '/v1/templates', { name: 'of.named', class: 'otp', sender: 'Named', body: 'x' }),
      201,
    )
    const refused = await request('DELETE', `/v1/senders/${sender.id}`)
    assert.deepStrictEqual(code(refused), [422, 'deletion_not_allowed'])
    assert.match((refused.body as { error: { message: string } }).error.message, /: of\.named\.$/u)
    resource(await request('DELETE', `/v1/templates/${template.id}`), 200)
    resource(await request('DELETE', `/v1/senders/${sender.id}`), 200)
  })

  // Source: TPL-13, SND-8, SND-9: what is pending or declined can be deleted. Hub staff may
  // decline what they approved, so every pair of states occurs.
  const PAIRS = ['pending', 'registered', 'declined'].flatMap((ofSender) =>
    ['pending_moderation', 'approved', 'declined'].map((ofTemplate) => [ofSender, ofTemplate] as const),
  )
  // Rules: TPL-13, SND-8, SND-9
  it.each(PAIRS)('that is %s goes as its template that is %s allows, without a dead end', async (...pair) => {
    const [ofSender, ofTemplate] = pair
    const name = `S${PAIRS.findIndex((one) => one.join() === pair.join())}`
    const sender = resource(await request('POST', '/v1/senders', { name }), 201)
    const body = { name: `of.${name.toLowerCase()}`, class: 'otp', sender: name, body: 'x' }
    const template = resource(await request('POST', '/v1/templates', body), 201)
    await deployment.sql(async (q) => {
      await q`UPDATE command.senders SET status = ${ofSender} WHERE name = ${name} AND account = ${account.uuid}`
      await q`UPDATE command.templates SET status = ${ofTemplate} WHERE name = ${body.name} AND account = ${account.uuid}`
    })
    const remove = (path: string) => request('DELETE', path)
    const refused = await remove(`/v1/senders/${sender.id}`)
    assert.deepStrictEqual(code(refused), [422, 'deletion_not_allowed'])
    const { message } = (refused.body as { error: { message: string } }).error
    if (ofSender === 'registered') {
      assert.match(message, /pending or declined/u)
      const kept = ofTemplate === 'approved'
      assert.strictEqual((await remove(`/v1/templates/${template.id}`)).status, kept ? 422 : 200)
      assert.strictEqual((await remove(`/v1/senders/${sender.id}`)).status, 422)
      return
    }
    // The refusal names the template, and what it says can be done.
    assert.include(message, `: ${body.name}.`)
    resource(await remove(`/v1/templates/${template.id}`), 200)
    resource(await remove(`/v1/senders/${sender.id}`), 200)
    // Both names are free again.
    resource(await request('POST', '/v1/senders', { name }), 201)
    resource(await request('POST', '/v1/templates', body), 201)
  })

  // Rules: SND-9
  it('that many templates name tells the next ones after each deletion', async () => {
    const sender = resource(await request('POST', '/v1/senders', { name: 'Many' }), 201)
    const templates = new Map<string, string>()
    for (let n = 0; n < 7; n++) {
      const name = `many.${n}`
      const body = { name, class: 'otp', sender: 'Many', body: 'x' }
      templates.set(name, resource(await request('POST', '/v1/templates', body), 201).id)
    }
    for (;;) {
      const answer = await request('DELETE', `/v1/senders/${sender.id}`)
      if (answer.status === 200) break
      const { message } = (answer.body as { error: { message: string } }).error
      const named = /: (?<names>.*)\.$/u.exec(message)?.groups?.['names']?.split(', ') ?? []
      assert.isNotEmpty(named)
      for (const name of named) {
        resource(await request('DELETE', `/v1/templates/${templates.get(name)}`), 200)
        templates.delete(name)
      }
    }
    assert.strictEqual(templates.size, 0)
  })
})

describe('a template', () => {
  // Rules: TPL-5
  it('lists its placeholders, each once, in the order of the text', async () => {
    const made = resource(
      await request('POST', '/v1/templates', {
        name: 'placed',
        class: 'service',
        sender: 'HUB',
        body: '{{ b }} {{a}} {{b}} {c}',
      }),
      201,
    )
    assert.deepStrictEqual(made['placeholders'], ['b', 'a'])
    const plain = resource(
      await request('POST', '/v1/templates', { name: 'plain', class: 'service', sender: 'HUB', body: 'x' }),
      201,
    )
    assert.deepStrictEqual(plain['placeholders'], [])
  })

  // Rules: TPL-10
  it('with names in single braces is created in test mode with a warning, in live mode without', async () => {
    const wanted = { class: 'service', sender: 'HUB', body: '${order} {code} {{name}}' }
    const made = await request('POST', '/v1/templates', { name: 'doubtful', ...wanted }, account.keys.test)
    assert.deepStrictEqual(resource(made, 201)['placeholders'], ['name'])
    const warnings = made.headers.get('hub-warning') ?? ''
    assert.include(warnings, '"${order}"')
    assert.include(warnings, '"{code}"')
    const live = await request('POST', '/v1/templates', { name: 'doubtful', ...wanted })
    assert.strictEqual(live.status, 201)
    assert.isNull(live.headers.get('hub-warning'))
    const plain = { name: 'not.doubtful', ...wanted, body: '{{name}}' }
    assert.isNull(
      (await request('POST', '/v1/templates', plain, account.keys.test)).headers.get('hub-warning'),
    )
  })

  it('has the same warnings when its creation is repeated under its idempotency key', async () => {
    const wanted = { name: 'repeated', class: 'service', sender: 'HUB', body: '{code}', colour: 'red' }
    const create = () =>
      request('POST', '/v1/templates', wanted, account.keys.test, { 'idempotency-key': 'warnings' })
    const [first, repeated] = [await create(), await create()]
    assert.strictEqual(repeated.headers.get('idempotent-replayed'), 'true')
    assert.include(first.headers.get('hub-warning') ?? '', '"{code}"')
    assert.strictEqual(repeated.headers.get('hub-warning'), first.headers.get('hub-warning'))
  })
})
