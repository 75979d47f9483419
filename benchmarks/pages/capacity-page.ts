/** Generates `docs/capacity.md`: what a hub needs, calculated from the results of the last run. */
import type { CostResults } from './cost-results.ts'
import type { Results } from './results.ts'
import { ASSUMPTIONS, RATES, type Sizing, sizingOf } from './scale-model.ts'

const thousands = (value: number): string => Math.round(value).toLocaleString('en-US')
const tens = (value: number): string => thousands(Math.round(value / 10) * 10)
const percent = (value: number): string => `${(100 * value).toFixed(0)} %`

const RETENTION_DAYS: Readonly<Record<string, number>> = {
  'hub.webhooks.v1': 30,
  'hub.operator-reports.v1': 90,
}
/** Thirteen months, in days: the retention of lanes and log. */
const OTHER_RETENTION_DAYS = 397

export const capacityPage = (results: Results, cost: CostResults): string => {
  const accepting = results.sections.acceptance.figures
  const dispatching = results.sections.dispatching.figures
  const recovery = results.sections.recovery.figures
  const webhooks = results.sections.webhooks.figures
  const { disk = {}, profile = {}, scaling = {} } = results.alone
  const cores = Number.parseInt(results.machine, 10)
  const of = (figures: Readonly<Record<string, number>>, name: string): number => figures[name] ?? Number.NaN

  const rates: ReadonlyArray<readonly [what: string, perSecond: number]> = [
    ['accept single sends (one command-api, PostgreSQL, Kafka)', of(accepting, 'sendsPerSecond')],
    ['accept batches of 1,000', of(accepting, 'batchedPerSecond')],
    [
      'dispatch and project with the sandbox, from the lane to the event journal',
      of(dispatching, 'sandboxPerSecond'),
    ],
    ['the same over SMPP, with the simulator on the same machine', of(dispatching, 'smppPerSecond')],
    ['single sends until the last event is in the event journal', of(accepting, 'endToEndPerSecond')],
    ['deliver a webhook with one event', of(webhooks, 'deliveriesPerSecond')],
    ['deliver an event of a backlog, in webhook batches of 100', of(webhooks, 'backlogEventsPerSecond')],
  ]
  const coreRate = of(accepting, 'endToEndPerSecond') / cores
  const memory: ReadonlyArray<readonly [app: string, largest: number, when: string, limit: number]> = [
    ['command-api', of(accepting, 'command-api.afterLoadMiB'), '', 512],
    [
      'dispatcher',
      Math.max(of(dispatching, 'dispatcherPipelineMiB'), of(dispatching, 'dispatcherBacklogMiB')),
      ', with a million waiting messages',
      768,
    ],
    ['projector', of(dispatching, 'projectorPipelineMiB'), ', with a backlog of 20,000 messages', 768],
    ['webhook-fanout', of(webhooks, 'backlogMiB'), ', with a backlog of a million events', 512],
  ]
  const topics = Object.entries(disk).filter(([name]) => name.startsWith('hub.'))
  const tables = Object.entries(disk).filter(([name]) => !name.startsWith('hub.'))
  const sum = (entries: ReadonlyArray<readonly [string, number]>): number =>
    entries.reduce((total, [, bytes]) => total + bytes, 0)
  const retained = topics.reduce(
    (total, [name, bytes]) => total + bytes * (RETENTION_DAYS[name] ?? OTHER_RETENTION_DAYS),
    0,
  )
  const sandbox = of(dispatching, 'sandboxPerSecond')
  const catchUpMinutes = (3600 * 500) / (sandbox - 500) / 60
  const sizes = RATES.map((rate) => sizingOf(cost, rate))
  const oneOf = (value: number): string => Number(value.toPrecision(2)).toLocaleString('en-US')
  const dollars = (value: number): string => `$${Number(value.toPrecision(2)).toLocaleString('en-US')}`
  const rows: ReadonlyArray<readonly [what: string, of: (size: Sizing) => string]> = [
    ['command-api, processes', ({ processes }) => thousands(processes['command-api'])],
    ['dispatcher', ({ processes }) => thousands(processes.dispatcher)],
    ['projector', ({ processes }) => thousands(processes.projector)],
    ['webhook-fanout', ({ processes }) => thousands(processes['webhook-fanout'])],
    ['partitions of each topic', ({ partitions }) => thousands(partitions)],
    ['messages per second of a shard', ({ partitions, rate }) => thousands(rate / partitions)],
    ['Kafka brokers, and cores of each', (size) => `${size.brokers}, ${size.brokerCores}`],
    ['PostgreSQL servers, and cores of each', (size) => `${size.postgresServers}, ${size.postgresCores}`],
    ['write-ahead log, MB per second', ({ logMBPerSecond }) => oneOf(logMBPerSecond)],
    ['PostgreSQL, TB that a month of messages adds', ({ tablesTBPerMonth }) => oneOf(tablesTBPerMonth)],
    ['one copy of the topics, TB of a month', ({ topicsTBPerMonth }) => oneOf(topicsTBPerMonth)],
    ['cores of all machines', (size) => thousands(size.cores)],
    ['cores, a month', ({ computePrice }) => dollars(computePrice)],
    [
      'each month of messages on disk, with copies and standby, a month',
      ({ diskPrice }) => dollars(diskPrice),
    ],
    [
      'both, for a million messages of the average',
      ({ computePrice, diskPrice, messagesPerMonth }) =>
        `$${((1e6 * (computePrice + diskPrice)) / messagesPerMonth).toFixed(2)}`,
    ],
  ]

  return `# Capacity

Generated from \`results.json\` and \`cost.json\` in \`benchmarks/pages\` (\`node scripts/run.mjs benchmarks/pages/report.ts\`). Do not edit this page.

This page says how much processor time, memory and disk a hub needs. Measured figures come from the
last run of the benchmark ([results](../benchmarks/RESULTS.md)), with all servers, all apps and the
load generator on one machine: ${results.machine}. Figures marked ᴬ are
arithmetic from them. Nothing above ${thousands(of(accepting, 'batchedPerSecond'))} messages per second has been measured.
What a hub does above its capacity is in [behaviour under load](../benchmarks/FLOW.md).

## Processor time

At 200 single sends per second the whole hub uses about ${of(profile, 'hub.cores')} cores, or 8 ms per message:
command-api ${of(profile, 'command-api.cores')} of a core, Kafka ${of(profile, 'kafka.cores')}, projector ${of(profile, 'projector.cores')}, PostgreSQL ${of(profile, 'postgresql.cores')}, dispatcher ${of(profile, 'dispatcher.cores')} (one profile).
Most of it is the cost of waking up for few messages. Under load, messages share transactions and produce
requests, and a message costs a fraction of that:

| work | measured on ${cores} cores | cores for 1,000 per second ᴬ |
|---|---|---|
${rates.map(([what, perSecond]) => `| ${what} | ${thousands(perSecond)}/s | ${Number(((1000 * cores) / perSecond).toPrecision(2))} |`).join('\n')}

**A core carries about ${tens(coreRate)} messages per second** ᴬ, from the send to the event journal, with all servers
on the same machine. Plan with ${tens(coreRate * 0.6)} ᴬ, which leaves a reserve for restarts, rebalances and the failure of
another machine.

## Memory

| app | at rest, MiB | after load, MiB | largest, MiB | limit to configure, MiB |
|---|---|---|---|---|
${memory.map(([app, largest, when, limit]) => `| ${app} | ${thousands(of(accepting, `${app}.atRestMiB`))} | ${thousands(of(accepting, `${app}.afterLoadMiB`))} | ${thousands(largest)}${when} | ${limit} |`).join('\n')}

- An open message takes 0.9 KB in the dispatcher, and one that has just finished 0.3 KB
  ([decision on backlogs](decisions/shards.md#backlogs)). A dispatcher process holds 150,000
  messages at most. Then it stops reading the lanes.
- Redis takes about 220 bytes for each number that received a message within a day
  ([decision on flood windows](decisions/limits.md#flood-windows)). A million numbers take a quarter of a gigabyte.

## Disk

\`npm run bench -- disk\` measures what 20,000 messages leave on disk. Half of them are \`otp\`, each has
three events, and no webhook is delivered. Bytes per message are megabytes per million messages.
Tables include their indexes. \`hub.webhooks.v1\` contains only the events of accounts with a
subscription; the account here has one.

| topic | bytes per message |
|---|---|
${topics.map(([name, bytes]) => `| \`${name}\` | ${thousands(bytes)} |`).join('\n')}
| all topics, one copy | ${thousands(sum(topics))} |

