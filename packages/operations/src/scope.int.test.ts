/**
 * Members over PostgreSQL: every use case, with the ids of another account. The answer equals the one for ids that do
 * not exist. A new use case for members fails here until it has an input below.
 */
import { randomBytes, randomUUID } from 'node:crypto'
import { encodeId, type IdPrefix, newId } from '@hub/domain'
import { CommandSenders, CommandTemplates, uuidOf } from '@hub/store'
import { Effect, Result } from 'effect'
import { afterAll, assert, beforeAll, describe, it } from 'vitest'
import type { Actor } from './actor.ts'
import { describeFailure } from './failures.ts'
import * as Keys from './keys.ts'
import { perform } from './perform.ts'
import { readNewest } from './tables/audit.ts'
import { insert as insertKeyRequest } from './tables/key-requests.ts'
import { type AnyUseCase, allUseCases } from './testing/all-use-cases.ts'
import { ADMIN, ANY_MESSAGE, makeTestHub, NUMBER, type TestHub } from './testing/test-hub.ts'
import type { UseCase } from './use-case.ts'

/** One thing of each kind of an account. */
type Things = Readonly<Record<Exclude<IdPrefix, 'req'>, string>> & {
  readonly clientRef: string
  /** At the SMS operator. */
  readonly operatorId: string
}

let hub: TestHub
let own: Things
let foreign: Things
/** Ids in the same form that nothing has. */
let missing: Things
let member: Actor

const now = Date.now()
const month = new Date(now).toISOString().slice(0, 'YYYY-MM'.length)
const today = new Date(now).toISOString().slice(0, 'YYYY-MM-DD'.length)

const freshId = (prefix: IdPrefix): string => newId(prefix, now, randomBytes(10))

const freshIds = (): Things => ({
  msg: freshId('msg'),
  bat: freshId('bat'),
  evt: freshId('evt'),
  evb: freshId('evb'),
  we: freshId('we'),
  whd: freshId('whd'),
  tpl: freshId('tpl'),
  snd: freshId('snd'),
  acc: encodeId('acc', randomUUID()),
  key: freshId('key'),
  clientRef: randomUUID(),
  operatorId: randomUUID(),
})

