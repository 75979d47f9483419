/**
 * Runs `hubctl` against a running hub and checks that clients see the changes. It finds the hub by
 * the file in the data folder of the local stack, as after `npm start`.
 */
import { execFile } from 'node:child_process'
import { eventually, openDatabase } from '@hub/testkit'
import { programFile } from '@hub/local-stack'
import { startHub, type TestHub, WITHOUT_WEBHOOKS } from '../support/hub.ts'
import { afterAll, assert, beforeAll, describe, it } from 'vitest'
import { type Client, client } from '../support/client.ts'

const EVERY = { everyMs: 100 }

const NUMBER = '+79005554433'

let hub: TestHub

beforeAll(async () => {
  hub = await startHub({ apps: WITHOUT_WEBHOOKS })
})
afterAll(async () => {
  await hub?.stop()
})

interface Ended {
  readonly code: number
  readonly out: string
  readonly err: string
}

const run = async (...words: ReadonlyArray<string>): Promise<Ended> => {
  const main = await programFile('hubctl')
  return new Promise((resolve) => {
    const { NODE_COMPILE_CACHE, PATH } = process.env
    const environment = { NODE_COMPILE_CACHE, PATH, HUB_DATA_DIR: hub.dataDir, HUBCTL_ACTOR: 'on call' }
    execFile(process.execPath, [main, ...words], { env: environment }, (error, out, err) =>
      resolve({ code: typeof error?.code === 'number' ? error.code : error === null ? 0 : -1, out, err }),
    )
  })
}

/** Runs a command that must succeed, and returns its JSON document. */
const hubctl = async <A>(...words: ReadonlyArray<string>): Promise<A> => {
  const ended = await run(...words, '--json')
  assert.strictEqual(ended.code, 0, ended.err)
  assert.include(ended.err, `the local hub in ${hub.dataDir}`)
  return JSON.parse(ended.out) as A
}

const send = (apiClient: Client, more: Readonly<Record<string, unknown>> = {}) =>
  apiClient.post('/v1/messages', {
    to: '+79005550000',
    class: 'service',
    template: 'order_ready',
    variables: { order: '7' },
    ...more,
  })

interface Issued {
  readonly id: string
  readonly key: string
}