| table | bytes per message |
|---|---|
${tables.map(([name, bytes]) => `| \`${name}\` | ${thousands(bytes)} |`).join('\n')}
| all tables | ${thousands(sum(tables))} |

A million messages per day add ${((3 * sum(topics)) / 1000).toFixed(1)} GB per day to three brokers together and ${(sum(tables) / 1000).toFixed(1)} GB per day to
PostgreSQL ᴬ. Events are ${percent((disk['read.event_journal'] ?? disk['read.events'] ?? Number.NaN) / sum(tables))} of the latter. When retention removes as much as arrives, the topics
contain ${tens(retained / 1000)} GB per copy ᴬ: 30 days of \`hub.webhooks.v1\`, 90 days of \`hub.operator-reports.v1\`, and thirteen
months of lanes and log. Tables grow for three years and lose personal data after one
([retention](decisions/retention.md)).

## More processes

\`test/operating/scaling.e2e.test.ts\` goes from one process of each consumer to three and back under load,
and shows that nothing is lost. On two shared cores, more processes bring no throughput. Therefore
\`npm run bench -- scaling\` lets each process of one consumer run for a tenth of the time, as if it had
a tenth of a core. It sends bursts of 2,400 messages of 96 accounts. The figures are medians of three.

| consumer | one process | three processes | ratio | cores used, one and three |
|---|---|---|---|---|
${['dispatcher', 'projector', 'webhook-fanout']
  .map((app) => {
    const [one, three] = [of(scaling, `${app}.onePerSecond`), of(scaling, `${app}.threePerSecond`)]
    const name = app === 'webhook-fanout' ? `${app}, 60 events per message` : app
    return `| ${name} | ${thousands(one)} messages/s | ${thousands(three)} messages/s | ${(three / one).toFixed(1)} | ${of(scaling, `${app}.oneCores`).toFixed(2)}, ${of(scaling, `${app}.threeCores`).toFixed(2)} |`
  })
  .join('\n')}

The ratio is below 3 for three reasons. The time includes the work of the other apps before the consumer.
Smaller transaction batches cost more per record. And three processes finish when the one with the most
work finishes, because a recipient or a subscription belongs to one process. webhook-fanout has twenty
endpoints per account here. With one endpoint, its webhook batches close by their window of one second, and
more processes bring nothing. Scaling with a whole core for each process has not been measured.

## Share of the capacity in use

Each command-api shows as \`hub_admission_capacity_used_ratio\` how much of its capacity is in use, smoothed over
five seconds. It is the highest of three figures:

- the share of the time in which its event loop works. It rises with the requests, and is the limit while
  all servers are fast.
- the time that a new single \`service\` send would wait, divided by the longest wait that is admitted. It rises
  when PostgreSQL, Kafka or Redis are the limit.
- while it refuses sends: the sends that clients wanted, divided by those that it did. At 2, it refuses
  half of them ([decision on overload](decisions/overload.md)).

Below 1 nothing is refused. The first figure overestimates a little, because sends that share acceptance
batches cost less at high load. With _n_ processes, the others take over \`1 ÷ (n − 1)\` of the load of one that
fails. So plan for a peak of at most 0.8 × (_n_ − 1) ÷ _n_: 0.4 with two processes, 0.6 with four.
\`HubNearCapacity\` fires at 0.8. One command-api alone reached ${thousands(of(accepting, 'sendsPerSecond'))} single sends per second on ${cores} cores.

## Scale model

The model calculates what a hub needs from the cost of a single send with 64 connections
([cost of a message](../benchmarks/COST.md)): CPU time by process, and bytes. All values are arithmetic ᴬ. Only
the first column is near a rate that was measured. Batches of 1,000 need about half of the CPU time. The
model assumes:

- A plan uses ${percent(ASSUMPTIONS.used)} of its cores at the peak. Each app has at least two processes, with a core each.
- Topics have ${ASSUMPTIONS.copies} copies. A follower costs half of what the leader of a partition costs.
- A shard carries ${ASSUMPTIONS.shard} messages per second: half of the ${thousands(sandbox / 6)} that one carried beside five others on
  ${cores} cores. The number of partitions cannot be changed later.
- One PostgreSQL server writes at most ${ASSUMPTIONS.logMBPerSecond} MB of write-ahead log in a second and has at most ${ASSUMPTIONS.postgresCores} cores.
  Each PostgreSQL and Redis server has a standby.
- The average of a month is a third of the peak. A core with 4 GB of memory costs $${ASSUMPTIONS.core} a month, and a gigabyte
  of SSD $${ASSUMPTIONS.gigabyte.toFixed(2)}. Replace these prices by yours.

| messages per second, at the peak | ${sizes.map(({ rate }) => thousands(rate)).join(' | ')} |
|---|${sizes.map(() => '---|').join('')}
${rows.map(([what, of]) => `| ${what} | ${sizes.map(of).join(' | ')} |`).join('\n')}

What limits first, and how to remove the limit:

- **1,000**: one process of command-api, because a process uses one core. Add a process. Up to ${tens(coreRate)} messages per
  second, everything fits on one machine with two cores, and up to 1,000 with four.
- **10,000**: the write-ahead log of PostgreSQL (${thousands(sizes[1]!.logMBPerSecond)} MB per second) and its disk. PostgreSQL is the one server that
  is not partitioned. First put the schemas \`read\` and \`command\` on separate servers. Before,
  the statements that join both must be divided: refunds of codes, the reconciler and lists ask the ledger and
  the read models in one statement.
- **100,000**: one PostgreSQL server cannot do it at all, neither its log (${thousands(sizes[2]!.logMBPerSecond)} MB per second) nor its cores. The
  read models and the ledger must be partitioned by account over ${sizes[2]!.postgresServers} servers, by a directory of accounts or with
  Citus. References, spend, batches, events and lists belong to one account, so no transaction spans two
  servers. Opt-outs, the daily limit of the hub and erasures belong to all accounts, and each server needs a
  copy. None of this exists today.
- **One large account**, at any size: its event journal has one order, so the transactions of all projectors
  that contain its events follow each other, each with up to some hundred events. An account with a spend limit
  is one row, so its acceptance batches follow each other, each with up to 2,000 messages. One account has been
  measured with the rates of the first table. Beyond them, divide it into several accounts.

**The operator.** The number of open messages is the rate multiplied by the time until the delivery report.
At 1,000 messages per second and reports after 30 seconds there are 30,000, which one dispatcher holds. With
reports after ten minutes there are 600,000, which need four dispatchers (150,000 each), whatever their
processor time. An SMPP window of _w_ messages with an answer after _t_ seconds lets through _w_ ÷ _t_
messages per second and bind: a window of 10 at 50 ms allows 200.

**Catching up.** One projector on the ${cores} cores of the measurement applies ${thousands(4 * sandbox)} records per second (four
per message). After an hour of downtime at 500 messages per second, it catches up in ${catchUpMinutes.toFixed(0)} minutes ᴬ while new
messages arrive. A shard with ${thousands(of(recovery, 'openMessages'))} open messages opens in ${(of(recovery, 'recoveryMs') / 1000).toFixed(1)} to ${(of(recovery, 'recoveryAfterADayMs') / 1000).toFixed(1)} s.
`
}
