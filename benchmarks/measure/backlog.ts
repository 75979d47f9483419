/**
 * A deep backlog for a slow operator, and otp messages meanwhile. Measures the dispatcher's memory
 * and the time from append to submit.
 */
import { setTimeout as delay } from 'node:timers/promises'
import {
  type DispatchEnvironment,
  makeDispatchEnvironment,
  type Servers,
  slowOperator,
} from '../loads/dispatch-environment.ts'
import { type Latencies, latenciesOf } from './numbers.ts'
import { residentMiB } from './process-usage.ts'

export interface BacklogResult {
  readonly messages: number
  /** Largest resident memory of the dispatcher, MiB. */
  readonly memory: number
  /** `otp` messages: from the append until the operator has read the message, ms. */
  readonly codes: Latencies
  /** `service` messages of test keys in the same lane: from the append to the sandbox, ms. */
  readonly others: Latencies
  /** Messages of the backlog that the operator accepted meanwhile, per second. */
  readonly campaignPerSecond: number
  /** Messages that were submitted again after a late answer. The operator deduplicates. */
  readonly repeated: number
}

export interface BacklogPlan {
  readonly messages: number
  readonly codes: number
  readonly codesPerSecond: number
}

/** Messages with a valid payload: many more than the operator accepts during the run. */
const READABLE = 60_000
/** Messages per append. The operator runs in this process and must answer between appends. */
const CHUNK = 1000
const number = (i: number): string => `+79${String(100_000_000 + i)}`

const fill = async (environment: DispatchEnvironment, messages: number): Promise<void> => {
  for (let i = 0; i < messages; i += CHUNK) {
    const size = Math.min(CHUNK, messages - i)
    await environment.accept(
      Array.from({ length: size }, (_, n) =>
        environment.message({ to: number(i + n), class: 'service', mode: 'live' }, i + n < READABLE),
      ),
    )
  }
}

export const backlog = async (servers: Servers, plan: BacklogPlan): Promise<BacklogResult> => {
  const environment = await makeDispatchEnvironment(servers, 6)
  // About 350 messages per second over the seven connections that service messages may use.
  const operator = await slowOperator({ requestMs: 50, messageMs: 20 })
  try {
    await environment.markAllProjected()
    const dispatcher = await environment.start('dispatcher', await operator.environment())
    let memory = 0
    const watch = setInterval(() => {
      memory = Math.max(memory, residentMiB(dispatcher.pid))
    }, 100)
    await fill(environment, plan.messages)
    const before = operator.receivedAt.size
    const sent = new Map<string, number>()
    const others = new Map<string, number>()
    const sandboxed = new Map<string, number>()
    environment.follow(environment.topics.messages, ({ occurredAt, type, value }) => {
      if (type !== 'MessageSent') return
      // The message id is the first field of a fact. No decoding of a million records.
      const id = Buffer.from(value.subarray(6, 36)).toString('latin1')
      if (others.has(id)) sandboxed.set(id, occurredAt)
    })
    const started = performance.now()
    for (let i = 0; i < plan.codes; i++) {
      const wait = started + (i * 1000) / plan.codesPerSecond - performance.now()
      if (wait > 0) await delay(wait)
      const code = environment.message({ to: number(900_000 + i), class: 'otp', mode: 'live' })
      const other = environment.message({ to: number(950_000 + i), class: 'service', mode: 'test' })
      sent.set(code.messageId, Date.now())
      others.set(other.messageId, Date.now())
      await environment.accept([code, other])
    }
    const campaignSeconds = (performance.now() - started) / 1000
    const campaign = [...operator.receivedAt].filter(([id]) => !sent.has(id)).length - before
    const deadline = performance.now() + 60_000
    while (
      [...sent.keys()].some((id) => !operator.receivedAt.has(id)) ||
      [...others.keys()].some((id) => !sandboxed.has(id))
    ) {
      if (performance.now() > deadline) break
      await delay(50)
    }
    clearInterval(watch)
    const times = (from: ReadonlyMap<string, number>, to: ReadonlyMap<string, number>) =>
      latenciesOf([...from].map(([id, at]) => (to.get(id) ?? Number.POSITIVE_INFINITY) - at))
    return {
      messages: plan.messages,
      memory,
      codes: times(sent, operator.receivedAt),
      others: times(others, sandboxed),
      campaignPerSecond: campaign / campaignSeconds,
      repeated: operator.repeated(),
    }
  } finally {
    operator.close()
    await environment.close()
  }
}
