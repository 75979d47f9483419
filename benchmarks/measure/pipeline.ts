/** Throughput of dispatcher and projector, from the lanes to the event journal. */
import { makeDispatchEnvironment, type Servers } from '../loads/dispatch-environment.ts'
import { awaitEvents } from './event-journal.ts'
import { residentMiB } from './process-usage.ts'

export interface PipelineResult {
  readonly messages: number
  readonly perSecond: number
  /** Resident memory at the end, MiB. */
  readonly dispatcher: number
  readonly projector: number
}

const CHUNK = 2000
const WITHIN_MS = 120_000

export interface PipelinePlan {
  readonly messages: number
  /** Messages before the measurement, to open connections, compile code and plan statements. */
  readonly warmUp: number
  /** Settings of the operator of live keys. Without them, messages use the sandbox. */
  readonly live?: Readonly<Record<string, string>>
}

export const measurePipeline = async (servers: Servers, plan: PipelinePlan): Promise<PipelineResult> => {
  const environment = await makeDispatchEnvironment(servers, 6)
  try {
    const mode = plan.live === undefined ? 'test' : 'live'
    await environment.subscribe(mode)
    const dispatcher = await environment.start('dispatcher', plan.live ?? {})
    const projector = await environment.start('projector')
    let made = 0
    const processMessages = async (count: number): Promise<number> => {
      const messages = Array.from({ length: count }, () =>
        environment.message({
          to: `+79${String(100_000_000 + made++)}`,
          class: 'service',
          mode,
        }),
      )
      const started = performance.now()
      const appended = (async () => {
        for (let i = 0; i < count; i += CHUNK) await environment.accept(messages.slice(i, i + CHUNK))
      })()
      await awaitEvents(environment.sql, made, WITHIN_MS)
      await appended
      return (performance.now() - started) / 1000
    }
    await processMessages(plan.warmUp)
    const seconds = await processMessages(plan.messages)
    return {
      messages: plan.messages,
      perSecond: plan.messages / seconds,
      dispatcher: residentMiB(dispatcher.pid),
      projector: residentMiB(projector.pid),
    }
  } finally {
    await environment.close()
  }
}
