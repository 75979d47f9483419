/** The topics of the cluster, compared with the topic catalogue. */
import { alterTopics, compareTopics, createTopics, type TopicDifference, topicCatalogue } from '@hub/kafka'
import { Effect, Schema } from 'effect'
import { kafkaConfig } from './kafka.ts'
import { defineUseCase } from './use-case.ts'

/** Differences that are not changed, with the reason and what to do. */
const REASONS: Readonly<Record<string, (found: string) => string>> = {
  partitions: (found) =>
    `recipients would belong to other partitions, so their open messages and their order would be lost. Set HUB_PARTITIONS to ${found}, or migrate to topics of a new version`,
  'replication factor': (found) =>
    `kafka-reassign-partitions.sh moves replicas between brokers. Until then, set HUB_REPLICATION_FACTOR to ${found}`,
}

/** More of them than a topic has replicas would refuse every record. */
const IN_SYNC = 'min.insync.replicas'

const reasonOf = (
  { found, setting, topic }: TopicDifference,
  all: ReadonlyArray<TopicDifference>,
): string | null => {
  const followsReplicas =
    setting === IN_SYNC &&
    all.some((other) => other.topic === topic && other.setting === 'replication factor')
  return followsReplicas ? 'it follows the replication factor' : (REASONS[setting]?.(found) ?? null)
}

export const Step = Schema.Struct({
  topic: Schema.String,
  /** Empty for a missing topic. */
  setting: Schema.String,
  found: Schema.String,
  wanted: Schema.String,
  action: Schema.Literals(['create', 'alter', 'refuse']),
  /** Why the difference is not changed. */
  reason: Schema.NullOr(Schema.String),
})
export type Step = typeof Step.Type

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
      const reason = reasonOf(difference, differences)
      return { ...difference, action: reason === null ? 'alter' : 'refuse', reason }
    }),
  ]
  return { connection, specs, steps }
})

/** The differences from the catalogue, and what `apply` does about each. */
export const diff = defineUseCase({
  name: 'topics diff',
  permission: 'hub.read',
  input: Schema.Struct({}),
  output: Schema.Struct({
    object: Schema.Literal('topic_plan'),
    /** Topics of the catalogue. */
    topics: Schema.Int,
    steps: Schema.Array(Step),
  }),
  audit: null,
  run: () =>
    Effect.map(readPlan, ({ specs, steps }) => ({
      object: 'topic_plan' as const,
      topics: specs.length,
      steps,
    })),
})

/** Creates missing topics, and gives the others the settings of the catalogue. */
export const apply = defineUseCase({
  name: 'topics apply',
  permission: 'hub.change',
  input: Schema.Struct({}),
  output: Schema.Struct({
    object: Schema.Literal('topic_changes'),
    created: Schema.Array(Schema.String),
    altered: Schema.Array(Schema.String),
    refused: Schema.Array(Step),
  }),
  audit: () => ({}),
  result: ({ altered, created }) => ({ create: created, alter: altered }),
  run: Effect.fnUntraced(function* () {
    const { connection, specs, steps } = yield* readPlan
    const stepsOf = (topic: string, action: Step['action']) =>
      steps.filter((step) => step.topic === topic && step.action === action)
    const missing = specs.filter(({ topic }) => stepsOf(topic, 'create').length > 0)
    const changed = specs.flatMap((spec) => {
      const changes = stepsOf(spec.topic, 'alter').map(({ setting, wanted }) => [setting, wanted] as const)
      return changes.length === 0 ? [] : [{ ...spec, config: Object.fromEntries(changes) }]
    })
    yield* createTopics(connection, missing)
    yield* alterTopics(connection, changed)
    return {
      object: 'topic_changes' as const,
      created: missing.map(({ topic }) => topic),
      altered: changed.map(({ topic }) => topic),
      refused: steps.filter(({ action }) => action === 'refuse'),
    }
  }),
})
