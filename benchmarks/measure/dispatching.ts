/** Section `dispatching`: throughput from lane to event journal, and a deep backlog. */
import { bareProduce } from '../loads/bare-kafka.ts'
import type { Servers } from '../loads/dispatch-environment.ts'
import { startSmsc } from '../loads/smsc.ts'
import { type Section, target } from '../pages/results.ts'
import { backlog } from './backlog.ts'
import { latencyText } from './numbers.ts'
import { measurePipeline } from './pipeline.ts'
import { type Log, onStack, type SectionBenchmark } from './section.ts'

/** The depth that the target names. Filling the lane takes most of the time of this section. */
const BACKLOG = { messages: 1_000_000, codes: 200, codesPerSecond: 10 }
const PIPELINE = { messages: 20_000, warmUp: 3000 }
const BARE_MS = 4000

const measureDispatching = async (servers: Servers, log: Log): Promise<Section> => {
  // The limit is measured before and after, so that other work on the machine affects both.
  const limits = [await bareProduce(servers.brokers, 'bench.before.', BARE_MS)]
  const sandbox = await measurePipeline(servers, PIPELINE)
  log(`lane to event journal, sandbox: ${sandbox.perSecond.toFixed(0)} messages/s`)
  const smsc = await startSmsc()
  const smpp = await measurePipeline(servers, { ...PIPELINE, live: smsc.environment }).finally(smsc.close)
  log(`lane to event journal, SMPP: ${smpp.perSecond.toFixed(0)} messages/s`)
  limits.push(await bareProduce(servers.brokers, 'bench.after.', BARE_MS))
  const bare = limits.reduce((sum, perSecond) => sum + perSecond, 0) / limits.length
  log(`bare produce beside them: ${bare.toFixed(0)} records/s`)

  const deep = await backlog(servers, BACKLOG)
  log(`backlog of ${deep.messages}: ${deep.memory.toFixed(0)} MiB, otp ${latencyText(deep.codes)}`)

  const pipelineRow = (operator: string, result: typeof sandbox): Section['rows'][number] => [
    `${operator}: from the lane until accepted, sent and delivered are in the event journal`,
    `${result.perSecond.toFixed(0)} messages/s (${result.messages}); dispatcher ${result.dispatcher.toFixed(0)} MiB, projector ${result.projector.toFixed(0)} MiB`,
    `${(result.perSecond / bare).toFixed(3)} of the bare produce beside it (${bare.toFixed(0)} records/s)`,
  ]
  return {
    figures: {
      bareProducePerSecond: bare,
      sandboxPerSecond: sandbox.perSecond,
      smppPerSecond: smpp.perSecond,
      dispatcherPipelineMiB: Math.max(sandbox.dispatcher, smpp.dispatcher),
      projectorPipelineMiB: Math.max(sandbox.projector, smpp.projector),
      dispatcherBacklogMiB: deep.memory,
      otpP50Ms: deep.codes.p50,
      otpP99Ms: deep.codes.p99,
    },
    rows: [
      pipelineRow('sandbox', sandbox),
      pipelineRow('SMPP simulator on the same machine', smpp),
      [
        `an otp message while ${deep.messages} service messages wait for a slow operator (${deep.campaignPerSecond.toFixed(0)}/s)`,
        `append to submit ${latencyText(deep.codes)}; a service message of a test key ${latencyText(deep.others)}`,
        `dispatcher at most ${deep.memory.toFixed(0)} MiB; ${deep.repeated} submitted again after a late answer`,
      ],
    ],
    targets: [
      target(
        'bare produce records/s ÷ messages/s from lane to event journal, sandbox',
        bare / sandbox.perSecond,
        1 / 0.02,
      ),
      target(
        'bare produce records/s ÷ messages/s from lane to event journal, SMPP',
        bare / smpp.perSecond,
        1 / 0.02,
      ),
      target(`memory of the dispatcher with ${deep.messages} waiting messages, MiB`, deep.memory, 350),
      target('submit of an otp message meanwhile, p99, ms', deep.codes.p99, 100),
    ],
  }
}

export const dispatching: SectionBenchmark = {
  name: 'dispatching',
  what: 'dispatcher: throughput from lane to event journal, deep backlog',
  measure: onStack(async (servers, log) => ({
    section: await measureDispatching(servers, log),
  })),
}
