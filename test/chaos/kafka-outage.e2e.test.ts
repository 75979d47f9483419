/** Pauses Kafka with SIGSTOP for five seconds during sends. Source: AVL-13 to AVL-15. */
import { setTimeout as delay } from 'node:timers/promises'
import { ANSWERED_WITHIN_MS, eventually } from '@hub/testkit'
import { startHub, operatorStatistics, type TestHub } from '../support/hub.ts'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { readHandoverClaims } from '../support/handover-claims.ts'
import { type Client, client, send, sendUntilAccepted } from '../support/client.ts'

const STOPPED_MS = 5000
/**
 * The interval of sends, each a code and a service message, before, during and after the outage.
 */
const EVERY_MS = 100
const AROUND_MS = 2000
/** Kafka returns when so many codes have an answer. A busy machine needs longer than the five seconds for them. */
const ANSWERED_CODES = 8
/** Only ends a run whose codes get no answers. */
const STOPPED_AT_MOST_MS = 60_000

let hub: TestHub

beforeAll(async () => {
  // Over HTTP the operator simulator recognises and counts repeated references.
  hub = await startHub({ apiRps: 10_000, liveOperator: 'http' })
})
afterAll(() => hub?.stop())

interface Result {
  readonly class: 'otp' | 'service'
  readonly ref: string
  readonly to: string
  readonly begun: number
  readonly ms: number
  readonly status: number
  readonly code: string | null
  readonly id: string | null
}

describe('Kafka paused for five seconds during sends', () => {
  // Rules: AVL-13, AVL-14
  it('answers codes with 503 provider_unavailable, and accepts service messages and delivers them once later', async () => {
    const { base_url, keys, kafka } = hub.describe()
    const live: Client = client(base_url, keys.live, { repeats: false })
    const results: Array<Promise<Result>> = []
    const begun = performance.now()
    const elapsed = (): number => performance.now() - begun
    let stoppedAt = 0
    let resumedAt = 0
    let answeredCodes = 0
    let acceptedMeanwhile = 0
    const sendOne = async (kind: 'otp' | 'service', index: number): Promise<Result> => {
      const ref = `stop-${kind}-${index}`
      const to = `+79${kind === 'otp' ? 4 : 5}${String(10_000_000 + index)}`
      const at = performance.now()
      const { body, headers, status } = await live.post('/v1/messages', send(kind, to, ref))
      if (stoppedAt > 0 && at - begun > stoppedAt && resumedAt === 0) {
        if (kind === 'otp') answeredCodes += 1
        else if (status === 202) acceptedMeanwhile += 1
      }
      if (status === 503) expect(headers.get('retry-after')).toMatch(/^\d+$/u)
      return {
        class: kind,
        ref,
        to,
        begun: at - begun,
        ms: performance.now() - at,
        status,
        code: body.error?.code ?? null,
        id: status === 202 ? body.id : null,
      }
    }

    const broker = hub.server('kafka')
    const isOver = (): boolean => elapsed() >= (resumedAt > 0 ? resumedAt + AROUND_MS : STOPPED_AT_MOST_MS)
    for (let index = 0; !isOver(); index += 1) {
      if (stoppedAt === 0 && elapsed() >= AROUND_MS) {
        broker.kill('SIGSTOP')
        stoppedAt = elapsed()
      }
      const isLongEnough = stoppedAt > 0 && elapsed() >= stoppedAt + STOPPED_MS
      if (resumedAt === 0 && isLongEnough && answeredCodes >= ANSWERED_CODES && acceptedMeanwhile > 0) {
        broker.kill('SIGCONT')
        resumedAt = elapsed()
      }
      results.push(sendOne('otp', index), sendOne('service', index))
      await delay(Math.max(0, (index + 1) * EVERY_MS - elapsed()))
    }
    if (resumedAt === 0) broker.kill('SIGCONT')
    const answers = await Promise.all(results)

    // Every request is answered in time, with an answer of the contract.
    for (const answer of answers) {
      expect(answer.ms, `${answer.ref} answered ${answer.status}`).toBeLessThan(ANSWERED_WITHIN_MS)
      expect([202, 503], answer.ref).toContain(answer.status)
      // A service message does not need Kafka. On a busy machine PostgreSQL can be late: `internal_error`.
      if (answer.class === 'service') expect(answer.code, answer.ref).not.toBe('provider_unavailable')
    }
    expect(acceptedMeanwhile).toBeGreaterThan(0)
    const whileStopped = answers.filter(
      ({ begun: sentAt, class: kind, ms }) => kind === 'otp' && sentAt > stoppedAt && sentAt + ms < resumedAt,
    )
    expect(whileStopped.length).toBeGreaterThan(5)
    expect(new Set(whileStopped.map(({ status }) => status))).toEqual(new Set([503]))
    // On a busy machine PostgreSQL can be the one that is late: then a code gets `internal_error`.
    expect(new Set(whileStopped.map(({ code }) => code))).toContain('provider_unavailable')

    // A refused message is accepted later with the same client_ref.
    const ids = new Map<string, string>()
    for (const answer of answers) {
      if (answer.id !== null) ids.set(answer.ref, answer.id)
      else {
        const body = send(answer.class, answer.to, answer.ref)
        ids.set(answer.ref, (await sendUntilAccepted(live, body, 30_000)).id)
      }
    }

    // Each message is delivered once.
    await eventually(
      async () => {
        for (const [ref, id] of ids) {
          const { body } = await live.get(`/v1/messages/${id}`)
          expect(body.status, ref).toBe('delivered')
        }
        return true
      },
      { everyMs: 500 },
    )
    const claims = await readHandoverClaims(kafka.brokers)
    expect(claims.repeatedAfterOutcome).toEqual([])
    const operator = await operatorStatistics(hub)
    expect(operator['references']).toBe(ids.size)
    expect(operator['repeated']).toBeLessThanOrEqual(claims.repeatedWithoutOutcome)
    const refused = answers.filter(({ status }) => status === 503).length
    console.log(`${ids.size} sends, ${refused} codes refused while Kafka was paused, all delivered once`)
  })
})
