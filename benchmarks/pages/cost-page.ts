/** Generates `COST.md` from the results of the last `npm run bench -- cost`. */
import { disturbance } from '../measure/conditions.ts'
import {
  COUNTED,
  type CostResults,
  type CostRun,
  type GrowthResults,
  type GrowthRow,
  LOADS,
  type LoadName,
  NOT_COUNTED,
  type ProcessName,
  PROCESSES,
  type Repetition,
} from './cost-results.ts'
import { median } from '../measure/numbers.ts'

export const TITLES: Readonly<Record<LoadName, string>> = {
  idle: 'idle (no messages)',
  '20': '20/s, single sends',
  '200': '200/s, single sends',
  one: 'one connection, single sends',
  '64': '64 connections, single sends',
  batches: 'batches of 1,000, two requests in progress',
  webhooks: '200/s, single sends, one webhook event each',
}

export const NAMES: Readonly<Record<ProcessName, string>> = {
  'command-api': 'command-api',
  dispatcher: 'dispatcher',
  projector: 'projector',
  'webhook-fanout': 'webhook-fanout',
  kafka: 'Kafka',
  postgres: 'PostgreSQL',
  redis: 'Redis',
  'operations-api': 'operations-api',
  'operator-simulator': 'simulator',
  supervisor: 'supervisor',
}

/** CPU time of a process in µs per message; of the idle hub in % of a core. */
export const costOf = ({ cpuMs, messages, seconds }: Repetition, name: ProcessName): number =>
  messages === 0 ? cpuMs[name] / (seconds * 10) : (cpuMs[name] * 1000) / messages

/** The same of all processes that count to a message. */
export const wholeCostOf = (repetition: Repetition): number =>
  COUNTED.reduce((sum, name) => sum + costOf(repetition, name), 0)

/** Three figures, as many as are significant. */
const figure = (value: number): string =>
  Number.isFinite(value)
    ? Number(value.toPrecision(3)).toLocaleString('en-GB', { maximumFractionDigits: 3 })
    : 'not measured'

/** Measured values of the repetitions: the median, with the smallest and the largest. */
export const spread = (values: ReadonlyArray<number>): string =>
  values.length === 0
    ? 'not measured'
    : `${figure(median(values))} (${figure(Math.min(...values))}–${figure(Math.max(...values))})`

interface Goal {
  readonly what: string
  /** The value before any step of this work, as a text. */
  readonly before: string
  readonly goal: number
  /** The goal is a minimum. Otherwise it is a maximum. */
  readonly isMinimum?: true
  /** Of each repetition. */
  readonly values: ReadonlyArray<number>
}

/** The unit is in the name of each goal. */
const goalsOf = ({ loads, memory }: CostRun): ReadonlyArray<Goal> => {
  const each = (load: LoadName, of: (one: Repetition) => number): ReadonlyArray<number> => loads[load].map(of)
  const cost = (load: LoadName) => each(load, (one) => wholeCostOf(one) / 1000)
  const perSecond = (load: LoadName) => each(load, ({ messages, seconds }) => messages / seconds)
  const latency = (load: LoadName, name: string, which: 'p50' | 'p99') =>
    each(load, ({ latencies }) => latencies[name]?.[which] ?? Number.NaN)
  const bytes = (of: keyof Repetition['bytes']) =>
    each('batches', (one) => one.bytes[of] / one.messages / 1000)
  const idle = PROCESSES.reduce((sum, name) => sum + memory.idle[name], 0)
  return [
    { what: 'idle, whole hub, % of a core', before: '19', goal: 4, values: each('idle', wholeCostOf) },
    { what: '20/s, ms of CPU time per message', before: '35', goal: 5, values: cost('20') },
    { what: '200/s, ms', before: '7', goal: 1.5, values: cost('200') },
    { what: '64 connections, ms', before: '2.06', goal: 0.7, values: cost('64') },
    { what: 'batches of 1,000, ms', before: '1.0–1.5', goal: 0.4, values: cost('batches') },
    {
      what: 'batches of 1,000 to the event journal, messages/s',
      before: '1,930',
      goal: 5000,
      isMinimum: true,
      values: perSecond('batches'),
    },
    {
      what: 'single sends to the event journal, 64 connections, messages/s',
      before: '1,422',
      goal: 3000,
      isMinimum: true,
      values: perSecond('64'),
    },
    {
      what: '`otp` at 200/s, append to submit, p50, ms',
      before: '7',
      goal: 5,
      values: latency('200', 'submitFromAppend', 'p50'),
    },
    { what: 'the same, p99, ms', before: '87', goal: 30, values: latency('200', 'submitFromAppend', 'p99') },
    {
      what: 'single send on one connection, `service`, p50, ms',
      before: '–',
      goal: 4,
      values: latency('one', 'service', 'p50'),
    },
    { what: 'the same, `otp`, p50, ms', before: '–', goal: 4, values: latency('one', 'otp', 'p50') },
    {
      what: 'acceptance to webhook POST, full batches at 200 events/s, p50, ms',
      before: '67',
      goal: 25,
      values: latency('webhooks', 'post', 'p50'),
    },
    { what: 'the same, p99, ms', before: '–', goal: 100, values: latency('webhooks', 'post', 'p99') },
    { what: 'PostgreSQL on disk, kB per message', before: '5.2', goal: 2, values: bytes('tables') },
    { what: 'one copy of Kafka on disk, kB per message', before: '3.5', goal: 0.8, values: bytes('topics') },
    { what: 'write-ahead log, kB per message', before: '10.8', goal: 4, values: bytes('log') },
    { what: 'idle memory, whole local hub, MiB', before: '1,020', goal: 600, values: [idle] },
  ]
}

