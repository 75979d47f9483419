/** `hubctl projections`: the lag of the read models behind the log, and their rebuild. */
import { toTimestamp } from '@hub/domain'
import { readOffsetRanges, topicNames } from '@hub/kafka'
import {
  cancelRebuild,
  ReadCheckpoints,
  readRebuild,
  readRebuilds,
  type Rebuild,
  type RebuildPolicy,
  requestRebuild,
} from '@hub/store'
import { Duration, Effect, Schedule } from 'effect'
import { audited } from '../audit/audit-trail.ts'
import { switchFlag } from '../command-line/arguments.ts'
import { defineCommand, defineGroup, NOTHING } from '../command-line/command.ts'
import { confirm } from '../command-line/confirm.ts'
import { database, kafkaConfig, query } from '../command-line/connections.ts'
import { refused, usageError } from '../command-line/failure.ts'
import { fields, optionalTimestamp, printNote, show, table } from '../command-line/output.ts'

const differencesOf = ({ compared }: Rebuild): number | null =>
  compared === null ? null : compared.reduce((sum, { differences }) => sum + differences, 0)

const rebuildObject = (rebuild: Rebuild) => ({
  id: rebuild.id,
  object: 'rebuild',
  policy: rebuild.policy,
  state: rebuild.state,
  outcome: rebuild.outcome,
  failure: rebuild.failure,
  since: optionalTimestamp(rebuild.since),
  records: rebuild.records,
  restored: rebuild.restored,
  differences: differencesOf(rebuild),
  compared: rebuild.compared,
  requested_at: toTimestamp(rebuild.requestedAt),
  started_at: optionalTimestamp(rebuild.startedAt),
  compared_at: optionalTimestamp(rebuild.comparedAt),
  ended_at: optionalTimestamp(rebuild.endedAt),
})

const differenceText = (missing: 'live' | 'rebuilt' | null, columns: ReadonlyArray<string>): string =>
  missing === null ? columns.join(', ') : missing === 'live' ? 'not in the live table' : 'not in the log'

/** The outcome of a rebuild, its tables, and examples of rows that differ. */
const rebuildText = (rebuild: ReturnType<typeof rebuildObject>): string => {
  const head = fields({
    rebuild: rebuild.id,
    policy: rebuild.policy,
    state: rebuild.outcome ?? rebuild.state,
    failure: rebuild.failure,
    'messages since': rebuild.since ?? 'the beginning',
    'records projected': rebuild.records,
    'numbers restored': rebuild.restored,
    requested: rebuild.requested_at,
    ended: rebuild.ended_at,
  })
  if (rebuild.compared === null) return head
  const tables = table(rebuild.compared, {
    table: (row) => row.table,
    live: (row) => row.live,
    rebuilt: (row) => row.rebuilt,
    differences: (row) => row.differences,
  })
  const examples = rebuild.compared.flatMap((one) =>
    one.examples.map((row) => ({ table: one.table, ...row })),
  )
  return [
    head,
    tables,
    ...(examples.length === 0
      ? []
      : [
          table(examples, {
            table: (row) => row.table,
            row: (row) => row.key,
            differs: (row) => differenceText(row.missing, row.columns),
          }),
        ]),
  ].join('\n\n')
}

interface Lag {
  readonly topic: string
  readonly partition: number
  readonly position: number
  readonly end: number
  readonly lag: number
}

const readLags = Effect.gen(function* () {
  const [connection, { prefix }] = yield* kafkaConfig
  const names = topicNames(prefix)
  const topics = [names.acceptedOtp, names.acceptedService, names.messages]
  const ranges = yield* readOffsetRanges(connection, topics)
  const rows = yield* query(ReadCheckpoints.readPositions)
  const positions = new Map(
    rows.map(({ partition, position, topic }) => [`${prefix}${topic}/${partition}`, position]),
  )
  return [...ranges].flatMap(([topic, partitions]) =>
    partitions.map(({ high, low, partition }): Lag => {
      const position = positions.get(`${topic}/${partition}`) ?? 0
      return { topic, partition, position, end: high, lag: Math.max(0, high - Math.max(position, low)) }
    }),
  )
})

const status = defineCommand(
  'status',
  {
    short: 'Show the lag of the read models, and the last rebuild',
    about:
      'Shows for each partition of the lanes and the log how many records the read models lack. Shows ' +
      'the rebuild in progress or the last one, with its comparison and examples of rows that differ.',
    changes: NOTHING,
    examples: [
      { command: 'hubctl projections status', description: 'Partitions, and the last rebuild' },
      { command: 'hubctl projections status --json', description: 'For a program' },
    ],
    needs: database,
  },
  {},
  Effect.fnUntraced(function* () {
    const partitions = yield* readLags
    const [last] = yield* readRebuilds(1)
    const behind = partitions.reduce((sum, { lag }) => sum + lag, 0)
    const value = {
      object: 'projections',
      lag: behind,
      partitions,
      rebuild: last === undefined ? null : rebuildObject(last),
    }
    yield* show(value, ({ rebuild }) =>
      [
        table(partitions, {
          topic: (row) => row.topic,
          partition: (row) => row.partition,
          position: (row) => row.position,
          end: (row) => row.end,
          lag: (row) => row.lag,
        }),
        `${behind} records behind.`,
        rebuild === null ? 'Nothing has been rebuilt.' : rebuildText(rebuild),
      ].join('\n\n'),
    )
  }),
)

