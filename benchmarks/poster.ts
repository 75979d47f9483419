/**
 * The limit of a delivery: bare undici, in a process of its own, that posts the same bytes over as many connections and does nothing
 * else: no queue, no signature, no record.
 *
 * Started by `webhooks.ts` over IPC with a plan; answers with posts a second and what each took.
 */
import { Pool } from 'undici'

export interface PosterPlan {
  readonly port: number
  readonly ca: string
  readonly connections: number
  readonly body: string
  readonly durationMs: number
}

export interface Posted {
  readonly perSecond: number
  /** CPU of this process for a post, µs. */
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
  // Connections and compiled code first.
  await until(performance.now() + 1000)
  posts = 0
  const begun = performance.now()
  const before = process.cpuUsage()
  await until(begun + plan.durationMs)
  const { system, user } = process.cpuUsage(before)
  const perSecond = posts / ((performance.now() - begun) / 1000)
  await pool.close()
  return { perSecond, cpu: (user + system) / posts }
}

process.once('message', (plan: PosterPlan) => {
  void run(plan).then((posted) => {
    process.send?.(posted)
    process.disconnect()
  })
})
