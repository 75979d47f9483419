/**
 * The load generator, in its own process so that it does not share an event loop with the measured
 * app. A benchmark sends the plan over IPC and receives the result. In a
 * closed loop, each connection sends the next request when the last is answered. With `rate`, sends
 * have an even pace and do not wait for answers.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { Pool } from 'undici'
import { answerPlan, untilTime } from './child-process.ts'
import { type Latencies, latenciesOf } from '../measure/numbers.ts'

export interface LoadPlan {
  readonly baseUrl: string
  readonly key: string
  readonly connections: number
  /** Number of sends after which the run ends. */
  readonly count?: number
  /** Time after which the run ends, ms. */
  readonly durationMs?: number
  /** Sends per second. Without it, the run is a closed loop. */
  readonly rate?: number
  /** Messages per request: 1 is a single send, more is `POST /v1/messages/batch`. */
  readonly batch?: number
  /** Every second message is a code. Without it, all are service messages. */
  readonly codes?: true
  /** Makes the client_refs and numbers of this run unique. */
  readonly run: string
  /** The time of the first send, ms since the epoch. Default: now. */
  readonly startAt?: number
}

/** The latencies are from writing a request to the end of the answer, ms. */
export interface LoadResult extends Latencies {
  readonly accepted: number
  readonly failed: number
  readonly seconds: number
  /** The first answers that were not 202. */
  readonly complaints: ReadonlyArray<string>
  /** Requests by `accepted` (202), status and code of an error, or `no answer`. */
  readonly outcomes: Readonly<Record<string, number>>
  /** Requests by the second since the start in which they were answered. */
  readonly timeline: ReadonlyArray<{ readonly accepted: number; readonly others: number }>
}

const bodyOf = (plan: LoadPlan, index: number): string => {
  // Each message has a new recipient: one actor per message is the most expensive case.
  const to = `+79${String(100_000_000 + ((Number.parseInt(plan.run, 36) * 7919 + index) % 800_000_000))}`
  if (plan.codes === true && index % 2 === 0) {
    return `{"to":"${to}","class":"otp","template":"otp_code","variables":{"code":"1234"},"client_ref":"${plan.run}-${index}"}`
  }
  return `{"to":"${to}","class":"service","template":"order_ready","variables":{"order":"${index}"},"client_ref":"${plan.run}-${index}"}`
}

const run = async (plan: LoadPlan): Promise<LoadResult> => {
  const pool = new Pool(plan.baseUrl, { connections: plan.connections, pipelining: 1 })
  const headers = { authorization: `Bearer ${plan.key}`, 'content-type': 'application/json' }
  const times: Array<number> = []
  const complaints: Array<string> = []
  let next = 0
  let accepted = 0
  const outcomes: Record<string, number> = {}
  const timeline: Array<{ accepted: number; others: number }> = []
  await untilTime(plan.startAt ?? 0)
  const started = performance.now()
  const count = (outcome: string): void => {
    outcomes[outcome] = (outcomes[outcome] ?? 0) + 1
    const second = Math.floor((performance.now() - started) / 1000)
    while (timeline.length <= second) timeline.push({ accepted: 0, others: 0 })
    timeline[second]![outcome === 'accepted' ? 'accepted' : 'others']++
  }
  const isOver = (): boolean =>
    (plan.count !== undefined && next >= plan.count) ||
    (plan.durationMs !== undefined && performance.now() - started >= plan.durationMs)

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
      if (answer.statusCode === 202) {
        accepted += size === 1 ? 1 : (JSON.parse(text).counts?.accepted ?? 0)
        count('accepted')
        return
      }
      const code = /"code":"(?<code>\w+)"/u.exec(text)?.groups?.['code']
      count(code === undefined ? String(answer.statusCode) : `${answer.statusCode} ${code}`)
      if (complaints.length < 3) complaints.push(`${answer.statusCode} ${text.slice(0, 200)}`)
    } catch (error) {
      count('no answer')
      if (complaints.length < 3) complaints.push(String(error))
    }
  }

  if (plan.rate === undefined) {
    await Promise.all(
      Array.from({ length: plan.connections }, async () => {
        while (!isOver()) await send()
      }),
    )
  } else {
    const pending: Array<Promise<void>> = []
    while (!isOver()) {
      const due = started + (next / plan.rate) * 1000
      const wait = due - performance.now()
      if (wait > 0) await delay(wait)
      pending.push(send())
    }
    await Promise.all(pending)
  }
  const seconds = (performance.now() - started) / 1000
  await pool.close()
  const failed = next * size - accepted
  return { ...latenciesOf(times), accepted, failed, seconds, complaints, outcomes, timeline }
}

answerPlan(run)
