/** Sends signed delivery reports to the HTTP callback of the hub until they are acknowledged. */
import { createHmac } from 'node:crypto'
import { once } from 'node:events'
import { setTimeout as delay } from 'node:timers/promises'
import { GIVE_UP_AFTER_MS, type Operator, type DeliveryReport } from './operator.ts'

/** The maximum of reports in one request. */
const BATCH = 100
/** Concurrent requests. A slow hub delays reports, but gets no more requests. */
const SENDERS = 4
const ANSWER_WITHIN_MS = 5_000
const FIRST_RETRY_MS = 100
const LAST_RETRY_MS = 5_000
/** The longest sleep of a sender while reports wait, which bounds the delay of one that is due earlier. */
const IDLE_MS = 20

/** The value of the signature header. `seconds` is Unix time. */
export const signature = (secret: string, seconds: number, body: string): string =>
  `t=${seconds},v1=${createHmac('sha256', secret).update(`${seconds}.${body}`).digest('hex')}`

const render = ({ due, operator_id, reason, reference, status }: DeliveryReport): object => ({
  operator_id,
  reference,
  status,
  reason,
  at: new Date(due).toISOString(),
})

interface ReporterOptions {
  readonly operator: Operator
  readonly callbackUrl: string
  readonly secret: string
  readonly signal: AbortSignal
}

/** Runs until the signal. Reports in flight at that time count as not acknowledged. */
export const runReporter = async ({
  callbackUrl,
  operator,
  secret,
  signal,
}: ReporterOptions): Promise<void> => {
  const post = async (reports: ReadonlyArray<DeliveryReport>): Promise<boolean> => {
    const body = JSON.stringify(reports.map(render))
    try {
      const response = await fetch(callbackUrl, {
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          'hub-operator-signature': signature(secret, Math.floor(Date.now() / 1000), body),
        },
        body,
        redirect: 'manual',
        signal: AbortSignal.any([signal, AbortSignal.timeout(ANSWER_WITHIN_MS)]),
      })
      await response.body?.cancel()
      return response.status === 200
    } catch {
      return false
    }
  }
  const send = async (): Promise<void> => {
    let failures = 0
    while (!signal.aborted) {
      const now = Date.now()
      const reports = operator.takeDue(now, BATCH)
      if (reports.length === 0) {
        const next = operator.nextDueAt()
        const waiting =
          next === null
            ? once(operator.pushes, 'push', { signal })
            : delay(Math.min(IDLE_MS, Math.max(1, next - now)), undefined, { signal })
        await waiting.catch(() => {})
        continue
      }
      operator.sent(reports.length)
      if (await post(reports)) {
        failures = 0
        operator.acknowledged(reports)
        continue
      }
      failures++
      const retryIn = Math.min(LAST_RETRY_MS, FIRST_RETRY_MS * 2 ** Math.min(failures - 1, 10))
      const again = Date.now() + retryIn
      operator.postpone(
        reports.filter(({ due }) => again - due < GIVE_UP_AFTER_MS),
        again,
      )
      // The sender also waits, so that an unavailable hub gets only a few requests per second.
      await delay(retryIn, undefined, { signal }).catch(() => {})
    }
  }
  await Promise.all(Array.from({ length: SENDERS }, send))
}
