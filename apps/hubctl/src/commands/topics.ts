/**
 * `hubctl topics`: compares the topics of the cluster with the topic catalogue, and changes them.
 */
import { alterTopics, compareTopics, createTopics, topicCatalogue, type TopicDifference } from '@hub/kafka'
import { Effect } from 'effect'
import { audited } from '../audit/audit-trail.ts'
import { defineCommand, defineGroup, NOTHING } from '../command-line/command.ts'
import { confirm } from '../command-line/confirm.ts'
import { database, kafkaConfig } from '../command-line/connections.ts'
import { refused } from '../command-line/failure.ts'
import { show, table } from '../command-line/output.ts'
import { selectedHub } from '../config.ts'

/** Differences that hubctl does not change, with the reason. */
const REASONS: Readonly<Record<string, string>> = {
  partitions:
    'recipients would belong to other partitions, so their open messages and their order would be lost. Migrate to topics of a new version instead',
  'replication factor': 'kafka-reassign-partitions.sh moves replicas between brokers',
}

interface Step extends TopicDifference {
  readonly action: 'create' | 'alter' | 'refuse'
  readonly reason: string | null
}

const readPlan = Effect.gen(function* () {
  const [connection, options] = yield* kafkaConfig
  const specs = topicCatalogue(options)
  const { differences, missing } = yield* compareTopics(connection, specs)
  const wanted = `${options.partitions} partitions`
  const steps: ReadonlyArray<Step> = [
    ...missing.map((topic): Step => ({
      topic,
      setting: '',
      found: 'missing',
      wanted,
      action: 'create',
      reason: null,
    })),
    ...differences.map((difference): Step => {
      const reason = REASONS[difference.setting] ?? null
      return { ...difference, action: reason === null ? 'alter' : 'refuse', reason }
    }),
  ]
  return { connection, specs, steps }
})

const stepsTable = (steps: ReadonlyArray<Step>, none = ''): string => {
  const reasons = steps.flatMap(({ reason, setting }) => (reason === null ? [] : [`${setting}: ${reason}.`]))
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
  return [shown, ...new Set(reasons)].join('\n')
}

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
    needs: selectedHub,
  },
  {},
  Effect.fnUntraced(function* () {
    const { specs, steps } = yield* readPlan
    yield* show({ object: 'topic_plan', topics: specs.length, steps }, () =>
      stepsTable(steps, `All ${specs.length} topics match the catalogue.`),
    )
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
      'the reason; all other differences are applied.',
    changes:
      'Topics of the cluster. With a shorter retention Kafka deletes older records permanently; other ' +
      'settings can be changed back.',
    examples: [
      { command: 'hubctl topics apply', description: 'Asks before it alters topics' },
      { command: 'hubctl topics apply --yes', description: 'In a job, before a new version starts' },
    ],
    needs: database,
  },
  {},
  Effect.fnUntraced(function* () {
    const { connection, specs, steps } = yield* readPlan
    const byAction = (action: Step['action']) => steps.filter((step) => step.action === action)
    const altered = [...new Set(byAction('alter').map(({ topic }) => topic))]
    const created = byAction('create').map(({ topic }) => topic)
    const left = byAction('refuse')
    const specsOf = (topics: ReadonlyArray<string>) => specs.filter(({ topic }) => topics.includes(topic))
    if (altered.length > 0) {
      yield* confirm(`${stepsTable(byAction('alter'))}\nAlter ${altered.length} of ${specs.length} topics?`)
    }
    if (created.length + altered.length > 0) {
      yield* audited(
        { command: 'topics apply', arguments: { create: created, alter: altered } },
        Effect.andThen(createTopics(connection, specsOf(created)), alterTopics(connection, specsOf(altered))),
      )
    }
    yield* show(
      { object: 'topic_changes', created, altered, refused: left },
      () =>
        `${created.length} created, ${altered.length} altered${left.length === 0 ? '.' : `, refused:\n${stepsTable(left)}`}`,
    )
    if (left.length > 0)
      return yield* refused('topics_differ', `${left.length} differences were not changed.`)
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
