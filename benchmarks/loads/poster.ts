/**
 * The limit of a webhook delivery: bare undici that posts the same bytes over the same number of
 * connections, without queue, signature or record. `webhooks.ts` starts it as a child process,
 * sends the plan over IPC and receives the result.
 */
import { Pool } from 'undici'
import { answerPlan } from './child-process.ts'

export interface PosterPlan {
  readonly port: number
  readonly ca: string
  readonly connections: number
  readonly body: string
  readonly durationMs: number
}

export interface Posted {
  readonly perSecond: number
  /** CPU time of this process per post, µs. */
  readonly cpu: number
}

const run = async (plan: PosterPlan): Promise<Posted> => {
  const pool = new Pool(`https://127.0.0.1:${plan.port}`, {
    connections: plan.connections,
    pipelining: 1,
    connect: { ca: plan.ca },
  })
  const body = Buffer.from(plan.body)
  let posts = 0
  const until = async (end: number): Promise<void> => {
    await Promise.all(
      Array.from({ length: plan.connections }, async () => {
        while (performance.now() < end) {
          const answer = await pool.request({
            method: 'POST',
            path: '/count',
            headers: { 'content-type': 'application/json' },
            body,
          })
          await answer.body.dump()
          posts += 1
        }
      }),
    )
  }
  // The first second opens connections and compiles code. It is not measured.
  await until(performance.now() + 1000)
  posts = 0
  const started = performance.now()
  const before = process.cpuUsage()
  await until(started + plan.durationMs)
  const { system, user } = process.cpuUsage(before)
  const perSecond = posts / ((performance.now() - started) / 1000)
  await pool.close()
  return { perSecond, cpu: (user + system) / posts }
}

answerPlan(run)
