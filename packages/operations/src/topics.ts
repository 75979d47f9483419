/** The topics of the cluster, compared with the topic catalogue. */
import { alterTopics, compareTopics, createTopics, topicCatalogue } from '@hub/kafka'
import { Effect, Schema } from 'effect'
import { kafkaConfig } from './kafka.ts'
import { defineUseCase } from './use-case.ts'

/** Differences that are not changed, with the reason. */
const REASONS: Readonly<Record<string, string>> = {
  partitions:
    'recipients would belong to other partitions, so their open messages and their order would be lost. Migrate to topics of a new version instead',
  'replication factor': 'kafka-reassign-partitions.sh moves replicas between brokers',
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
      const reason = REASONS[difference.setting] ?? null
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
    const topicsOf = (action: Step['action']): ReadonlyArray<string> => [
      ...new Set(steps.filter((step) => step.action === action).map(({ topic }) => topic)),
    ]
    const specsOf = (topics: ReadonlyArray<string>) => specs.filter(({ topic }) => topics.includes(topic))
    const [created, altered] = [topicsOf('create'), topicsOf('alter')]
    yield* createTopics(connection, specsOf(created))
    yield* alterTopics(connection, specsOf(altered))
    return {
      object: 'topic_changes' as const,
      created,
      altered,
      refused: steps.filter(({ action }) => action === 'refuse'),
    }
  }),
})
