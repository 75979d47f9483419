/**
 * The sections about handing over, against the servers of a hub or, alone (`node benchmarks/dispatching.ts`), on a stack of its own: a deep
 * backlog, the recovery of a shard, the cost of a message among many, and what the pipeline behind acceptance carries.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { startStack } from '../test/support/hub.ts'
import { backlog } from './backlog.ts'
import { bareProduce } from './bare.ts'
import { freePort, type Servers } from './dispatch-world.ts'
import { handingOver } from './handing-over.ts'
import type { Page } from './numbers.ts'
import { flatnessApart } from './open-messages.ts'
import { recovery } from './recovery.ts'

/** The issue's own size. Filling the lane takes most of the section's time. */
const BACKLOG = { messages: 1_000_000, codes: 200, codesPerSecond: 10 }
const OPEN = 100_000
const HANDING_OVER = { messages: 20_000, warmUp: 3000 }
const BARE_MS = 4000

export type Section = Pick<Page, 'rows' | 'bars'>

/** The operator simulator as an SMPP centre, in a process of its own. */
const startCentre = async () => {
  const directory = mkdtempSync(join(tmpdir(), 'hub-bench-centre-'))
  const [control, smpp, callback] = [await freePort(), await freePort(), await freePort()]
  const child: ChildProcess = spawn(
    process.execPath,
    [new URL('../infra/local/operator-simulator/main.ts', import.meta.url).pathname],
    {
      stdio: ['ignore', 'ignore', 'inherit'],
      env: {
        PATH: process.env['PATH'],
        HUB_OPERATOR_SIMULATOR_PORT: String(control),
        HUB_OPERATOR_SIMULATOR_SMPP_PORT: String(smpp),
        HUB_OPERATOR_SIMULATOR_SMPP_SYSTEM_ID: 'hub',
        HUB_OPERATOR_SIMULATOR_SMPP_PASSWORD: 'bench',
        HUB_OPERATOR_HTTP_SECRET: 'bench',
        HUB_OPERATOR_CALLBACK_URL: `http://127.0.0.1:${callback}/reports`,
        HUB_OPERATOR_JOURNAL: join(directory, 'journal.jsonl'),
      },
    },
  )
  const deadline = performance.now() + 20_000
  for (;;) {
    const up = await fetch(`http://127.0.0.1:${control}/statistics`).then(
      (response) => response.ok,
      () => false,
    )
    if (up) break
    if (child.exitCode !== null || performance.now() > deadline) throw new Error('the centre did not start')
    await delay(20)
  }
  return {
    environment: {
      HUB_OPERATOR_SMPP_URL: `smpp://hub@127.0.0.1:${smpp}`,
      HUB_OPERATOR_SMPP_PASSWORD: 'bench',
    },
    close: (): void => {
      child.kill('SIGKILL')
      rmSync(directory, { recursive: true, force: true })
    },
  }
}

