/**
 * What the pipeline behind acceptance carries: messages put straight into the lanes of a dispatcher and a projector, until the journal
 * has the acceptance, the hand-over and the delivery of each.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { makeDispatchWorld, residentMiB, type Servers } from './dispatch-world.ts'

export interface HandingOver {
  readonly messages: number
  readonly perSecond: number
  /** Resident memory at the end, MiB. */
  readonly dispatcher: number
  readonly projector: number
}

/** Accepted, sent, delivered. */
const EVENTS = 3
const CHUNK = 2000
const WITHIN_MS = 120_000

export interface HandingOverPlan {
  readonly messages: number
  /** Before what is measured: connections, code and plans become warm. */
  readonly warmUp: number
  /** Of live keys, with the environment that names their operator; absent: test keys, and so the sandbox. */
  readonly live?: Readonly<Record<string, string>>
  readonly flags?: ReadonlyArray<string>
}

export const handingOver = async (servers: Servers, plan: HandingOverPlan): Promise<HandingOver> => {
  const world = await makeDispatchWorld(servers, 6)
  try {
    const flags = plan.flags ?? []
    const dispatcher = await world.start('dispatcher', plan.live ?? {}, flags)
    const projector = await world.start('projector', {}, flags)
    let made = 0
    const through = async (count: number): Promise<number> => {
      const messages = Array.from({ length: count }, () =>
        world.message({
          to: `+79${String(100_000_000 + made++)}`,
          class: 'service',
          mode: plan.live === undefined ? 'test' : 'live',
        }),
      )
      const begun = performance.now()
      const appended = (async () => {
        for (let i = 0; i < count; i += CHUNK) await world.accept(messages.slice(i, i + CHUNK))
      })()
      for (;;) {
        const [row] = await world.sql`SELECT coalesce(sum(sequence), 0) AS events FROM read.event_heads`
        if (Number(row?.['events']) >= made * EVENTS) break
        if (performance.now() - begun > WITHIN_MS) {
          throw new Error(`${String(row?.['events'])} of ${made * EVENTS} events after two minutes`)
        }
        await delay(20)
      }
      await appended
      return (performance.now() - begun) / 1000
    }
    await through(plan.warmUp)
    const seconds = await through(plan.messages)
    const memory = [residentMiB(dispatcher.pid), residentMiB(projector.pid)] as const
    if (flags.length > 0) for (const app of [dispatcher, projector]) await app.kill('SIGTERM')
    return {
      messages: plan.messages,
      perSecond: plan.messages / seconds,
      dispatcher: memory[0],
      projector: memory[1],
    }
  } finally {
    await world.close()
  }
}