/** Inserts an account with one thing of each kind. */
const insertThings = async (name: string): Promise<Things> => {
  const { sql } = hub
  const { id: acc, uuid: account } = await hub.account(name)
  const ids = { ...freshIds(), acc }
  const of = { account, mode: 'live' } as const
  await sql`INSERT INTO read.batches (id, account, mode) VALUES (${uuidOf('bat', ids.bat)}, ${account}, 'live')`
  const msg = await hub.message({
    account,
    batch: uuidOf('bat', ids.bat),
    clientRef: ids.clientRef,
    status: 'sent',
    history: [['sent', now]],
  })
  await sql`INSERT INTO read.operator_ids ${sql({ message_id: uuidOf('msg', msg), operator: 'smpp', operator_id: ids.operatorId, sent_at: new Date(now) })}`
  // For the backlog.
  await hub.message({ account, status: 'accepted' })
  await sql`INSERT INTO read.charges (message_id, kind, account, period, amount, currency, created_at)
    VALUES (${uuidOf('msg', msg)}, 'charge', ${account}, ${`${month}-01`}, '1.00', 'RUB', now())`
  const counts = {
    accepted: 1,
    sent: 1,
    delivered: 0,
    undelivered: 0,
    rejected: 0,
    expired: 0,
    parts: 1,
    price: '1',
  }
  await sql`INSERT INTO read.daily_stats ${sql({ ...of, ...counts, day: today, class: 'service', template: 'order_ready', currency: 'RUB' })}`
  await sql`INSERT INTO read.hourly_stats ${sql({ ...of, ...counts, hour: new Date(now - (now % 3_600_000)), reason_code: '', currency: 'RUB' })}`
  await sql`INSERT INTO webhooks.endpoints (id, account, mode, url, secret, status, consecutive_failures)
    VALUES (${uuidOf('we', ids.we)}, ${account}, 'live', ${`https://${name}.example/hook`}, '', 'enabled', 0)`
  const body = JSON.stringify({ id: ids.evt, type: 'message.sent', data: { object: { id: msg } } })
  await sql`INSERT INTO read.events (account, mode, sequence, id, type, created_at, body)
    VALUES (${account}, 'live', 1, ${uuidOf('evt', ids.evt)}, 'message.sent', now(), ${body})`
  await sql`INSERT INTO webhooks.batch_events (endpoint_id, event_id, batch_id, position)
    VALUES (${uuidOf('we', ids.we)}, ${uuidOf('evt', ids.evt)}, ${uuidOf('evb', ids.evb)}, 1)`
  await sql`INSERT INTO webhooks.attempts (id, endpoint_id, batch_id, attempt, status, response_code, duration_ms, created_at)
    VALUES (${uuidOf('whd', ids.whd)}, ${uuidOf('we', ids.we)}, ${uuidOf('evb', ids.evb)}, 1, 'succeeded', 200, 12, now())`
  const shop = { ...of, name: 'SHOP' }
  await CommandSenders.insert(sql, {
    ...shop,
    id: uuidOf('snd', ids.snd),
    registration: '{}',
    status: 'pending',
  })
  await CommandTemplates.insert(sql, {
    ...of,
    id: uuidOf('tpl', ids.tpl),
    name: 'order_ready',
    class: 'service',
    sender: 'SHOP',
    body: 'Order {{order}}',
    language: null,
    status: 'pending_moderation',
  })
  const { id: key } = await hub.run(Keys.issue, {
    account: acc,
    mode: 'test',
    allowed_addresses: [],
    scopes: null,
    expires_after_seconds: null,
  })
  await insertKeyRequest(
    sql,
    {
      id: randomUUID(),
      account,
      allowed: [],
      scopes: null,
      expires_after_seconds: null,
      replaces: null,
      overlap_seconds: null,
    },
    ADMIN,
  )
  return { ...ids, msg, key }
}

beforeAll(async () => {
  hub = await makeTestHub()
  own = await insertThings('own')
  foreign = await insertThings('foreign')
  missing = freshIds()
  member = { id: 'https://id.example|max', name: 'max', roles: ['member'], accounts: [own.acc], via: 'api' }
})
afterAll(() => hub.remove())

const PAGE = { limit: 50, cursor: null }
const ANY_ATTEMPT = {
  status: null,
  response_code: null,
  event: null,
  created_after: null,
  created_before: null,
  ...PAGE,
}

type Inputs = (ids: Things) => ReadonlyArray<Readonly<Record<string, unknown>>>

const byAccount =
  (rest: Readonly<Record<string, unknown>>): Inputs =>
  ({ acc }) => [{ account: acc, ...rest }]
const byId =
  (prefix: keyof Things): Inputs =>
  (ids) => [{ id: ids[prefix] }]

