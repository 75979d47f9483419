/** Webhooks over HTTP: subscriptions, attempts, and who may send again. */
import { randomUUID } from 'node:crypto'
import { encodeId } from '@hub/domain'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startOperationsApi, type TestOperationsApi, type TestSession } from '../testing/harness.ts'

let api: TestOperationsApi
let viewer: TestSession
let support: TestSession
const [subscriptionId, attempt, event] = [randomUUID(), randomUUID(), randomUUID()]
const subscription = encodeId('we', subscriptionId)
const delivery = encodeId('whd', attempt)
const BODY = '{"id":"evt_1"}'

beforeAll(async () => {
  api = await startOperationsApi()
  viewer = await api.signIn('Vera', 'viewer')
  support = await api.signIn('Sam', 'support')
  const account = await api.addAccount()
  const batch = randomUUID()
  await api.sql`INSERT INTO webhooks.endpoints (id, account, mode, url, secret, status, consecutive_failures, disabled_at)
    VALUES (${subscriptionId}, ${account}, 'live', 'https://shop.example/hook', 'a secret', 'disabled_by_failures', 9, now())`
  await api.sql`INSERT INTO read.events (account, mode, sequence, id, type, created_at, body)
    VALUES (${account}, 'live', 1, ${event}, 'message.sent', now(), ${BODY})`
  await api.sql`INSERT INTO webhooks.batch_events (endpoint_id, event_id, batch_id, position)
    VALUES (${subscriptionId}, ${event}, ${batch}, 0)`
  await api.sql`INSERT INTO webhooks.attempts (id, endpoint_id, batch_id, attempt, status, response_code, duration_ms, created_at)
    VALUES (${attempt}, ${subscriptionId}, ${batch}, 1, 'failed', 503, 12, now())`
})
afterAll(() => api.stop())

describe('webhooks', () => {
  it('show subscriptions and attempts with the signed body, and no secret', async () => {
    const listed = await api.call('/v1/webhook_endpoints?status=disabled_by_failures', { as: viewer })
    expect(listed.body.data).toMatchObject([
      { id: subscription, consecutive_failures: 9, backlog: { batches: 0 } },
    ])
    expect(listed.text).not.toContain('a secret')
    const attempts = await api.call(
      `/v1/webhook_attempts?webhook_endpoint=${subscription}&response_code=503&status=failed`,
      { as: viewer },
    )
    expect(attempts.body.data).toMatchObject([{ id: delivery, response_code: 503 }])
    const shown = await api.call(`/v1/webhook_attempts/${delivery}`, { as: viewer })
    expect(shown.body).toMatchObject({ id: delivery, signed_body: `[${BODY}]` })
  })

  it('are changed only by the roles for it', async () => {
    const enable = (as: TestSession) =>
      api.call(`/v1/webhook_endpoints/${subscription}/enable`, { as, method: 'POST' })
    expect((await enable(viewer)).status).toBe(403)
    expect((await enable(support)).body).toMatchObject({ id: subscription, changed: true })
    const resend = (body: object, as = support) =>
      api.call(`/v1/webhook_endpoints/${subscription}/resend`, { as, body })
    expect((await resend({ delivery }, viewer)).status).toBe(403)
    expect((await resend({})).status).toBe(422)
    const unknown = await resend({ delivery: encodeId('whd', randomUUID()) })
    expect([unknown.status, unknown.body.error.code]).toEqual([404, 'delivery_not_found'])
    const redelivery = await api.call(`/v1/webhook_endpoints/${subscription}/redeliver`, {
      as: support,
      body: { from: '2026-01-01T00:00:00.000Z' },
    })
    expect(redelivery.body).toMatchObject({ object: 'redelivery', subscription })
    const progress = await api.call(`/v1/redeliveries/${redelivery.body.id}`, { as: viewer })
    expect(progress.body).toMatchObject({ events: 0, pending: 0 })
  })
})
