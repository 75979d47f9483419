/** `hubctl projections`: how far the read models are behind the log, and rebuilding them from it. */
import { toTimestamp } from '@hub/domain'
import { catalogueConfig, kafkaConnectionConfig, readOffsetRanges, topicNames } from '@hub/kafka'
import {
  cancelRebuild,
  ReadCheckpoints,
  readRebuild,
  readRebuilds,
  type Rebuild,
  type RebuildPolicy,
  requestRebuild,
  Sql,
} from '@hub/store'
import { Config, Duration, Effect, Schedule } from 'effect'
import { Flag } from 'effect/cli'
import { audited } from '../audit/audit-trail.ts'
import { defineCommand, defineGroup, NOTHING } from '../command-line/command.ts'
import { confirm } from '../command-line/confirm.ts'
import { CLIENT, database } from '../command-line/connections.ts'
import { usageError, refused } from '../command-line/failure.ts'
import { fields, note, show, table } from '../command-line/output.ts'

const momentOf = (at: number | null): string | null => (at === null ? null : toTimestamp(at))

const differencesOf = ({ compared }: Rebuild): number | null =>
  compared === null ? null : compared.reduce((sum, { differences }) => sum + differences, 0)

const rebuildObject = (rebuild: Rebuild) => ({
  id: rebuild.id,
  object: 'rebuild',
  policy: rebuild.policy,
  state: rebuild.state,
  outcome: rebuild.outcome,
  failure: rebuild.failure,
  since: momentOf(rebuild.since),
  records: rebuild.records,
  restored: rebuild.restored,
  differences: differencesOf(rebuild),
  compared: rebuild.compared,
  requested_at: toTimestamp(rebuild.requestedAt),
  started_at: momentOf(rebuild.startedAt),
  compared_at: momentOf(rebuild.comparedAt),
  ended_at: momentOf(rebuild.endedAt),
})

const sidesOf = (missing: 'live' | 'rebuilt' | null, columns: ReadonlyArray<string>): string =>
  missing === null ? columns.join(', ') : missing === 'live' ? 'not in the live table' : 'not in the log'

