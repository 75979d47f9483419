/**
 * The meaning of failure responses while a commit in PostgreSQL hangs: what a client was told is what
 * happens. A transaction of the test holds a `client_ref`, so the commit waits for it.
 * Source: AVL-1 to AVL-6.
 */
import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { eventually } from '@hub/testkit'
import postgres from 'postgres'
import { afterAll, assert, beforeAll, describe, it } from 'vitest'
import { type Account, type Api, call, type Deployment, startBeforeTests } from '../testing/harness.ts'

let deployment: Deployment
let api: Api
let account: Account
startBeforeTests((started) => {
  ;({ account, api, deployment } = started)
})

let holder: ReturnType<typeof postgres>
beforeAll(() => {
  holder = postgres(deployment.databaseUrl, { max: 4, onnotice: () => {} })
})
afterAll(() => holder.end({ timeout: 1 }))

/** Longer than the deadline of a statement, and shorter than that of a request. */
const STATEMENT_TIMES_OUT_MS = 1500
/** The documented bound after PostgreSQL answers again. */
const CORRECT_WITHIN_MS = 10_000

let numbers = 0
const nextNumber = () => `+7900700${String(++numbers).padStart(4, '0')}`
const service = (clientRef: string) => ({
  to: nextNumber(),
  class: 'service',
  template: 'order_ready',
  variables: { order: '17' },
  client_ref: clientRef,
})
const otp = (clientRef: string) => ({
  to: nextNumber(),
  class: 'otp',
  template: 'otp_code',
  variables: { code: '1234' },
  client_ref: clientRef,
})

interface Answered {
  readonly id: string
  readonly duplicate?: true
  readonly error?: { readonly code: string; readonly outcome?: string; readonly retry_after?: number }
  readonly counts: Readonly<Record<string, number>>
  readonly results: ReadonlyArray<{ readonly result: string }>
}

const post = async (path: string, body: unknown) => {
  const answer = await call(api.url, path, { key: account.keys.live, body })
  return { status: answer.status, body: answer.body as Answered }
}

/** Holds a reference in an open transaction. Returns a function that gives it up. */
const hold = async (clientRef: string) => {
  const held = Promise.withResolvers<void>()
  const release = Promise.withResolvers<void>()
  const holding = holder
    .begin(async (q) => {
      await q`INSERT INTO command.client_refs (account, mode, client_ref, message_id, created_at)
              VALUES (${account.uuid}, 'live', ${clientRef}, ${randomUUID()}, now())`
      held.resolve()
      await release.promise
      throw new Error('rolled back')
    })
    .catch(() => undefined)
  await held.promise
  return async () => {
    release.resolve()
    await holding
  }
}

const recorded = async (prefix: string): Promise<number> => {
  const [row] = await deployment.sql<{ count: number }[]>(
    (q) =>
      q`SELECT count(*)::integer AS count FROM command.acceptances WHERE client_ref LIKE ${`${prefix}%`}`,
  )
  return row?.count ?? 0
}

const spent = async (): Promise<string | undefined> => {
  const [row] = await deployment.sql<{ spent: string }[]>(
    (q) => q`SELECT spent::text FROM command.spend_periods WHERE account = ${account.uuid}`,
  )
  return row?.spent
}

