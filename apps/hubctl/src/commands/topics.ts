/** `hubctl topics`: the topics of the cluster beside the catalogue. */
import {
  alterTopics,
  catalogueConfig,
  compareTopics,
  createTopics,
  kafkaConnectionConfig,
  topicCatalogue,
  type TopicDifference,
} from '@hub/kafka'
import { Config, Effect } from 'effect'
import { audited } from '../audit/audit-trail.ts'
import { defineCommand, defineGroup, NOTHING } from '../command-line/command.ts'
import { confirm } from '../command-line/confirm.ts'
import { CLIENT, database } from '../command-line/connections.ts'
import { refused } from '../command-line/failure.ts'
import { show, table } from '../command-line/output.ts'
import { settings } from '../config.ts'

/** What cannot be changed by giving a topic other settings, and why. */
const REASONS: Readonly<Record<string, string>> = {
  partitions:
    'recipients would belong to other partitions: their open messages would be lost from sight, and their order with them. Move to topics of a new version instead',
  'replication factor': 'replicas are moved between brokers by kafka-reassign-partitions.sh',
}

interface Step {
  readonly topic: string
  readonly setting: string
  readonly found: string
  readonly wanted: string
  readonly action: 'create' | 'alter' | 'refuse'
  readonly reason: string | null
}

const stepOf = ({ found, setting, topic, wanted }: TopicDifference): Step => {
  const reason = REASONS[setting] ?? null
  return { topic, setting, found, wanted, action: reason === null ? 'alter' : 'refuse', reason }
}

const plan = Effect.gen(function* () {
  const [connection, options] = yield* Config.all([kafkaConnectionConfig(CLIENT), catalogueConfig])
  const specs = topicCatalogue(options)
  const { differences, missing } = yield* compareTopics(connection, specs)
  const steps: ReadonlyArray<Step> = [
    ...missing.map((topic): Step => ({
      topic,
      setting: '',
      found: 'missing',
      wanted: `${options.partitions} partitions`,
      action: 'create',
      reason: null,
    })),
    ...differences.map(stepOf),
  ]
  return { connection, specs, steps }
})

const steps = (rows: ReadonlyArray<Step>, none: string): string => {
  const reasons = [
    ...new Set(rows.flatMap(({ reason, setting }) => (reason === null ? [] : [`${setting}: ${reason}.`]))),
  ]
  const shown = table(
    rows,
    {
      topic: ({ topic }) => topic,
      setting: ({ setting }) => setting,
      found: ({ found }) => found,
      wanted: ({ wanted }) => wanted,
      action: ({ action }) => action,
    },
    none,
  )
  return [shown, ...reasons].join('\n')
}

const diff = defineCommand(
  'diff',
  {
    short: 'What is missing or different',
    about:
      'Compares every topic with the catalogue: partitions, replicas, retention, cleanup, how many replicas must have a record, the size of batches. ' +
      'Partitions and replicas are those of HUB_PARTITIONS and HUB_REPLICATION_FACTOR. The exit code is 1 where something is missing or different.',
    changes: NOTHING,
    examples: [{ command: 'hubctl topics diff', description: 'One line for each difference' }],
    needs: settings,
  },
  {},
  Effect.fnUntraced(function* () {
    const { specs, steps: rows } = yield* plan
    const none = `All ${specs.length} topics are as the catalogue has them.`
    yield* show({ object: 'topic_plan', topics: specs.length, steps: rows }, () => steps(rows, none))
    if (rows.length > 0) {
      return yield* refused(
        'topics_differ',
        `${rows.length} ${rows.length === 1 ? 'thing is' : 'things are'} not as the catalogue has it.`,
      )
    }
  }),
)

const apply = defineCommand(
  'apply',
  {
    short: 'Create and alter what hubctl topics diff shows',
    about:
      'Creates the topics that are missing and gives the others the settings of the catalogue. Other settings of a topic stay as they are. A different ' +
      'number of partitions or replicas is refused, with the reason; the rest is done all the same.',
    changes:
      'Topics of the cluster, at once. A shorter retention lets Kafka remove older records, for good; everything else can be altered back.',
    examples: [
      { command: 'hubctl topics apply', description: 'Asks where existing topics would change' },
      { command: 'hubctl topics apply --yes', description: 'In a job, before a new version starts' },
    ],
    needs: database,
  },
  {},
  Effect.fnUntraced(function* () {
    const { connection, specs, steps: rows } = yield* plan
    const altered = [...new Set(rows.filter(({ action }) => action === 'alter').map(({ topic }) => topic))]
    const missing = rows.filter(({ action }) => action === 'create').map(({ topic }) => topic)
    const left = rows.filter(({ action }) => action === 'refuse')
    if (altered.length > 0) {
      yield* confirm(
        `${steps(
          rows.filter(({ action }) => action === 'alter'),
          '',
        )}\nAlter ${altered.length} of ${specs.length} topics?`,
      )
    }
    if (missing.length + altered.length > 0) {
      yield* audited(
        { command: 'topics apply', arguments: { create: missing, alter: altered } },
        Effect.gen(function* () {
          yield* createTopics(
            connection,
            specs.filter(({ topic }) => missing.includes(topic)),
          )
          yield* alterTopics(
            connection,
            specs.filter(({ topic }) => altered.includes(topic)),
          )
        }),
      )
    }
    yield* show(
      { object: 'topic_changes', created: missing, altered, refused: left },
      () =>
        `${missing.length} created, ${altered.length} altered${left.length === 0 ? '.' : `, refused:\n${steps(left, '')}`}`,
    )
    if (left.length > 0) {
      return yield* refused('topics_differ', `${left.length} differences were left as they are.`)
    }
  }),
)

export const topics = defineGroup(
  'topics',
  {
    short: 'Topics beside the catalogue',
    about: 'Kafka topics, as they are and as the catalogue of the code has them.',
  },
  [diff, apply],
)