/** Inputs that show or change something of the account of these ids, with each kind of id that they may have. */
const INPUTS: Readonly<Record<string, Inputs>> = {
  'Messages.list': ({ acc, bat }) => [
    { ...ANY_MESSAGE, account: acc },
    { ...ANY_MESSAGE, account: acc, batch: bat },
  ],
  'Messages.get': byId('msg'),
  'Messages.find': (ids) =>
    [
      ids.msg,
      ids.bat,
      ids.evt,
      ids.evb,
      ids.we,
      ids.whd,
      ids.tpl,
      ids.snd,
      ids.acc,
      ids.key,
      ids.clientRef,
      ids.operatorId,
      hub.hashOf(NUMBER),
      ` ${ids.msg.toUpperCase()} `,
    ].map((q) => ({ q, account: ids.acc })),
  'Messages.findBy': ({ acc, clientRef, operatorId }) => [
    { by: { operator_id: operatorId, operator: 'smpp' }, account: acc, mode: null, limit: 50 },
    { by: { client_ref: clientRef, account: acc }, account: acc, mode: null, limit: 50 },
    { by: { recipient: hub.hashOf(NUMBER) }, account: acc, mode: null, limit: 50 },
  ],
  'Messages.timeline': byId('msg'),
  'Messages.briefTimeline': byId('msg'),
  'Webhooks.list': byAccount({ mode: null, status: null, ...PAGE }),
  'Webhooks.get': byId('we'),
  'Webhooks.enable': byId('we'),
  'Webhooks.redeliver': ({ we }) => [{ id: we, from: '2026-01-01T00:00:00.000Z', until: null }],
  'Webhooks.redeliverEvent': ({ evt, we }) => [{ id: we, event: evt }],
  'Deliveries.test': byId('we'),
  'Webhooks.test': byId('we'),
  'Deliveries.list': ({ evt, we }) => [
    { webhook_endpoint: we, ...ANY_ATTEMPT },
    { webhook_endpoint: we, ...ANY_ATTEMPT, event: evt },
  ],
  'Deliveries.get': byId('whd'),
  'Deliveries.resend': ({ evb, evt, we, whd }) => [
    { webhook_endpoint: we, delivery: whd, event_batch: null, event: null },
    { webhook_endpoint: we, delivery: null, event_batch: evb, event: null },
    { webhook_endpoint: we, delivery: null, event_batch: null, event: evt },
  ],
  'Templates.queue': byAccount(PAGE),
  'Templates.list': byAccount({ mode: null, status: null, ...PAGE }),
  'Templates.get': byId('tpl'),
  'Senders.queue': byAccount(PAGE),
  'Senders.list': byAccount({ mode: null, status: null, ...PAGE }),
  'Senders.get': byId('snd'),
  'Accounts.get': byAccount({}),
  'Accounts.backlog': byAccount({ limit: 50 }),
  'Certification.check': byAccount({}),
  'Keys.list': byAccount({ mode: null, ended: true, ...PAGE }),
  'KeyRequests.list': byAccount({ open: false, ...PAGE }),
  'Keys.get': byId('key'),
  'Usage.ofMonth': byAccount({ month, mode: null }),
  'Usage.days': byAccount({ month }),
  'Usage.charges': byAccount({ month }),
  'Usage.templates': byAccount({ mode: 'live', from: today, to: today }),
  'Insights.read': ({ acc }) =>
    (['account', 'class', 'range', 'template', null] as const).map((split) => ({
      account: acc,
      mode: null,
      class: null,
      range: null,
      by: 'day',
      until: null,
      split,
    })),
}

/** They reach the fan-out, which does not run here: they wait for it until their deadline. */
const REACHES_FAN_OUT = ['Deliveries.resend', 'Deliveries.test', 'Webhooks.test']

const performed = (actor: Actor, useCase: AnyUseCase, input: unknown) =>
  hub.runtime.runPromise(
    Effect.result(perform(actor, useCase as UseCase<unknown, unknown, unknown, never>, input)),
  )