/** The median of no values is NaN, which meets no goal. */
const isMet = ({ goal, isMinimum, values }: Goal): boolean =>
  isMinimum === true ? median(values) >= goal : median(values) <= goal

const valueOf = ({ values }: Goal): string => (values.length === 1 ? figure(values[0]!) : spread(values))

const costRow = (load: LoadName, repetitions: ReadonlyArray<Repetition>): string => {
  const of = (name: ProcessName): string => figure(median(repetitions.map((one) => costOf(one, name))))
  const cells = [...COUNTED.map(of), `**${spread(repetitions.map(wholeCostOf))}**`, ...NOT_COUNTED.map(of)]
  return `| ${TITLES[load]} | ${cells.join(' | ')} |`
}

/** The rows of the table of latencies: the load, what was measured, and its key. */
const LATENCIES: ReadonlyArray<readonly [load: LoadName, what: string, key: string]> = [
  ['20', 'answer to a send, `service`', 'service'],
  ['20', 'answer to a send, `otp`', 'otp'],
  ['200', 'answer to a send, `service`', 'service'],
  ['200', 'answer to a send, `otp`', 'otp'],
  ['200', '`otp`, append to Kafka until the operator receives it', 'submitFromAppend'],
  [
    '200',
    '`otp`, acceptance time (before the commit) until the operator receives it',
    'submitFromAcceptance',
  ],
  ['one', 'answer to a send, `service`', 'service'],
  ['one', 'answer to a send, `otp`', 'otp'],
  ['64', 'answer to a send, `service`', 'service'],
  ['64', 'answer to a send, `otp`', 'otp'],
  ['batches', 'answer to a batch', 'batch'],
  ['webhooks', 'acceptance of the newest message of a full webhook batch until its POST', 'post'],
]

const latencyRow = (loads: CostResults['loads'], [load, what, key]: (typeof LATENCIES)[number]): string => {
  const all = loads[load].flatMap(({ latencies }) => latencies[key] ?? [])
  const samples = all.map((one) => one.samples).join(', ')
  return `| ${TITLES[load]} | ${what} | ${spread(all.map(({ p50 }) => p50))} | ${spread(all.map(({ p99 }) => p99))} | ${samples} |`
}

const memoryRow = (memory: CostResults['memory'], name: string, of: ReadonlyArray<ProcessName>): string => {
  const sum = (when: 'idle' | 'loaded'): string =>
    figure(of.reduce((total, one) => total + memory[when][one], 0))
  return `| ${name} | ${sum('idle')} | ${sum('loaded')} |`
}

