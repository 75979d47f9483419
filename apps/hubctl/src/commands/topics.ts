/**
 * `hubctl topics`: compares the topics of the cluster with the topic catalogue, and changes them.
 */
import { confirm, defineGroup, NOTHING, refused, show, table } from '@hub/command-line'
import { Topics } from '@hub/operations'
import { Effect } from 'effect'
import { defineCommand } from '../command-line/command.ts'
import { run } from '../operations.ts'

const reasonsOf = (steps: ReadonlyArray<Topics.Step>): ReadonlyArray<string> => [
  ...new Set(steps.flatMap(({ reason, setting }) => (reason === null ? [] : [`${setting}: ${reason}.`]))),
]

const stepsTable = (steps: ReadonlyArray<Topics.Step>, none = ''): string => {
  const shown = table(
    steps,
    {
      topic: ({ topic }) => topic,
      setting: ({ setting }) => setting,
      found: ({ found }) => found,
      wanted: ({ wanted }) => wanted,
      action: ({ action }) => action,
    },
    none,
  )
  return [shown, ...reasonsOf(steps)].join('\n')
}

/** Why the operations API has no command of this group. */
const NOT_OVER_API = 'it is part of the installation, and compares Kafka with the settings of this machine'

const diff = defineCommand(
  'diff',
  {
    short: 'Show missing and different topics',
    about:
      'Compares all topics with the catalogue: partitions, replicas, retention, cleanup policy, ' +
      'in-sync replicas and message size. HUB_PARTITIONS and HUB_REPLICATION_FACTOR set the partitions ' +
      'and replicas. The exit code is 1 if a topic is missing or different.',
    changes: NOTHING,
    examples: [{ command: 'hubctl topics diff', description: 'One line for each difference' }],
    notOverApi: NOT_OVER_API,
  },
  {},
  Effect.fnUntraced(function* () {
    const plan = yield* run(Topics.diff, {})
    const { steps } = plan
    yield* show(plan, () => stepsTable(steps, `All ${plan.topics} topics match the catalogue.`))
    if (steps.length > 0) {
      return yield* refused('topics_differ', `Differences from the topic catalogue: ${steps.length}.`)
    }
  }),
)

const apply = defineCommand(
  'apply',
  {
    short: 'Create and alter topics',
    about:
      'Creates missing topics, and gives existing topics the settings of the catalogue. Settings that ' +
      'the catalogue does not name stay. A different number of partitions or replicas is refused with ' +
      'the reason, and so are the in-sync replicas of a topic with a different number of replicas. All other ' +
      'differences are applied.',
    changes:
      'Topics of the cluster. With a shorter retention Kafka deletes older records permanently; other ' +
      'settings can be changed back.',
    examples: [
      { command: 'hubctl topics apply', description: 'Asks before it alters topics' },
      { command: 'hubctl topics apply --yes', description: 'In a job, before a new version starts' },
    ],
    notOverApi: NOT_OVER_API,
  },
  {},
  Effect.fnUntraced(function* () {
    const { steps, topics: known } = yield* run(Topics.diff, {})
    const toAlter = steps.filter(({ action }) => action === 'alter')
    if (toAlter.length > 0) {
      const count = new Set(toAlter.map(({ topic }) => topic)).size
      yield* confirm(`${stepsTable(toAlter)}\nAlter ${count} of ${known} topics?`)
    }
    const left = steps.filter(({ action }) => action === 'refuse')
    const changes =
      left.length < steps.length
        ? yield* run(Topics.apply, {})
        : { object: 'topic_changes' as const, created: [], altered: [], refused: left }
    yield* show(
      changes,
      ({ altered, created }) =>
        `${created.length} created, ${altered.length} altered${left.length === 0 ? '.' : `, refused:\n${stepsTable(left)}`}`,
    )
    if (left.length > 0)
      return yield* refused(
        'topics_differ',
        `${left.length} differences were not changed. ${reasonsOf(left).join(' ')}`,
      )
  }),
)

export const topics = defineGroup(
  'topics',
  {
    short: 'Kafka topics and the topic catalogue',
    about: 'Compares the Kafka topics with the topic catalogue of the code, and changes them.',
  },
  [diff, apply],
)
