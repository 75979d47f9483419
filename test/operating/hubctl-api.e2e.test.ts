/**
 * `hubctl --api` against a hub with an identity provider: no database, no master key and no hash secret on
 * the machine of the person.
 */
import { recipientHash } from '@hub/domain'
import { ensureSecrets, programFile } from '@hub/local-stack'
import { openDatabase, startIdentityProvider, type TestIdentityProvider } from '@hub/testkit'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { runTool } from '../support/external-tools.ts'
import { startHub, type TestHub } from '../support/hub.ts'

/** Only ends a command that hangs. */
const WITHIN_MS = 120_000

let provider: TestIdentityProvider
let hub: TestHub

beforeAll(async () => {
  provider = await startIdentityProvider({ redirectUri: null, program: ['sms-operators'] })
  hub = await startHub({
    operations: true,
    apps: ['command-api'],
    environment: {
      HUB_OIDC_ISSUER: provider.issuer,
      HUB_OIDC_CLIENT_ID: provider.clientId,
      HUB_OIDC_CLIENT_SECRET: provider.clientSecret,
      HUB_OIDC_AUDIENCE: provider.audience,
      HUB_OIDC_ROLES: '{"sms-operators": "operator"}',
    },
  })
})
afterAll(async () => {
  await hub.stop()
  await provider.stop()
})

const hubctl = async (
  args: ReadonlyArray<string>,
  environment: Readonly<Record<string, string>> = {},
): Promise<{ readonly code: number; readonly text: string }> =>
  runTool(
    'env',
    [
      '-i',
      `PATH=${process.env['PATH'] ?? ''}`,
      `HUBCTL_API_TOKEN=${await provider.tokenFor(provider.audience)}`,
      ...Object.entries(environment).map(([name, value]) => `${name}=${value}`),
      process.execPath,
      await programFile('hubctl'),
      ...args,
      '--yes',
    ],
    { withinMs: WITHIN_MS },
  )

const api = (): string => hub.describe().operations_url ?? ''

describe('hubctl --api', () => {
  it('creates an account and a key, in the name and with the role of the token', async () => {
    const created = await hubctl(['accounts', 'create', 'Shop', '--json', '--api', api()])
    expect(created.code, created.text).toBe(0)
    const account = /acc_[0-9a-z]{26}/u.exec(created.text)?.[0] ?? ''
    const issued = await hubctl(['keys', 'issue', account], { HUBCTL_API_URL: api() })
    expect(issued.code, issued.text).toBe(0)
    const key = /hub_test_[A-Za-z0-9]+/u.exec(issued.text)?.[0] ?? ''
    const answer = await fetch(`${hub.describe().base_url}/v1/account`, {
      headers: { authorization: `Bearer ${key}` },
    })
    expect(await answer.json()).toMatchObject({ id: account })
    const sql = openDatabase(hub.describe().database_url)
    const rows = await sql`
      SELECT actor, role, command, outcome FROM command.audit WHERE outcome = 'done' ORDER BY place`
    await sql.end()
    expect(rows).toMatchObject([
      { actor: provider.program, role: 'operator', command: 'accounts create' },
      { actor: provider.program, role: 'operator', command: 'keys issue' },
    ])
  })

  it('refuses what the roles do not permit, and what does not exist', async () => {
    const approved = await hubctl(['templates', 'approve', 'tpl_01m7yt89qhe54swwc8wkxj6n8e', '--api', api()])
    expect(approved.code).toBe(1)
    expect(approved.text).toContain('(forbidden)')
    const shown = await hubctl(['accounts', 'show', 'acc_01m7yt89qhe54swwc8wkxj6n8e', '--api', api()])
    expect(shown.code).toBe(1)
    expect(shown.text).toContain('(account_not_found)')
  })

  it.each([
    ['config', /settings of this machine/u],
    ['migrations status', /needs the schema/u],
    ['topics diff', /part of the installation/u],
    ['projections cancel', /replaces the tables/u],
    ['restore journal', /restore of a backup/u],
    ['opt-outs import -', /larger than a request/u],
  ])('refuses %s, which needs the servers, and says why', async (command, why) => {
    const { code, text } = await hubctl([...command.split(' '), '--api', api()])
    expect(code, text).toBe(1)
    expect(text).toContain('This command does not work with --api')
    expect(text).toMatch(why)
  })

  it('finds by a number without the hash secret, and shows what happened', async () => {
    const found = await hubctl(['messages', 'find', '--recipient', '+79000000001', '--api', api()])
    expect(found.text).toContain('There are none.')
    const checked = await hubctl(['opt-outs', 'check', '+79000000001', '--json', '--api', api()])
    expect(checked.text).toContain(recipientHash(ensureSecrets(hub.dataDir).numberHashSecret, '+79000000001'))
    const unknown = await hubctl(['messages', 'timeline', 'msg_01m7yt89qhe54swwc8wkxj6n8e', '--api', api()])
    expect(unknown.text).toContain('(message_not_found)')
    const usage = await hubctl(['usage', '--api', api()])
    expect(usage.code, usage.text).toBe(0)
    expect(usage.text).toContain('month,account,name')
    const doctor = await hubctl(['doctor', '--json', '--api', api()])
    expect(doctor.text).toContain('"subject": "PostgreSQL"')
    // The role operator must neither reveal nor hash.
    const hashed = await hubctl(['hash', '+79000000001', '--api', api()])
    expect(hashed.text).toContain('(forbidden)')
    const inbound = await hubctl(['inbound', 'list', '--reason', 'Ticket 4711', '--api', api()])
    expect(inbound.text).toContain('(forbidden)')
  })

  it('needs a token, and an address that nobody can read', async () => {
    const without = await hubctl(['accounts', 'list', '--api', api()], { HUBCTL_API_TOKEN: '' })
    expect(without.code).toBe(3)
    expect(without.text).toContain('HUBCTL_API_TOKEN is not set')
    const plain = await hubctl(['accounts', 'list', '--api', 'http://hub.example.com'])
    expect(plain.code).toBe(2)
    expect(plain.text).toContain('must have an https address')
  })

  it('says that the API does not answer', async () => {
    const { code, text } = await hubctl(['accounts', 'list', '--api', 'http://127.0.0.1:1'])
    expect(code).toBe(3)
    expect(text).toContain('(api_unavailable)')
  })
})