/** Times the cost with few, at most. In the order of the rows. */
const GROWTH_GOALS: Readonly<Record<string, number>> = {
  accounts: 1.3,
  subscriptions: 1.3,
  'stored messages': 1.3,
  'partitions, idle': 1.5,
}

/** The rows of earlier runs, where the measured ones take the place of those of the same name. */
export const mergedGrowth = (
  earlier: ReadonlyArray<GrowthRow>,
  measured: ReadonlyArray<GrowthRow>,
): ReadonlyArray<GrowthRow> => {
  const newest = new Map([...earlier, ...measured].map((row) => [row.what, row]))
  return Object.keys(GROWTH_GOALS).flatMap((what) => newest.get(what) ?? [])
}

/** The rows by the run that measured them. */
const growthRuns = (rows: ReadonlyArray<GrowthRow>): ReadonlyArray<string> =>
  [
    ...Map.groupBy(rows, ({ commit, loadBefore, seconds }) => `${commit} ${loadBefore} ${seconds}`).values(),
  ].map((ofRun) => {
    const { commit, loadBefore, seconds } = ofRun[0]!
    const names = ofRun.map(({ what }) => what).join('; ')
    return `- A run of ${seconds.toFixed(0)} s at commit ${commit}, after a load average of ${loadBefore.toFixed(1)}: ${names}.${disturbance(loadBefore)}`
  })

const growthSection = ({ rows }: GrowthResults): ReadonlyArray<string> => [
  '## Growth',
  '',
  'By `npm run bench -- growth`. The load is 200 single sends a second. The cost is in µs of CPU time per',
  'message, and that of an idle hub in % of a core.',
  '',
  '- **Accounts**: the same sends, from ten accounts or each from another account.',
  '- **Subscriptions**: one gets an event of each message, the others belong to accounts that send nothing.',
  '- **Stored messages**: delivered ones of another account, with all their rows in read models and ledger.',
  '',
  '| | few | many | cost with few | with many | ratio | goal | |',
  '|---|---|---|---|---|---|---|---|',
  ...rows.map(({ costs, few, many, what }) => {
    const ratio = median(costs.many) / median(costs.few)
    const goal = GROWTH_GOALS[what] ?? Number.NaN
    return `| ${what} | ${few.toLocaleString('en-GB')} | ${many.toLocaleString('en-GB')} | ${spread(costs.few)} | ${spread(costs.many)} | ${figure(ratio)} | ≤ ${goal} | ${ratio <= goal ? 'met' : '**missed**'} |`
  }),
  '',
  ...growthRuns(rows),
  '',
]

