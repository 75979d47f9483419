/** The read models: their lag behind the log, and their rebuild from it. */
import { toTimestamp } from '@hub/domain'
import { readOffsetRanges, topicNames } from '@hub/kafka'
import {
  cancelRebuild,
  ReadCheckpoints,
  readRebuild,
  readRebuilds,
  type Rebuild as StoredRebuild,
  requestRebuild,
} from '@hub/store'
import { Effect, Schema } from 'effect'
import { refused } from './failures.ts'
import { optionalTimestamp, Timestamp, Uuid } from './fields.ts'
import { kafkaConfig } from './kafka.ts'
import { query } from './sql.ts'
import { defineUseCase } from './use-case.ts'

const Difference = Schema.Struct({
  /** The key of the row, with public ids. */
  key: Schema.String,
  /** The table without this row; `null`: both have it. */
  missing: Schema.NullOr(Schema.Literals(['live', 'rebuilt'])),
  columns: Schema.Array(Schema.String),
})

const Comparison = Schema.Struct({
  table: Schema.String,
  live: Schema.Int,
  rebuilt: Schema.Int,
  differences: Schema.Int,
  examples: Schema.Array(Difference),
})

/** What follows the comparison. */
const Policy = Schema.Literals(['compare_only', 'swap_if_equal', 'swap'])

export const Rebuild = Schema.Struct({
  id: Schema.String,
  object: Schema.Literal('rebuild'),
  policy: Policy,
  state: Schema.Literals(['requested', 'folding', 'comparing', 'swapping', 'ended']),
  /** `null` before the end. */
  outcome: Schema.NullOr(Schema.Literals(['compared', 'refused', 'swapped', 'cancelled', 'failed'])),
  failure: Schema.NullOr(Schema.String),
  /** Messages since this time are rebuilt; `null`: all. */
  since: Schema.NullOr(Timestamp),
  records: Schema.Int,
  /** Messages whose number and text were missing and were stored again. */
  restored: Schema.Int,
  /** Rows that differ; `null` before the comparison. */
  differences: Schema.NullOr(Schema.Int),
  compared: Schema.NullOr(Schema.Array(Comparison)),
  requested_at: Timestamp,
  started_at: Schema.NullOr(Timestamp),
  compared_at: Schema.NullOr(Timestamp),
  ended_at: Schema.NullOr(Timestamp),
})
export type Rebuild = typeof Rebuild.Type

const toValue = (rebuild: StoredRebuild): Rebuild => ({
  id: rebuild.id,
  object: 'rebuild',
  policy: rebuild.policy,
  state: rebuild.state,
  outcome: rebuild.outcome,
  failure: rebuild.failure,
  since: optionalTimestamp(rebuild.since),
  records: rebuild.records,
  restored: rebuild.restored,
  differences: rebuild.compared?.reduce((sum, { differences }) => sum + differences, 0) ?? null,
  compared: rebuild.compared,
  requested_at: toTimestamp(rebuild.requestedAt),
  started_at: optionalTimestamp(rebuild.startedAt),
  compared_at: optionalTimestamp(rebuild.comparedAt),
  ended_at: optionalTimestamp(rebuild.endedAt),
})

const Partition = Schema.Struct({
  topic: Schema.String,
  partition: Schema.Int,
  /** The next record that the projector applies. */
  position: Schema.Int,
  end: Schema.Int,
  lag: Schema.Int,
})

const readPartitions = Effect.gen(function* () {
  const [connection, { prefix }] = yield* kafkaConfig
  const names = topicNames(prefix)
  const topics = [names.acceptedOtp, names.acceptedService, names.messages]
  const ranges = yield* readOffsetRanges(connection, topics)
  const rows = yield* query(ReadCheckpoints.readPositions)
  const positions = new Map(
    rows.map(({ partition, position, topic }) => [`${prefix}${topic}/${partition}`, position]),
  )
  return [...ranges].flatMap(([topic, partitions]) =>
    partitions.map(({ high, low, partition }): typeof Partition.Type => {
      const position = positions.get(`${topic}/${partition}`) ?? 0
      return { topic, partition, position, end: high, lag: Math.max(0, high - Math.max(position, low)) }
    }),
  )
})

/** The lag of the read models in each partition, and the rebuild in progress or the last one. */
export const status = defineUseCase({
  name: 'projections status',
  permission: 'hub.read',
  input: Schema.Struct({}),
  output: Schema.Struct({
    object: Schema.Literal('projections'),
    lag: Schema.Int,
    partitions: Schema.Array(Partition),
    rebuild: Schema.NullOr(Rebuild),
  }),
  audit: null,
  run: Effect.fnUntraced(function* () {
    const partitions = yield* readPartitions
    const [last] = yield* readRebuilds(1)
    return {
      object: 'projections' as const,
      lag: partitions.reduce((sum, { lag }) => sum + lag, 0),
      partitions,
      rebuild: last === undefined ? null : toValue(last),
    }
  }),
})

/** One rebuild, for example to wait for its end. */
export const getRebuild = defineUseCase({
  name: 'projections rebuild-status',
  permission: 'hub.read',
  input: Schema.Struct({ id: Uuid }),
  output: Rebuild,
  audit: null,
  run: Effect.fnUntraced(function* ({ id }) {
    const rebuild = yield* readRebuild(id)
    return rebuild === null
      ? yield* refused('rebuild_not_found', 'The rebuild does not exist any more.', 'id')
      : toValue(rebuild)
  }),
})

/** Requests a rebuild. A projector starts it within seconds. */
export const rebuild = defineUseCase({
  name: 'projections rebuild',
  permission: 'hub.change',
  input: Schema.Struct({ policy: Policy }),
  output: Rebuild,
  audit: ({ policy }) => ({ policy }),
  result: ({ id }) => ({ rebuild: id }),
  run: ({ policy }) =>
    requestRebuild(policy).pipe(
      Effect.map(toValue),
      Effect.catchTag('RebuildInProgress', ({ id }) =>
        Effect.fail(
          refused('rebuild_under_way', `The rebuild ${id} is in progress. Only one can run at a time.`),
        ),
      ),
    ),
})

/** Cancels the rebuild in progress. */
export const cancel = defineUseCase({
  name: 'projections cancel',
  permission: 'hub.change',
  input: Schema.Struct({}),
  output: Rebuild,
  audit: () => ({}),
  result: ({ id }) => ({ rebuild: id }),
  run: Effect.fnUntraced(function* () {
    const cancelled = yield* cancelRebuild
    return cancelled === null
      ? yield* refused('no_rebuild', 'No rebuild is in progress.')
      : toValue(cancelled)
  }),
})
