/**
 * A deep backlog: messages of a campaign in their lane, an operator that takes a few hundred a second, and codes among them.
 * What must hold: the dispatcher's memory, and the way of a code to the operator.
 */
import { setTimeout as delay } from 'node:timers/promises'
import {
  type DispatchWorld,
  makeDispatchWorld,
  residentMiB,
  type Servers,
  slowOperator,
} from './dispatch-world.ts'
import { percentile } from './numbers.ts'

export interface Backlog {
  readonly messages: number
  /** Largest resident memory of the dispatcher, MiB. */
  readonly memory: number
  /** From the append of a code until the operator has read it, ms. */
  readonly codes: { readonly samples: number; readonly p50: number; readonly p99: number }
  /** Of service messages of test keys, behind the backlog in its lane, from the append until the sandbox has taken them, ms. */
  readonly others: { readonly samples: number; readonly p50: number; readonly p99: number }
  /** Messages of the campaign that the operator took meanwhile, a second. */
  readonly campaignPerSecond: number
  /** Answers that came too late for the dispatcher, so that it asked an operator that recognises repeats again. */
  readonly repeated: number
}

export interface BacklogPlan {
  readonly messages: number
  readonly codes: number
  readonly codesPerSecond: number
}

/** Payloads that are really sealed: many more than the operator takes in the time. */
const READABLE = 60_000
/** The operator answers in this process too: it must get its turn between two of them. */
const CHUNK = 1000
const number = (i: number): string => `+79${String(100_000_000 + i)}`

const fill = async (world: DispatchWorld, messages: number): Promise<void> => {
  for (let i = 0; i < messages; i += CHUNK) {
    const size = Math.min(CHUNK, messages - i)
    await world.accept(
      Array.from({ length: size }, (_, n) =>
        world.message({ to: number(i + n), class: 'service', mode: 'live' }, i + n < READABLE),
      ),
    )
  }
}

export const backlog = async (servers: Servers, plan: BacklogPlan): Promise<Backlog> => {
  const world = await makeDispatchWorld(servers, 6)
  // About 350 a second over the seven connections that a campaign gets.
  const operator = await slowOperator({ requestMs: 50, messageMs: 20 })
  try {
    await world.pretendProjected()
    const dispatcher = await world.start('dispatcher', await operator.environment())
    let memory = 0
    const watch = setInterval(() => {
      memory = Math.max(memory, residentMiB(dispatcher.pid))
    }, 100)
    await fill(world, plan.messages)
    const before = operator.given.size
    const sent = new Map<string, number>()
    const others = new Map<string, number>()
    const sandboxed = new Map<string, number>()
    world.follow(world.topics.messages, (type, at, value) => {
      if (type !== 'MessageSent') return
      // The message id is the first field of every fact.
      const id = Buffer.from(value.subarray(6, 36)).toString('latin1')
      if (others.has(id)) sandboxed.set(id, at)
    })
    const begun = performance.now()
    for (let i = 0; i < plan.codes; i++) {
      const wait = begun + (i * 1000) / plan.codesPerSecond - performance.now()
      if (wait > 0) await delay(wait)
      const code = world.message({ to: number(900_000 + i), class: 'otp', mode: 'live' })
      const other = world.message({ to: number(950_000 + i), class: 'service', mode: 'test' })
      sent.set(code.messageId, Date.now())
      others.set(other.messageId, Date.now())
      await world.accept([code, other])
    }
    const campaignSeconds = (performance.now() - begun) / 1000
    const campaign = [...operator.given].filter(([id]) => !sent.has(id)).length - before
    const deadline = performance.now() + 60_000
    while (
      [...sent.keys()].some((id) => !operator.given.has(id)) ||
      [...others.keys()].some((id) => !sandboxed.has(id))
    ) {
      if (performance.now() > deadline) break
      await delay(50)
    }
    clearInterval(watch)
    const times = (from: ReadonlyMap<string, number>, to: ReadonlyMap<string, number>) => {
      const all = [...from]
        .map(([id, at]) => (to.get(id) ?? Number.POSITIVE_INFINITY) - at)
        .toSorted((a, b) => a - b)
      return { samples: all.length, p50: percentile(all, 0.5), p99: percentile(all, 0.99) }
    }
    return {
      messages: plan.messages,
      memory,
      codes: times(sent, operator.given),
      others: times(others, sandboxed),
      campaignPerSecond: campaign / campaignSeconds,
      repeated: operator.repeated(),
    }
  } finally {
    operator.close()
    await world.close()
  }
}
