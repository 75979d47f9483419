/**
 * The load generator: a process of its own, so that its event loop is not the one that is measured.
 *
 * Started by `run.ts` with a plan over IPC; answers with what it saw. Closed loop (each of `connections` sends the
 * next when the last is answered) or, with `rate`, an even pace that does not wait for answers.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { Pool } from 'undici'
import { percentile } from './numbers.ts'

export interface LoadPlan {
  readonly baseUrl: string
  readonly key: string
  readonly connections: number
  /** Ends after so many sends… */
  readonly count?: number
  /** …or after so long, ms. */
  readonly durationMs?: number
  /** Sends a second; absent: as fast as answers come. */
  readonly rate?: number
  readonly messageClass: 'otp' | 'service'
  /** Messages in a request: 1 is a single send; above, `POST /v1/messages/batch`. */
  readonly batch?: number
  /** Makes client_refs and numbers of this run different from those of others. */
  readonly run: string
}

export interface LoadResult {
  /** Requests. */
  readonly sent: number
  /** Messages. */
  readonly accepted: number
  readonly failed: number
  readonly seconds: number
  /** Milliseconds from writing the request to the end of the answer. */
  readonly p50: number
  readonly p99: number
  /** First answers that were not 202, for the person who wonders. */
  readonly complaints: ReadonlyArray<string>
}

const bodyOf = (plan: LoadPlan, index: number): string => {
  // A fresh recipient each time: one actor a message is the expensive case.
  const to = `+79${String(100_000_000 + ((Number.parseInt(plan.run, 36) * 7919 + index) % 800_000_000))}`
  return plan.messageClass === 'otp'
    ? `{"to":"${to}","class":"otp","template":"otp_code","variables":{"code":"${1000 + (index % 9000)}"},"client_ref":"${plan.run}-${index}"}`
    : `{"to":"${to}","class":"service","template":"order_ready","variables":{"order":"${index}"},"client_ref":"${plan.run}-${index}"}`
}

const run = async (plan: LoadPlan): Promise<LoadResult> => {
  const pool = new Pool(plan.baseUrl, { connections: plan.connections, pipelining: 1 })
  const headers = { authorization: `Bearer ${plan.key}`, 'content-type': 'application/json' }
  const times: Array<number> = []
  const complaints: Array<string> = []
  let next = 0
  let accepted = 0
  const begun = performance.now()
  const over = (): boolean =>
    (plan.count !== undefined && next >= plan.count) ||
    (plan.durationMs !== undefined && performance.now() - begun >= plan.durationMs)

  const size = plan.batch ?? 1
  const path = size === 1 ? '/v1/messages' : '/v1/messages/batch'
  const send = async (): Promise<void> => {
    const first = next++ * size
    const messages = Array.from({ length: size }, (_, index) => bodyOf(plan, first + index))
    const body = size === 1 ? messages[0]! : `{"messages":[${messages.join()}]}`
    const at = performance.now()
    try {
      const answer = await pool.request({ method: 'POST', path, headers, body })
      const text = await answer.body.text()
      times.push(performance.now() - at)
      if (answer.statusCode === 202) accepted += size === 1 ? 1 : (JSON.parse(text).counts?.accepted ?? 0)
      else if (complaints.length < 3) complaints.push(`${answer.statusCode} ${text.slice(0, 200)}`)
    } catch (error) {
      if (complaints.length < 3) complaints.push(String(error))
    }
  }

  if (plan.rate === undefined) {
    await Promise.all(
      Array.from({ length: plan.connections }, async () => {
        while (!over()) await send()
      }),
    )
  } else {
    const under: Array<Promise<void>> = []
    while (!over()) {
      const due = begun + (next / plan.rate) * 1000
      const wait = due - performance.now()
      if (wait > 0) await delay(wait)
      under.push(send())
    }
    await Promise.all(under)
  }
  const seconds = (performance.now() - begun) / 1000
  await pool.close()
  times.sort((a, b) => a - b)
  return {
    sent: next,
    accepted,
    failed: next * size - accepted,
    seconds,
    p50: percentile(times, 0.5),
    p99: percentile(times, 0.99),
    complaints,
  }
}

process.on('message', (plan: LoadPlan) => {
  void run(plan).then((result) => {
    process.send?.(result)
    process.disconnect()
  })
})