describe('hubctl', () => {
  it('issues and revokes keys, moderates templates, stops the hub, erases a recipient, and keeps an audit trail without numbers', async () => {
    const { base_url: base, database_url: databaseUrl } = hub.describe()
    const { data: accounts } = await hubctl<{
      readonly data: ReadonlyArray<{ readonly id: string; readonly name: string }>
    }>('accounts', 'list')
    const account = accounts.find(({ name }) => name === 'Local')?.id ?? ''

    // An API key works at once. Of two keys, one is revoked.
    const [issued, revoked] = await Promise.all([
      hubctl<Issued>('keys', 'issue', account),
      hubctl<Issued>('keys', 'issue', account),
    ])
    const apiClient = client(base, issued.key)
    const person = await send(apiClient, { to: NUMBER })
    assert.strictEqual(person.status, 202)
    assert.strictEqual((await send(client(base, revoked.key))).status, 202)
    await hubctl('keys', 'revoke', revoked.id, '--yes')
    await eventually(async () => {
      const refused = await client(base, revoked.key).get('/v1/account')
      assert.deepStrictEqual([refused.status, refused.body.error?.code], [401, 'invalid_api_key'])
      return true
    }, EVERY)

    // Decline a template.
    const { data: templates } = await hubctl<{
      readonly data: ReadonlyArray<{ readonly id: string; readonly name: string }>
    }>('templates', 'list', '--account', account, '--mode', 'test')
    const template = templates.find(({ name }) => name === 'order_ready')?.id ?? ''
    await hubctl('templates', 'decline', template, '--reason', 'It names no sender')
    await eventually(async () => {
      const refused = await send(apiClient)
      assert.deepStrictEqual([refused.status, refused.body.error?.code], [422, 'template_declined'])
      return true
    }, EVERY)
    await hubctl('templates', 'approve', template)
    await eventually(async () => {
      const { body } = await apiClient.get('/v1/events?type=template.declined&type=template.approved')
      assert.deepStrictEqual(
        (body.data as ReadonlyArray<{ readonly type: string }>).map(({ type }) => type),
        ['template.declined', 'template.approved'],
      )
      return true
    }, EVERY)

    // Stop the hub and resume it.
    const stop = await hubctl<{ readonly stopped_until: string }>('hub', 'stop', '--for', '30m', '--yes')
    await eventually(async () => {
      const refused = await send(apiClient)
      assert.deepStrictEqual([refused.status, refused.body.error?.code], [429, 'hub_daily_limit_reached'])
      assert.isAbove(refused.body.error.retry_after, 60)
      assert.isAtMost(refused.body.error.retry_after, 1800)
      assert.include(refused.body.error.message, `again at ${stop.stopped_until}`)
      return true
    }, EVERY)
    await hubctl('hub', 'resume')
    await eventually(async () => {
      assert.strictEqual((await send(apiClient)).status, 202)
      return true
    }, EVERY)

    // Erase a recipient.
    const read = () => apiClient.get(`/v1/messages/${person.body.id as string}`)
    await eventually(async () => {
      const { body } = await read()
      assert.deepInclude(body, { status: 'delivered', to: '+7900***4433' })
      assert.isNotNull(body.text)
      return true
    }, EVERY)
    const receipt = await hubctl<{ readonly id: string; readonly removed: object }>(
      'recipients',
      'erase',
      NUMBER,
      '--yes',
    )
    assert.include(receipt.removed, { numbers_and_texts: 1 })
    assert.deepInclude((await read()).body, { status: 'delivered', to: '', text: null })

    // The audit trail contains all commands, and no number.
    const trail = await run('audit', 'list', '--json')
    const lines = (
      JSON.parse(trail.out) as {
        readonly data: ReadonlyArray<{
          readonly command: string
          readonly actor: string
          readonly outcome: string
        }>
      }
    ).data
    assert.deepStrictEqual(
      lines.map(({ actor, command, outcome }) => `${actor}: ${command} ${outcome}`).toReversed(),
      [
        'on call: keys issue done',
        'on call: keys issue done',
        'on call: keys revoke done',
        'on call: templates decline done',
        'on call: templates approve done',
        'on call: hub stop done',
        'on call: hub resume done',
        'on call: recipients erase done',
      ],
    )
    assert.include(trail.out, receipt.id)
    const sql = openDatabase(databaseUrl)
    try {
      const [row] = await sql`SELECT string_agg(audit::text, ' ') AS text FROM command.audit`
      assert.notInclude(row?.['text'] as string, NUMBER.slice(1))
      assert.notInclude(row?.['text'] as string, issued.key)
    } finally {
      await sql.end()
    }
  })

  it('shows what the operator sent about a message, and writes that to the audit trail', async () => {
    const { base_url: base, keys } = hub.describe()
    const live = client(base, keys.live)
    const { body } = await send(live, { to: '+79005554455' })
    const id = body.id as string
    await eventually(async () => (await live.get(`/v1/messages/${id}`)).body.status === 'delivered', EVERY)
    // The answer follows the submit within a moment.
    const records = await eventually(async () => {
      const { data } = await hubctl<{
        readonly data: ReadonlyArray<{
          readonly kind: string
          readonly outcome: string | null
          readonly raw: string | null
        }>
      }>('messages', 'raw', id)
      return data.length === 2 ? data : null
    }, EVERY)
    assert.deepStrictEqual(
      records.map(({ kind, outcome }) => [kind, outcome]),
      [
        ['answer', null],
        ['report', 'delivered'],
      ],
    )
    // A submit_sm_resp with status 0: command id and status follow the length.
    assert.include(records[0]?.raw ?? '', String.raw`\x80\x00\x00\x04\x00\x00\x00\x00`)
    // The receipt is text inside of a deliver_sm.
    assert.include(records[1]?.raw ?? '', 'stat:DELIVRD')

    const { data: trail } = await hubctl<{
      readonly data: ReadonlyArray<{ readonly command: string; readonly arguments: object }>
    }>('audit', 'list')
    assert.isTrue(
      trail.some((row) => row.command === 'messages raw' && JSON.stringify(row.arguments).includes(id)),
    )
    const unknown = await run('messages', 'raw', 'msg_06fs37r7c5yb6k1v9b2h8zq4mt', '--json')
    assert.include(unknown.err, 'message_not_found')
  })
})