export const costPage = (results: CostResults, growth: GrowthResults): string => {
  const { charts, commit, earlier, loadBefore, loads, machine, memory, partitions, seconds } = results
  const goals = goalsOf(results)
  const earlierGoals = earlier === null ? null : goalsOf(earlier)
  const isMetAt = (index: number): boolean =>
    isMet(goals[index]!) && (earlierGoals === null || isMet(earlierGoals[index]!))
  const withMessages = LOADS.filter((load) => load !== 'idle')
  return [
    '# Cost of a message',
    '',
    'Generated by `npm run bench -- cost` from `cost.json`. Do not edit this page.',
    '',
    'This page shows the CPU time, disk space and memory that the hub and its servers use for a message.',
    '',
    `The last run took ${seconds.toFixed(0)} s on ${machine}, at commit ${commit}. The load average before`,
    `the run was ${loadBefore.toFixed(1)}.${disturbance(loadBefore)}`,
    ...(earlier === null
      ? []
      : [
          `The run before it, of the same commit, took ${earlier.seconds.toFixed(0)} s. The load average before that run`,
          `was ${earlier.loadBefore.toFixed(1)}.${disturbance(earlier.loadBefore)} Only the goals show both runs.`,
        ]),
    '',
    '## Conditions',
    '',
    `- The hub runs as \`npm start\` runs it: one process of each app, topics with ${partitions} partitions, one`,
    '  Kafka node, PostgreSQL and Redis. All of them, the load generator and the operator share the cores.',
    '- Live keys. The operator is the simulator, over SMPP. It returns a delivery report for each message after',
    '  200 ms. Flood windows count each message, and each message has a charge. Each has a new recipient.',
    '- Of ten single sends, one is a code (`otp`), and five on one connection. Batches have `service` messages.',
    '- The account has no subscription, except in the load with webhook events.',
    '- A message costs what all processes use from the first send of a load until the last event of its',
    '  messages (accepted, sent, delivered) is in the event journal, divided by the messages. This includes',
    '  what the hub would use while idle. CPU time is from `/proc`, with children that have ended. The kernel',
    '  threads that write to the disk do not count.',
    '- Values are medians of three repetitions in one run, with the smallest and the largest in parentheses.',
    '',
    '## Goals',
    '',
    `**${goals.filter((_, index) => isMetAt(index)).length} of ${goals.length} goals are met.** *Before* is the value when the work on the cost began.`,
    '',
    `| | before | goal | last run | ${earlierGoals === null ? '' : 'run before it | '}|`,
    `|---|---|---|---|${earlierGoals === null ? '' : '---|'}---|`,
    ...goals.map((one, index) => {
      const earlierCell = earlierGoals === null ? '' : `${valueOf(earlierGoals[index]!)} | `
      return `| ${one.what} | ${one.before} | ${one.isMinimum === true ? '≥' : '≤'} ${figure(one.goal)} | ${valueOf(one)} | ${earlierCell}${isMetAt(index) ? 'met' : '**missed**'} |`
    }),
    '',
    'Where the time of a missed goal goes, what was tried, and what the least value would be:',
    '[lower bounds](history/cost.md#lower-bounds).',
    '',
    '## CPU time in µs per message',
    '',
    'The first row is in % of a core. The total does not include the simulator and the supervisor.',
    '',
    `| load | ${COUNTED.map((name) => NAMES[name]).join(' | ')} | total | ${NOT_COUNTED.map((name) => NAMES[name]).join(' | ')} |`,
    `|---|${PROCESSES.map(() => '---|').join('')}---|`,
    ...LOADS.map((load) => costRow(load, loads[load])),
    '',
    ...charts.flatMap(({ file, title }) => [`![${title}](${file})`, '']),
    '## Throughput, to the event journal',
    '',
    '| load | messages/s | messages of each repetition |',
    '|---|---|---|',
    ...withMessages.map(
      (load) =>
        `| ${TITLES[load]} | ${spread(loads[load].map((one) => one.messages / one.seconds))} | ${loads[load].map((one) => one.messages).join(', ')} |`,
    ),
    '',
    '## Latency, ms',
    '',
    '| load | what | p50 | p99 | samples |',
    '|---|---|---|---|---|',
    ...LATENCIES.map((row) => latencyRow(loads, row)),
    '',
    '## Bytes per message',
    '',
    'PostgreSQL counts tables and indexes, Kafka one copy of the topics of the hub.',
    '',
    '| load | PostgreSQL | Kafka | write-ahead log |',
    '|---|---|---|---|',
    ...withMessages.map((load) => {
      const of = (key: keyof Repetition['bytes']): string =>
        spread(loads[load].map((one) => one.bytes[key] / one.messages))
      return `| ${TITLES[load]} | ${of('tables')} | ${of('topics')} | ${of('log')} |`
    }),
    '',
    '## Memory, MiB',
    '',
    'Resident memory. A page that several processes share is divided among them. *Idle* is before the first',
    'message, *loaded* the largest value directly after a load.',
    '',
    '| | idle | loaded |',
    '|---|---|---|',
    ...PROCESSES.map((name) => memoryRow(memory, NAMES[name], [name])),
    memoryRow(memory, 'apps and servers', COUNTED),
    memoryRow(memory, 'whole local hub', PROCESSES),
    '',
    ...growthSection(growth),
    '## Other hubs',
    '',
    'These figures are from an earlier run on a machine of the same kind. The programs are not part of this',
    'repository, so this run did not measure them.',
    '',
    '| program | CPU time in µs per message | durability |',
    '|---|---|---|',
    '| Jasmin | 700 | RabbitMQ and Redis, no durable record of a message |',
    '| Kannel, acceptance only | 260 | spool files, no fsync |',
    '| Kannel, with SMPP and delivery reports | 1,000 | spool files, no fsync |',
    '',
  ].join('\n')
}
