/** The overview and its stream, with rows of the read models. */
import { randomBytes } from 'node:crypto'
import { NEW_ID_RANDOM_BYTES, newId } from '@hub/domain'
import { uuidOf } from '@hub/store'
import { eventually } from '@hub/testkit'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startOperationsApi, type TestOperationsApi, type TestSession } from '../testing/harness.ts'

let api: TestOperationsApi
let viewer: TestSession
let account: string

beforeAll(async () => {
  api = await startOperationsApi()
  viewer = await api.signIn('Anna', 'viewer')
  account = await api.addAccount()
})
afterAll(() => api.stop())

const MINUTE_MS = 60_000
/** Only ends a test that hangs. */

/** A message that was accepted `agoMs` ago, and submitted after `submittedAfterMs`. */
const addMessage = async (is: {
  readonly agoMs: number
  readonly status: string
  readonly submittedAfterMs?: number
}): Promise<void> => {
  const at = Date.now() - is.agoMs
  const id = uuidOf('msg', newId('msg', at, randomBytes(NEW_ID_RANDOM_BYTES)))
  const sentAt = is.submittedAfterMs === undefined ? null : new Date(at + is.submittedAfterMs)
  await api.sql`
    INSERT INTO read.messages (id, account, mode, class, recipient, template, sender, parts, price, currency, variables,
                               created_at, updated_at, status, rank, final, handed_over, sent_at)
    VALUES (${id}, ${account}, 'live', 'otp', decode('00', 'hex'), 'code', 'SHOP', 1, 1, 'RUB', '{}', ${new Date(at)},
            now(), ${is.status}, 1, false, ${sentAt !== null}, ${sentAt})`
}

/** Reads events of a stream until one of them passes. */
const readUntil = async (passes: (overview: any) => boolean): Promise<any> => {
  const abort = new AbortController()
  const response = await fetch(`${api.url}/v1/overview/stream`, {
    headers: { cookie: viewer.cookie },
    signal: abort.signal,
  })
  expect(response.status).toBe(200)
  expect(response.headers.get('content-type')).toBe('text/event-stream; charset=utf-8')
  let text = ''
  for await (const chunk of response.body!.pipeThrough(new TextDecoderStream())) {
    text += chunk
    const events = text.split('\n\n')
    text = events.pop() ?? ''
    for (const event of events) {
      const data = /^data: (.*)$/mu.exec(event)?.[1]
      if (data === undefined || !passes(JSON.parse(data))) continue
      abort.abort()
      return JSON.parse(data)
    }
  }
  throw new Error('the stream has ended')
}

describe('the overview', () => {
  it('counts the messages of the last hour by minute, and the time to their submission', async () => {
    await addMessage({ agoMs: 90 * MINUTE_MS, status: 'delivered', submittedAfterMs: 1 })
    await addMessage({ agoMs: 30 * MINUTE_MS, status: 'delivered', submittedAfterMs: 5 })
    await addMessage({ agoMs: 2 * MINUTE_MS, status: 'delivered', submittedAfterMs: 100 })
    await addMessage({ agoMs: 2 * MINUTE_MS, status: 'undelivered', submittedAfterMs: 300 })
    await addMessage({ agoMs: MINUTE_MS, status: 'accepted' })
    const { body, status } = await api.call('/v1/overview', { as: viewer })
    expect(status).toBe(200)
    const sum = (name: string) => body.minutes.reduce((all: number, row: any) => all + row[name], 0)
    expect({
      accepted: sum('accepted'),
      sent: sum('sent'),
      delivered: sum('delivered'),
      failed: sum('failed'),
    }).toEqual({ accepted: 4, sent: 3, delivered: 2, failed: 1 })
    expect(body.submission).toEqual([{ mode: 'live', class: 'otp', messages: 2, p50_ms: 200, p99_ms: 298 }])
    expect(body.waiting).toMatchObject([{ mode: 'live', class: 'otp', messages: 1 }])
    expect(body.hub).toEqual({ stopped: false, stopped_until: null })
    expect(body.moderation).toEqual({
      templates: { waiting: 0, oldest_at: null },
      senders: { waiting: 0, oldest_at: null },
    })
    // The topics of this test do not exist.
    expect(body.consumers).toEqual([
      { consumer: 'dispatcher', members: 0, lag: 0 },
      { consumer: 'projector', members: 0, lag: 0 },
      { consumer: 'webhook-fanout', members: 0, lag: 0 },
    ])
    expect(body.unavailable).toEqual([])
  })

  it('sends changes to everybody who watches', async () => {
    const isStopped = (overview: any): boolean => overview.hub.stopped
    const both = Promise.all([readUntil(isStopped), readUntil(isStopped)])
    await eventually(async () => (await api.viewers()) === 2)
    await api.sql`UPDATE command.hub_settings SET stopped_until = now() + interval '1 hour'`
    for (const overview of await both) expect(overview.hub.stopped).toBe(true)
    await eventually(async () => (await api.viewers()) === 0)
  })

  it('is not for everybody', async () => {
    expect((await api.call('/v1/overview/stream')).status).toBe(401)
    expect((await api.call('/v1/overview')).status).toBe(401)
  })

  it('is not sent any more after a sign-out', async () => {
    const session = await api.signIn('Vera', 'viewer')
    const response = await fetch(`${api.url}/v1/overview/stream`, { headers: { cookie: session.cookie } })
    const reader = response.body!.getReader()
    expect((await reader.read()).done).toBe(false)
    expect((await api.call('/logout', { method: 'POST', as: session })).status).toBe(200)
    while (!(await reader.read()).done);
    await eventually(async () => (await api.viewers()) === 0)
  })

  it('in a page that stays open does not keep its session alive', async () => {
    const session = await api.signIn('Boris', 'viewer')
    await api.sql`
      UPDATE command.operations_sessions SET last_used_at = now() - interval '29 minutes' WHERE name = 'Boris'`
    const abort = new AbortController()
    const response = await fetch(`${api.url}/v1/overview/stream`, {
      headers: { cookie: session.cookie },
      signal: abort.signal,
    })
    expect(response.status).toBe(200)
    abort.abort()
    const [row] = await api.sql<{ is_old: boolean }[]>`
      SELECT last_used_at < now() - interval '28 minutes' AS is_old FROM command.operations_sessions
       WHERE name = 'Boris'`
    expect(row?.is_old).toBe(true)
  })
})