describe('while a commit hangs', () => {
  it('a batch gets 202 when the commit ends within its time', async () => {
    const release = await hold('late-0')
    const messages = Array.from({ length: 20 }, (_, i) => service(`late-${i}`))
    const answering = post('/v1/messages/batch', { messages })
    await Promise.race([answering, delay(STATEMENT_TIMES_OUT_MS)])
    await release()
    const { body, status } = await answering
    assert.strictEqual(status, 202)
    assert.deepInclude(body.counts, { total: 20, accepted: 20, rejected: 0 })
    assert.strictEqual(await recorded('late-'), 20)
  })

  // Rules: AVL-5, AVL-6
  it('a send whose commit has an unknown result says so, and its repeat reports the message', async () => {
    const release = await hold('unknown-0')
    const body = service('unknown-0')
    const answer = await post('/v1/messages', body)
    await release()
    assert.deepStrictEqual([answer.status, answer.body.error?.code], [503, 'internal_error'])
    assert.strictEqual(answer.body.error?.outcome, 'unknown')
    assert.isAtLeast(answer.body.error?.retry_after ?? 0, 1)
    const repeat = await eventually(
      async () => {
        const again = await post('/v1/messages', body)
        return again.status === 202 ? again : null
      },
      { withinMs: CORRECT_WITHIN_MS },
    )
    assert.strictEqual(repeat.status, 202)
    assert.strictEqual(await recorded('unknown-'), 1)
  })

  // Rules: AVL-1
  it('sends that wait behind it are refused and never recorded', async () => {
    const release = await hold('blocking-0')
    const release2 = await hold('blocking-1')
    const blocked = [post('/v1/messages', service('blocking-0')), post('/v1/messages', service('blocking-1'))]
    await eventually(
      async () => {
        const [row] = await deployment.sql<{ count: number }[]>(
          (q) => q`SELECT count(*)::integer AS count FROM pg_stat_activity
                    WHERE datname = current_database() AND wait_event_type = 'Lock'`,
        )
        return (row?.count ?? 0) >= 2
      },
      { withinMs: CORRECT_WITHIN_MS },
    )
    const waiting = await Promise.all(
      Array.from({ length: 10 }, (_, i) => post('/v1/messages', service(`behind-${i}`))),
    )
    await Promise.all([release(), release2()])
    await Promise.all(blocked)
    const refused = waiting.filter(({ status }) => status === 503)
    const accepted = waiting.filter(({ status }) => status === 202)
    assert.strictEqual(refused.length + accepted.length, waiting.length)
    const certain = refused.filter(({ body }) => body.error?.outcome === undefined)
    // Every later commit has ended: whatever a certain refusal concerns is not in the ledger.
    assert.strictEqual((await post('/v1/messages', service('after'))).status, 202)
    assert.isAtMost(await recorded('behind-'), waiting.length - certain.length)
  })

  // Rules: AVL-5, AVL-6
  it('charges and batch counts are correct within ten seconds after it has ended', async () => {
    const before = Number((await spent()) ?? '0')
    const release = await hold('charged-0')
    const codes = Array.from({ length: 15 }, (_, i) => otp(`charged-code-${i}`))
    const services = Array.from({ length: 90 }, (_, i) => service(`charged-${i}`))
    const answer = await post('/v1/messages/batch', { messages: [...services, ...codes] })
    assert.deepStrictEqual([answer.status, answer.body.error?.outcome], [503, 'unknown'])
    await release()
    const read = async () => {
      const [row] = await deployment.sql<{ id: string; accepted: number; sealed: boolean }[]>(
        (q) => q`SELECT b.accepted, b.sealed_at IS NOT NULL AS sealed FROM command.batches b
                  JOIN command.acceptances a ON a.batch_id = b.id WHERE a.client_ref = 'charged-0'`,
      )
      return row
    }
    await eventually(async () => (await read())?.sealed === true, { withinMs: CORRECT_WITHIN_MS })
    assert.deepInclude(await read(), { accepted: 90 })
    // 90 service messages at 2.00. The 15 codes were refused, so they cost nothing.
    assert.strictEqual(Number(await spent()), before + 180)
    // A repeat accepts the codes, and reports the others.
    const repeat = await post('/v1/messages/batch', { messages: [...services, ...codes] })
    assert.strictEqual(repeat.status, 202)
    assert.deepInclude(repeat.body.counts, { accepted: 15, duplicate: 90, rejected: 0 })
    assert.strictEqual(Number(await spent()), before + 180 + 37.5)
  })
})
