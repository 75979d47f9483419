/** `hubctl projections`: the lag of the read models behind the log, and their rebuild. */
import {
  confirm,
  defineGroup,
  fields,
  NOTHING,
  printNote,
  refused,
  show,
  table,
  usageError,
} from '@hub/command-line'
import { Projections } from '@hub/operations'
import { Duration, Effect, Schedule } from 'effect'
import { switchFlag } from '../command-line/arguments.ts'
import { defineCommand } from '../command-line/command.ts'
import { run } from '../operations.ts'

const differenceText = (missing: 'live' | 'rebuilt' | null, columns: ReadonlyArray<string>): string =>
  missing === null ? columns.join(', ') : missing === 'live' ? 'not in the live table' : 'not in the log'

/** The outcome of a rebuild, its tables, and examples of rows that differ. */
const rebuildText = (rebuild: Projections.Rebuild): string => {
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
  },
  {},
  Effect.fnUntraced(function* () {
    const value = yield* run(Projections.status, {})
    yield* show(value, ({ lag, partitions, rebuild }) =>
      [
        table(partitions, {
          topic: (row) => row.topic,
          partition: (row) => row.partition,
          position: (row) => row.position,
          end: (row) => row.end,
          lag: (row) => row.lag,
        }),
        `${lag} records behind.`,
        rebuild === null ? 'Nothing has been rebuilt.' : rebuildText(rebuild),
      ].join('\n\n'),
    )
  }),
)

const POLL_INTERVAL = Duration.seconds(1)
/** Enough for a log of thirteen months. */
const MAX_WAIT = Duration.hours(48)

const waitFor = (id: string) =>
  run(Projections.getRebuild, { id }).pipe(
    Effect.repeat({
      until: ({ ended_at }) => ended_at !== null,
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

/** Why the operations API has no rebuild. */
const NOT_OVER_API = 'a rebuild replaces the tables that the API reads, and is a repair of the servers'

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
    notOverApi: NOT_OVER_API,
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
    const policy = compareOnly ? 'compare_only' : acceptDifferences ? 'swap' : 'swap_if_equal'
    if (!compareOnly) {
      const condition = acceptDifferences ? 'also if rows differ' : 'unless rows differ'
      yield* confirm(`Replace the live read models with rebuilt ones, ${condition}?`)
    }
    const requested = yield* run(Projections.rebuild, { policy })
    if (wait) yield* printNote(`Waiting for the rebuild ${requested.id}.`)
    const ended = wait ? yield* waitFor(requested.id) : requested
    yield* show(ended, rebuildText)
    const failure = ended.outcome === null ? undefined : OUTCOMES[ended.outcome]
    if (failure !== undefined) return yield* refused(`rebuild_${ended.outcome}`, failure)
    if (policy === 'compare_only' && (ended.differences ?? 0) > 0) {
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
    notOverApi: NOT_OVER_API,
  },
  {},
  () => Effect.flatMap(run(Projections.cancel, {}), (cancelled) => show(cancelled, rebuildText)),
)

export const projections = defineGroup(
  'projections',
  {
    short: 'Read models: lag and rebuild',
    about: 'The read models: their lag behind the log, and their rebuild from it.',
  },
  [status, rebuild, cancel],
)
