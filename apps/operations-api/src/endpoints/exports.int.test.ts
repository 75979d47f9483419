/** Exports over HTTP: the rows of the list with its filters, who may read them, and how an export ends early. */
import { randomUUID } from 'node:crypto'
import { encodeId } from '@hub/domain'
import { eventually } from '@hub/testkit'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startOperationsApi, type TestOperationsApi, type TestSession } from '../testing/harness.ts'

/** More than two pages of a list, and more than the sockets of a connection hold. */
const OPT_OUTS = 60_000

let api: TestOperationsApi
let viewer: TestSession
let support: TestSession
let account: string
const attempt = randomUUID()
const subscription = randomUUID()

beforeAll(async () => {
  api = await startOperationsApi()
  viewer = await api.signIn('Vera', 'viewer')
  support = await api.signIn('Sam', 'support')
  account = await api.addAccount('=HYPERLINK("https://evil.example")')
  await api.sql`INSERT INTO command.opt_outs (recipient, source, created_at)
    SELECT sha256(n::text::bytea), 'import', '2026-11-01'::timestamptz + n * interval '1 second'
      FROM generate_series(1, ${OPT_OUTS}) AS n`
  await api.sql`INSERT INTO webhooks.endpoints (id, account, mode, url, secret)
    VALUES (${subscription}, ${account}, 'live', 'https://shop.example/hook', 'a secret')`
  for (const [id, status, code] of [
    [attempt, 'failed', 503],
    [randomUUID(), 'succeeded', 200],
  ] as const) {
    await api.sql`INSERT INTO webhooks.attempts (id, endpoint_id, batch_id, attempt, status, response_code, duration_ms, created_at)
      VALUES (${id}, ${subscription}, ${randomUUID()}, 1, ${status}, ${code}, 12, now())`
  }
})
afterAll(() => api.stop())

/** The body of an export that the test reads itself. */
const open = async (path: string, as: TestSession, abort = new AbortController()) => {
  const response = await fetch(api.url + path, { headers: { cookie: as.cookie }, signal: abort.signal })
  expect(response.status).toBe(200)
  return { reader: response.body!.getReader(), abort }
}

describe('an export', () => {
  it('has the rows that pass the filters, as a file for spreadsheets', async () => {
    const path = `webhook_endpoint=${encodeId('we', subscription)}&status=failed`
    const { headers, status, text } = await api.call(`/v1/webhook_attempts.csv?${path}`, { as: viewer })
    expect(status).toBe(200)
    expect(headers.get('content-type')).toBe('text/csv; charset=utf-8')
    expect(headers.get('content-disposition')).toMatch(
      /^attachment; filename="webhook_attempts-\d{4}-\d{2}-\d{2}\.csv"$/u,
    )
    expect(headers.get('cache-control')).toBe('no-store')
    expect(headers.get('x-content-type-options')).toBe('nosniff')
    const [headings, row, end, ...more] = text.split('\n')
    expect([end, more]).toEqual(['', []])
    expect(headings).toBe(
      'id,event_batch,event_ids,attempt,status,response_code,duration_ms,reason,trial,redelivery,resend,created_at,next_attempt_at',
    )
    expect(row).toMatch(new RegExp(`^${encodeId('whd', attempt)},evb_\\w+,,1,failed,503,12,,`, 'u'))
  })

  it('has all pages of a long list, in its order', async () => {
    const { text } = await api.call('/v1/opt_outs.csv?source=import', { as: support })
    const [headings, ...rows] = text.trimEnd().split('\n')
    expect(headings).toBe('recipient,source,created_at')
    expect(rows).toHaveLength(OPT_OUTS)
    const times = rows.map((row) => row.split(',')[2] ?? '')
    expect(times).toEqual(times.toSorted().toReversed())
    expect(new Set(rows).size).toBe(OPT_OUTS)
  })

  it('has no text that a spreadsheet runs as a formula', async () => {
    const { text } = await api.call('/v1/accounts.csv', { as: viewer })
    expect(text).toContain(`,"'=HYPERLINK(""https://evil.example"")",`)
    expect(text).not.toMatch(/(?:^|[,"])=/mu)
  })

  it('is refused as the list is, before the file begins', async () => {
    const refused = async (path: string, as?: TestSession) => {
      const { body, status } = await api.call(path, as === undefined ? {} : { as })
      return [status, body.error.code, body.error.param ?? null]
    }
    expect(await refused('/v1/opt_outs.csv')).toEqual([401, 'not_signed_in', null])
    expect(await refused('/v1/opt_outs.csv', viewer)).toEqual([403, 'forbidden', null])
    expect(await refused('/v1/messages.csv?status=lost', viewer)).toEqual([
      422,
      'invalid_parameter',
      'status',
    ])
    expect(await refused('/v1/messages.csv?limit=5', viewer)).toEqual([422, 'invalid_parameter', 'limit'])
    expect(
      await refused(`/v1/webhook_attempts.csv?webhook_endpoint=${encodeId('we', randomUUID())}`, viewer),
    ).toEqual([404, 'subscription_not_found', 'webhook_endpoint'])
  })

  it('that its reader ends makes room for another one', async () => {
    const own = await api.signIn('Ira', 'support')
    const readers = [await open('/v1/opt_outs.csv', own), await open('/v1/opt_outs.csv', own)]
    for (const { reader } of readers) expect((await reader.read()).done).toBe(false)
    const third = await api.call('/v1/opt_outs.csv?since=2027-01-01T00:00:00.000Z', { as: own })
    expect([third.status, third.body.error.code]).toEqual([503, 'overloaded'])
    expect((await api.call('/v1/opt_outs.csv?since=2027-01-01T00:00:00.000Z', { as: support })).status).toBe(
      200,
    )
    for (const { abort } of readers) abort.abort()
    await eventually(async () => {
      const next = await api.call('/v1/opt_outs.csv?since=2027-01-01T00:00:00.000Z', { as: own })
      return next.status === 200
    })
  })
})
