/** The process while PostgreSQL is away: it answers, is ready, and ends in time. */
import { eventually, faultProxy } from '@hub/testkit'
import { Effect, Exit, Scope } from 'effect'
import { expect, it } from 'vitest'
import { startOperationsApi } from './testing/harness.ts'

it('answers 503 with retry_after, and stays ready, so that staff see what is wrong', async () => {
  const scope = await Effect.runPromise(Scope.make())
  const first = await startOperationsApi()
  const proxy = await Effect.runPromise(Scope.provide(faultProxy(first.databaseUrl), scope))
  const api = await startOperationsApi({ settings: { HUB_DATABASE_URL: proxy.url } })
  try {
    const session = await api.signIn('Anna', 'viewer')
    await eventually(async () => (await api.failing()).length === 0)
    proxy.block()
    const answer = await api.call('/v1/accounts', { as: session })
    expect([answer.status, answer.body.error.code]).toEqual([503, 'unavailable'])
    expect(answer.headers.get('retry-after')).toBe(String(answer.body.error.retry_after))
    expect(await api.failing()).toEqual([])
    expect((await api.call('/docs/errors')).status).toBe(200)
  } finally {
    proxy.unblock()
    await api.stop()
    await first.stop()
    await Effect.runPromise(Scope.close(scope, Exit.void))
  }
}, 180_000)

it('is not ready before it has reached PostgreSQL once', async () => {
  const api = await startOperationsApi({ settings: { HUB_DATABASE_URL: 'postgres://x:x@127.0.0.1:1/x' } })
  try {
    expect(await api.failing()).toEqual(['postgresql'])
  } finally {
    await api.stop()
  }
}, 180_000)