export const measureDispatching = async (servers: Servers, say: (line: string) => void): Promise<Section> => {
  // The same limit before and after: other work on the machine is in both.
  const limits = [await bareProduce(servers.brokers, 'bench.before.', BARE_MS)]
  const sandbox = await handingOver(servers, HANDING_OVER)
  say(`handing over, sandbox: ${sandbox.perSecond.toFixed(0)} messages/s`)
  const centre = await startCentre()
  const smpp = await handingOver(servers, { ...HANDING_OVER, live: centre.environment }).finally(centre.close)
  say(`handing over, SMPP: ${smpp.perSecond.toFixed(0)} messages/s`)
  limits.push(await bareProduce(servers.brokers, 'bench.after.', BARE_MS))
  const bare = limits.reduce((sum, { perSecond }) => sum + perSecond, 0) / limits.length
  say(`bare produce beside them: ${bare.toFixed(0)} records/s`)

  const fresh = await recovery(servers, { open: OPEN, afterADay: false })
  const aged = await recovery(servers, { open: OPEN, afterADay: true })
  say(`recovery of ${OPEN} open messages: ${fresh.ms.toFixed(0)} ms, after a day ${aged.ms.toFixed(0)} ms`)

  const flat = await flatnessApart(1000, OPEN, 9)
  say(
    `a message among ${flat.few}: ${flat.atFew.toFixed(1)} µs, among ${flat.many}: ${flat.atMany.toFixed(1)} µs`,
  )

  const deep = await backlog(servers, BACKLOG)
  say(
    `backlog of ${deep.messages}: ${deep.memory.toFixed(0)} MiB, codes p50 ${deep.codes.p50} ms, p99 ${deep.codes.p99} ms`,
  )

  const handed = (what: string, one: typeof sandbox): Page['rows'][number] => [
    `handing over, ${what}: from the lane until accepted, sent and delivered are in the journal`,
    `${one.perSecond.toFixed(0)} messages/s (${one.messages}); dispatcher ${one.dispatcher.toFixed(0)} MiB, projector ${one.projector.toFixed(0)} MiB`,
    `${(one.perSecond / bare).toFixed(3)} of the bare produce beside it (${bare.toFixed(0)} records/s)`,
  ]
  return {
    rows: [
      handed('sandbox', sandbox),
      handed('SMPP centre on the same machine', smpp),
      [
        `recovery of a shard with ${fresh.open} open messages`,
        `${fresh.ms.toFixed(0)} ms (${fresh.records} records); after a day of unreported messages ${aged.ms.toFixed(0)} ms (${aged.records} records)`,
        `${((1000 * fresh.records) / fresh.ms).toFixed(0)} records/s`,
      ],
      [
        `a message through a shard, ${flat.few} and ${flat.many} open`,
        `${flat.atFew.toFixed(1)} µs and ${flat.atMany.toFixed(1)} µs`,
        `${(flat.atMany / flat.atFew).toFixed(2)} ×`,
      ],
      [
        `a code behind ${deep.messages} messages for a slow operator (${deep.campaignPerSecond.toFixed(0)}/s)`,
        `append to operator p50 ${deep.codes.p50} ms, p99 ${deep.codes.p99} ms; a test key's message in the same lane p50 ${deep.others.p50} ms, p99 ${deep.others.p99} ms`,
        `dispatcher at most ${deep.memory.toFixed(0)} MiB; ${deep.repeated} repeated after a late answer`,
      ],
    ],
    bars: [
      {
        what: 'bare produce records/s ÷ messages/s handed over, sandbox',
        value: bare / sandbox.perSecond,
        bar: 1 / 0.02,
      },
      {
        what: 'bare produce records/s ÷ messages/s handed over, SMPP',
        value: bare / smpp.perSecond,
        bar: 1 / 0.02,
      },
      { what: `recovery of a shard with ${OPEN} open messages, s`, value: fresh.ms / 1000, bar: 3 },
      { what: 'the same after a day of unreported messages, s', value: aged.ms / 1000, bar: 3 },
      {
        what: `cost of a message, ${flat.many} open ÷ ${flat.few}`,
        value: flat.atMany / flat.atFew,
        bar: 1.3,
      },
      { what: `dispatcher behind ${deep.messages} messages, MiB`, value: deep.memory, bar: 350 },
      { what: 'hand-over of a code behind them, p99, ms', value: deep.codes.p99, bar: 100 },
    ],
  }
}

/** The same on servers of its own, which nobody else has filled. */
export const measureDispatchingAlone = async (say: (line: string) => void): Promise<Section> => {
  const stack = await startStack()
  try {
    return await measureDispatching({ brokers: stack.brokers, databaseUrl: stack.adminDatabaseUrl }, say)
  } finally {
    await stack.stop()
  }
}

if (import.meta.main) {
  const section = await measureDispatchingAlone((line) => console.log(line))
  console.table(section.rows)
  console.table(section.bars)
}