const POLL_INTERVAL = Duration.seconds(1)
/** Enough for a log of thirteen months. */
const MAX_WAIT = Duration.hours(48)

const waitFor = (id: string) =>
  readRebuild(id).pipe(
    Effect.repeat({
      until: (rebuild) => rebuild === null || rebuild.endedAt !== null,
      schedule: Schedule.spaced(POLL_INTERVAL),
    }),
    Effect.timeoutOrElse({
      duration: MAX_WAIT,
      orElse: () =>
        Effect.fail(refused('rebuild_goes_on', 'The rebuild continues. hubctl projections status shows it.')),
    }),
  )

const OUTCOMES: Readonly<Record<string, string>> = {
  refused: 'The rebuilt tables differ from the live ones, which were not changed.',
  failed: 'The rebuild failed. The live tables were not changed.',
  cancelled: 'The rebuild was cancelled. The live tables were not changed.',
}

const rebuild = defineCommand(
  'rebuild',
  {
    short: 'Rebuild the read models from the log, and swap them',
    about:
      'A projector rebuilds messages, history, operator ids, batches and statistics from the log, in ' +
      'tables beside the live ones, while the hub runs. It compares both row by row at the same log ' +
      'position, and then swaps the tables. If rows differ, it swaps only with --accept-differences. ' +
      'Events, charges and the spend do not change, and clients get no events. With --wait, the exit ' +
      'code is 1 if rows differ or the swap did not happen.',
    changes:
      'The tables of the read models, in one transaction. The old tables are dropped; only another ' +
      'rebuild can undo it. With --compare-only nothing changes.',
    examples: [
      {
        command: 'hubctl projections rebuild --compare-only --wait',
        description: 'Check the read models',
      },
      { command: 'hubctl projections rebuild --yes', description: 'Swap them, unless rows differ' },
      {
        command: 'hubctl projections rebuild --accept-differences',
        description: 'After the repair of a projector fault',
      },
    ],
    needs: database,
  },
  {
    compareOnly: switchFlag('compare-only', 'Compare, but do not swap'),
    acceptDifferences: switchFlag('accept-differences', 'Swap also if rows differ'),
    wait: switchFlag('wait', 'Wait for the end. Ctrl-C ends the wait, not the rebuild'),
  },
  Effect.fnUntraced(function* ({ acceptDifferences, compareOnly, wait }) {
    if (compareOnly && acceptDifferences) {
      return yield* usageError('--compare-only swaps nothing. Leave out --accept-differences.')
    }
    const policy: RebuildPolicy = compareOnly ? 'compare_only' : acceptDifferences ? 'swap' : 'swap_if_equal'
    if (!compareOnly) {
      const condition = acceptDifferences ? 'also if rows differ' : 'unless rows differ'
      yield* confirm(`Replace the live read models with rebuilt ones, ${condition}?`)
    }
    const requested = yield* audited(
      { command: 'projections rebuild', arguments: { policy } },
      requestRebuild(policy).pipe(
        Effect.catchTag('RebuildInProgress', ({ id }) =>
          Effect.fail(
            refused('rebuild_under_way', `The rebuild ${id} is in progress. Only one can run at a time.`),
          ),
        ),
      ),
      ({ id }) => ({ rebuild: id }),
    )
    if (wait) yield* printNote(`Waiting for the rebuild ${requested.id}.`)
    const ended = wait ? yield* waitFor(requested.id) : requested
    if (ended === null) return yield* refused('rebuild_not_found', 'The rebuild does not exist any more.')
    yield* show(rebuildObject(ended), rebuildText)
    const failure = ended.outcome === null ? undefined : OUTCOMES[ended.outcome]
    if (failure !== undefined) return yield* refused(`rebuild_${ended.outcome}`, failure)
    if (policy === 'compare_only' && (differencesOf(ended) ?? 0) > 0) {
      return yield* refused('read_models_differ', 'The read models differ from the log.')
    }
  }),
)

const cancel = defineCommand(
  'cancel',
  {
    short: 'Cancel the rebuild in progress',
    about: 'Cancels the rebuild in progress. Its tables are dropped; the live tables do not change.',
    changes: 'Only the rebuild. A rebuild that has swapped its tables has ended.',
    examples: [{ command: 'hubctl projections cancel' }],
    needs: database,
  },
  {},
  Effect.fnUntraced(function* () {
    const cancelled = yield* audited(
      { command: 'projections cancel', arguments: {} },
      cancelRebuild,
      (found) => ({ rebuild: found?.id ?? null }),
    )
    if (cancelled === null) return yield* refused('no_rebuild', 'No rebuild is in progress.')
    yield* show(rebuildObject(cancelled), rebuildText)
  }),
)

export const projections = defineGroup(
  'projections',
  {
    short: 'Read models: lag and rebuild',
    about: 'The read models: their lag behind the log, and their rebuild from it.',
  },
  [status, rebuild, cancel],
)