/** A rebuild as people read it: what became of it, table by table, and the first rows that differ. */
const describe = (rebuild: ReturnType<typeof rebuildObject>): string => {
  const head = fields({
    rebuild: rebuild.id,
    policy: rebuild.policy,
    state: rebuild.outcome ?? rebuild.state,
    failure: rebuild.failure,
    'messages since': rebuild.since ?? 'the beginning',
    'records folded': rebuild.records,
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
            differs: (row) => sidesOf(row.missing, row.columns),
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

const lags = Effect.gen(function* () {
  const [connection, { prefix }] = yield* Config.all([kafkaConnectionConfig(CLIENT), catalogueConfig])
  const sql = yield* Sql
  const names = topicNames(prefix)
  const ranges = yield* readOffsetRanges(connection, [
    names.acceptedOtp,
    names.acceptedService,
    names.messages,
  ])
  const rows = yield* sql.run(ReadCheckpoints.readPositions)
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
    short: 'How far the read models are behind, and the last rebuild',
    about:
      'Shows for every partition of the lanes and the log how many of its records are not in the read models yet, and the rebuild under way or, where there ' +
      'is none, the last one: what it compared, and the first rows that differ, by key and names of columns.',
    changes: NOTHING,
    examples: [
      { command: 'hubctl projections status', description: 'Partitions, and the last rebuild' },
      { command: 'hubctl projections status --json', description: 'For a program' },
    ],
    needs: database,
  },
  {},
  Effect.fnUntraced(function* () {
    const partitions = yield* lags
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
        rebuild === null ? 'Nothing has been rebuilt.' : describe(rebuild),
      ].join('\n\n'),
    )
  }),
)

/** How often a rebuild that is waited for is looked at, and for how long: a log of thirteen months takes its time. */
const LOOK_EVERY = Duration.seconds(1)
const WAIT_MOST = Duration.hours(48)

const waitFor = (id: string) =>
  readRebuild(id).pipe(
    Effect.repeat({
      until: (rebuild) => rebuild === null || rebuild.endedAt !== null,
      schedule: Schedule.spaced(LOOK_EVERY),
    }),
    Effect.timeoutOrElse({
      duration: WAIT_MOST,
      orElse: () =>
        Effect.fail(refused('rebuild_goes_on', 'It goes on; hubctl projections status shows it.')),
    }),
  )

const OUTCOMES: Readonly<Record<string, string>> = {
  refused: 'The rebuilt tables differ from the live ones, which stay as they are.',
  failed: 'The rebuild failed; the live tables stay as they are.',
  cancelled: 'The rebuild was cancelled; the live tables stay as they are.',
}

const rebuild = defineCommand(
  'rebuild',
  {
    short: 'Fold the read models from the log once more, and swap them',
    about:
      'Has a projector build messages, history, operators’ ids, batches and statistics from the log once more, beside the live tables and while the hub goes on, ' +
      'compare both row by row at one place of the log, and put the new ones where the live ones are. Where something differs, nothing is swapped unless ' +
      '--accept-differences says so. Events, charges and what was spent are not touched and nobody is told anything again. The exit code of --wait is 1 where ' +
      'something differs or nothing was swapped that should have been.',
    changes:
      'The tables of the read models, in one moment. What was there before is dropped: there is no way back but another rebuild. With --compare-only nothing.',
    examples: [
      {
        command: 'hubctl projections rebuild --compare-only --wait',
        description: 'Are the read models right?',
      },
      { command: 'hubctl projections rebuild --yes', description: 'Swap them, unless something differs' },
      {
        command: 'hubctl projections rebuild --accept-differences',
        description: 'After a fault of the projector was mended',
      },
    ],
    needs: database,
  },
  {
    compareOnly: Flag.Boolean('compare-only').pipe(
      Flag.withDescription('Compare, and swap nothing'),
      Flag.withDefault(false),
    ),
    acceptDifferences: Flag.Boolean('accept-differences').pipe(
      Flag.withDescription('Swap whatever differs'),
      Flag.withDefault(false),
    ),
    wait: Flag.Boolean('wait').pipe(
      Flag.withDescription('Wait until it has ended. Whoever stops waiting does not stop it'),
      Flag.withDefault(false),
    ),
  },
  Effect.fnUntraced(function* ({ acceptDifferences, compareOnly, wait }) {
    if (compareOnly && acceptDifferences) {
      return yield* usageError('--compare-only swaps nothing, so there is nothing to accept.')
    }
    const policy: RebuildPolicy = compareOnly ? 'compare_only' : acceptDifferences ? 'swap' : 'swap_if_equal'
    if (!compareOnly) {
      yield* confirm(
        acceptDifferences
          ? 'Put rebuilt read models in the place of the live ones, whatever differs?'
          : 'Put rebuilt read models in the place of the live ones, unless something differs?',
      )
    }
    const requested = yield* audited(
      { command: 'projections rebuild', arguments: { policy } },
      requestRebuild(policy).pipe(
        Effect.catchTag('RebuildInProgress', ({ id }) =>
          Effect.fail(
            refused('rebuild_under_way', `The rebuild ${id} is under way; there is one at a time.`),
          ),
        ),
      ),
      ({ id }) => ({ rebuild: id }),
    )
    if (wait) yield* note(`Waiting for the rebuild ${requested.id}.`)
    const ended = wait ? yield* waitFor(requested.id) : requested
    if (ended === null) return yield* refused('rebuild_not_found', 'The rebuild is gone.')
    yield* show(rebuildObject(ended), describe)
    const told = ended.outcome === null ? undefined : OUTCOMES[ended.outcome]
    if (told !== undefined) return yield* refused(`rebuild_${ended.outcome}`, told)
    if (policy === 'compare_only' && (differencesOf(ended) ?? 0) > 0) {
      return yield* refused('read_models_differ', 'The read models differ from what the log says.')
    }
  }),
)

const cancel = defineCommand(
  'cancel',
  {
    short: 'End the rebuild under way',
    about: 'Ends the rebuild that is under way. Its tables are dropped; the live ones stay as they are.',
    changes: 'Nothing but the rebuild. One that has been swapped already has ended and cannot be cancelled.',
    examples: [{ command: 'hubctl projections cancel', description: 'Whatever it has come to' }],
    needs: database,
  },
  {},
  Effect.fnUntraced(function* () {
    const cancelled = yield* audited(
      { command: 'projections cancel', arguments: {} },
      cancelRebuild,
      (found) => ({
        rebuild: found?.id ?? null,
      }),
    )
    if (cancelled === null) return yield* refused('no_rebuild', 'No rebuild is under way.')
    yield* show(rebuildObject(cancelled), describe)
  }),
)

export const projections = defineGroup(
  'projections',
  {
    short: 'Read models: lag and rebuilding',
    about: 'The read models: how far they are behind the log, and building them from it once more.',
  },
  [status, rebuild, cancel],
)