/** Ids and times that each call makes new. */
const NEW = /[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d{4}-\d{2}-\d{2}T[\d:.]+Z/gu

/** What an actor is told, with the ids of the account by their names. */
const told = async (actor: Actor, useCase: AnyUseCase, input: unknown, ids: Things): Promise<string> => {
  const result = await performed(actor, useCase, input)
  const text = JSON.stringify(
    Result.isSuccess(result)
      ? result.success
      : { ...(result.failure as object), described: describeFailure(result.failure) },
  )
  return Object.entries(ids)
    .reduce((left, [kind, id]) => left.replaceAll(id, `<${kind}>`), text)
    .replaceAll(NEW, '<new>')
}

const named = allUseCases.filter(([, { members }]) => members === 'named')
const forStaff = allUseCases.filter(([, { members }]) => members === undefined)

describe('a member', () => {
  it.each(named)(
    'of one account is told by %s the same about another account as about none',
    async (place, useCase) => {
      const inputs = INPUTS[place]
      assert.isDefined(inputs, 'give this use case an input above')
      for (const [n, input] of inputs!(foreign).entries()) {
        const ofNothing = inputs!(missing)[n]
        assert.strictEqual(
          await told(member, useCase, input, foreign),
          await told(member, useCase, ofNothing, missing),
        )
      }
    },
  )

  it.each(named.filter(([place]) => !REACHES_FAN_OUT.includes(place)))(
    'is told by %s about the own account what staff are told, and staff are told more than nothing',
    async (place, useCase) => {
      for (const input of INPUTS[place]!(own)) {
        const toStaff = await told(ADMIN, useCase, input, own)
        assert.strictEqual(await told(member, useCase, input, own), toStaff)
      }
      for (const [n, input] of INPUTS[place]!(foreign).entries()) {
        const aboutNothing = await told(ADMIN, useCase, INPUTS[place]!(missing)[n], missing)
        assert.notStrictEqual(await told(ADMIN, useCase, input, foreign), aboutNothing)
      }
    },
  )

  it.each(named)(
    'gets nothing of another account by %s if only one of the ids is of it',
    async (place, useCase) => {
      for (const [n, input] of INPUTS[place]!(own).entries()) {
        for (const name of Object.keys(input)) {
          const theirs = INPUTS[place]!(foreign)[n]![name]
          if (theirs === input[name]) continue
          const mixed = await told(member, useCase, { ...input, [name]: theirs }, foreign)
          const unknown = await told(
            member,
            useCase,
            { ...input, [name]: INPUTS[place]!(missing)[n]![name] },
            missing,
          )
          assert.strictEqual(mixed, unknown, name)
        }
      }
    },
  )

  it.each(forStaff)('may not use %s', async (_, useCase) => {
    const result = await performed(member, useCase, {})
    assert.include(Result.isFailure(result) ? (result.failure as object) : {}, { _tag: 'Forbidden' })
  })

  it('sees the own accounts in the list of accounts, and no other', async () => {
    const list = allUseCases.find(([place]) => place === 'Accounts.list')![1]
    const seen = await told(member, list, PAGE, own)
    assert.include(seen, '<acc>')
    assert.notInclude(seen, foreign.acc)
    const [, ...others] = allUseCases.filter(([, { members }]) => members === 'self')
    assert.isEmpty(others, 'test the new use case here')
  })

  it('with several accounts names one in each list, and without any is told so', async () => {
    const list = allUseCases.find(([place]) => place === 'Messages.list')![1]
    const all = ANY_MESSAGE
    const several: Actor = { ...member, accounts: [own.acc, foreign.acc] }
    assert.include(await told(several, list, all, own), 'account_required')
    assert.include(await told(several, list, { ...all, account: foreign.acc }, foreign), '<msg>')
    // The batch belongs to one of them.
    assert.include(await told(several, list, { ...all, batch: foreign.bat }, foreign), '<msg>')
    assert.include(await told(several, list, { ...all, batch: missing.bat }, missing), 'account_required')
    assert.include(await told({ ...member, accounts: [] }, list, all, own), 'no_account')
    // With one account, it is this one.
    assert.include(await told(member, list, all, own), '<msg>')
  })

  it('who is also of hub staff sees all accounts', async () => {
    const get = allUseCases.find(([place]) => place === 'Messages.get')![1]
    const staff: Actor = { ...member, roles: ['member', 'viewer'] }
    assert.include(await told(staff, get, { id: foreign.msg }, foreign), '<msg>')
  })

  it('is in the audit trail with what they asked for', async () => {
    const get = allUseCases.find(([place]) => place === 'Messages.get')![1]
    await performed(member, get, { id: foreign.msg })
    const [row] = await hub.runtime.runPromise(
      Effect.promise(() =>
        readNewest(hub.sql, { actor: 'max', command: 'messages show', before: null, limit: 1 }),
      ),
    )
    assert.deepInclude(row, {
      role: 'member',
      arguments: { message: foreign.msg },
      outcome: 'failed',
      detail: { code: 'message_not_found' },
    })
  })
})
