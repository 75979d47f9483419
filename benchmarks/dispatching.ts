/**
 * Section `dispatching`: throughput from lane to event journal, recovery of a shard, cost of a
 * message in a shard with many open messages, and a deep backlog. Runs on servers of its own.
 */
import type { TestStack } from '../test/support/hub.ts'
import { backlog } from './backlog.ts'
import { bareProduce } from './bare-kafka.ts'
import { latencyText } from './numbers.ts'
import { measurePipeline } from './pipeline.ts'
import { recovery } from './recovery.ts'
import { type Section, target } from './results.ts'
import { measureShardCost } from './shard-cost.ts'
import { startSmsc } from './smsc.ts'

/** The depth that the target names. Filling the lane takes most of the time of this section. */
const BACKLOG = { messages: 1_000_000, codes: 200, codesPerSecond: 10 }
const OPEN = 100_000
const PIPELINE = { messages: 20_000, warmUp: 3000 }
const BARE_MS = 4000

export const measureDispatching = async (stack: TestStack, log: (line: string) => void): Promise<Section> => {
  const servers = { brokers: stack.brokers, databaseUrl: stack.adminDatabaseUrl, redisUrl: stack.redisUrl }
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

  const fresh = await recovery(servers, { open: OPEN, afterADay: false })
  const aged = await recovery(servers, { open: OPEN, afterADay: true })
  log(`recovery of ${OPEN} open messages: ${fresh.ms.toFixed(0)} ms, after a day ${aged.ms.toFixed(0)} ms`)

  const cost = await measureShardCost(1000, OPEN, 9)
  log(
    `cost of a message, ${cost.few} open: ${cost.atFew.toFixed(1)} µs, ${cost.many} open: ${cost.atMany.toFixed(1)} µs`,
  )

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
      openMessages: fresh.open,
      recoveryMs: fresh.ms,
      recoveryAfterADayMs: aged.ms,
      messageMicrosecondsFewOpen: cost.atFew,
      messageMicrosecondsManyOpen: cost.atMany,
      dispatcherBacklogMiB: deep.memory,
      otpP50Ms: deep.codes.p50,
      otpP99Ms: deep.codes.p99,
    },
    rows: [
      pipelineRow('sandbox', sandbox),
      pipelineRow('SMPP simulator on the same machine', smpp),
      [
        `recovery of a shard with ${fresh.open} open messages`,
        `${fresh.ms.toFixed(0)} ms (${fresh.records} records); after a day without reports ${aged.ms.toFixed(0)} ms (${aged.records} records)`,
        `${((1000 * fresh.records) / fresh.ms).toFixed(0)} records/s`,
      ],
      [
        `cost of a message in a shard, ${cost.few} and ${cost.many} open`,
        `${cost.atFew.toFixed(1)} µs and ${cost.atMany.toFixed(1)} µs`,
        `${(cost.atMany / cost.atFew).toFixed(2)} ×`,
      ],
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
      target(`recovery of a shard with ${OPEN} open messages, s`, fresh.ms / 1000, 3),
      target('the same after a day without reports, s', aged.ms / 1000, 3),
      target(`cost of a message, ${cost.many} open ÷ ${cost.few}`, cost.atMany / cost.atFew, 1.3),
      target(`memory of the dispatcher with ${deep.messages} waiting messages, MiB`, deep.memory, 350),
      target('submit of an otp message meanwhile, p99, ms', deep.codes.p99, 100),
    ],
  }
}
