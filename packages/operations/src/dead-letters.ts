/** Dead letters: records that a consumer could not read or apply, and what hub staff did about them. */
import { toTimestamp } from '@hub/domain'
import {
  catalogueConfig,
  type DeadLetter as Letter,
  deadLettersFrom,
  deadLetterTopic,
  displayContent,
  EventLog,
  newestDeadLetters,
  type Position,
  readDeadLetter,
  recordToRetry,
  shardedTopics,
  topicNames,
} from '@hub/kafka'
import { maskNumbers } from '@hub/telemetry'
import { Effect, Option, Result, Schema } from 'effect'
import { refused } from './failures.ts'
import { Reason, Timestamp } from './fields.ts'
import { pageFields } from './pages.ts'
import { query } from './sql.ts'
import * as Handled from './tables/dead-letters.ts'
import { defineUseCase } from './use-case.ts'

const { positionText } = Handled

/** Parses `hub.messages.v1.dead-letter/3/17`; `null` for other texts. */
export const parsePosition = (text: string): Position | null => {
  const [, topic, partition, offset] = /^([A-Za-z0-9._-]{1,249})\/(\d{1,5})\/(\d{1,15})$/u.exec(text) ?? []
  return topic === undefined ? null : { topic, partition: Number(partition), offset: Number(offset) }
}

/** The position of a dead letter as its id. */
const LetterId = Schema.String.check(
  Schema.makeFilter(
    (text: string) => parsePosition(text) !== null || 'expected a topic, a partition and an offset',
  ),
).annotate({ description: 'A topic, a partition and an offset: `hub.messages.v1.dead-letter/3/17`.' })

export const DeadLetter = Schema.Struct({
  id: LetterId,
  object: Schema.Literal('dead_letter'),
  set_aside_at: Timestamp,
  reason: Schema.NullOr(Schema.String),
  type: Schema.String,
  /** The position of the record in its own topic; `null`: unknown. */
  source: Schema.NullOr(Schema.String),
  handled: Schema.NullOr(
    Schema.Struct({ outcome: Schema.Literals(['retrying', 'retried', 'dropped']), at: Timestamp }),
  ),
})
export type DeadLetter = typeof DeadLetter.Type

export const DeadLetterDetails = Schema.Struct({
  ...DeadLetter.fields,
  key: Schema.String,
  record: Schema.String,
  occurred_at: Timestamp,
  traceparent: Schema.NullOr(Schema.String),
  bytes: Schema.Int,
  /** Why the value cannot be decoded; `null`: it can. */
  undecodable: Schema.NullOr(Schema.String),
  /** The fields of the record. Encrypted fields stay encrypted. */
  content: Schema.NullOr(Schema.Record(Schema.String, Schema.Json)),
})

/** The key of the handling. A dead letter without a source has its own position instead. */
const sourceOf = ({ record, source }: Letter): Position => source ?? record

/** Returns the function that looks up the handling of each of these dead letters. */
const readHandling = Effect.fnUntraced(function* (letters: ReadonlyArray<Letter>) {
  const handled = yield* query((q) => Handled.read(q, letters.map(sourceOf)))
  return (letter: Letter) => handled.get(positionText(sourceOf(letter))) ?? null
})

/** Masks phone numbers, because a foreign producer may have written any text. */
const toValue = (letter: Letter, handling: Handled.Handling | null): DeadLetter => {
  const { reason, record, source } = letter
  return {
    id: positionText(record),
    object: 'dead_letter',
    set_aside_at: toTimestamp(record.appendedAt),
    reason: reason === null ? null : maskNumbers(reason),
    type: maskNumbers(record.type),
    source: source === null ? null : positionText(source),
    handled: handling === null ? null : { outcome: handling.outcome, at: handling.at.toISOString() },
  }
}

const readTopics = Effect.map(catalogueConfig, ({ prefix }) => {
  const sources = shardedTopics(topicNames(prefix))
  return { sources, deadLetters: sources.map(deadLetterTopic) }
})

/** The position in an id. Fails if it is not in a dead-letter topic of the hub. */
const requirePosition = Effect.fnUntraced(function* (id: string) {
  const { deadLetters } = yield* readTopics
  const position = parsePosition(id)
  if (position === null || !deadLetters.includes(position.topic)) {
    return yield* refused(
      'topic_not_found',
      `${position?.topic ?? id} is no dead-letter topic of this hub.`,
      'id',
    )
  }
  return position
})

const requireLetter = Effect.fnUntraced(function* (id: string) {
  const letter = yield* readDeadLetter(yield* requirePosition(id))
  return Option.isSome(letter)
    ? letter.value
    : yield* refused('dead_letter_not_found', `There is no dead letter at ${id}.`, 'id')
})

/** How many times as many records the next read of a page has. Each read takes about a second. */
const READ_MORE = 10
/** Of each partition. It bounds the memory: 30 partitions with records of 1 kB are 60 MB. */
const MAX_RECORDS = 2000

/** Dead letters, newest first, or from one of them on in the order of its partition. */
export const list = defineUseCase({
  name: 'dead-letters list',
  permission: 'hub.read',
  input: Schema.Struct({
    /** Only records of this source topic. */
    topic: Schema.NullOr(Schema.String),
    from: Schema.NullOr(LetterId),
    /** Also retried and dropped ones. */
    all: Schema.Boolean,
    limit: pageFields.limit,
  }),
  output: Schema.Struct({ object: Schema.Literal('list'), data: Schema.Array(DeadLetter) }),
  audit: null,
  run: Effect.fnUntraced(function* ({ all, from, limit, topic }) {
    const topics = yield* readTopics
    if (topic !== null && !topics.sources.includes(topic)) {
      return yield* refused(
        'topic_not_found',
        `The hub has no topic ${topic}. Its topics: ${topics.sources.join(', ')}.`,
        'topic',
      )
    }
    const position = from === null ? null : yield* requirePosition(from)
    const read = (count: number) =>
      position === null
        ? newestDeadLetters({
            topics: topic === null ? topics.deadLetters : [deadLetterTopic(topic)],
            limit: count,
          })
        : deadLettersFrom(position, count)
    let data: ReadonlyArray<DeadLetter> = []
    // Handled letters are hidden, so a page may need more records than it has rows.
    for (let count = limit; ; count = Math.min(count * READ_MORE, MAX_RECORDS)) {
      const found = yield* read(count)
      const handlingOf = yield* readHandling(found)
      data = found
        .map((letter) => toValue(letter, handlingOf(letter)))
        .filter(({ handled }) => all || handled === null || handled.outcome === 'retrying')
        .slice(0, limit)
      if (data.length === limit || found.length < count || count >= MAX_RECORDS) break
    }
    return { object: 'list' as const, data }
  }),
})

export const get = defineUseCase({
  name: 'dead-letters show',
  permission: 'hub.read',
  input: Schema.Struct({ id: LetterId }),
  output: DeadLetterDetails,
  audit: null,
  run: Effect.fnUntraced(function* ({ id }) {
    const letter = yield* requireLetter(id)
    const handlingOf = yield* readHandling([letter])
    const { record } = letter
    const content = displayContent(letter)
    return {
      ...toValue(letter, handlingOf(letter)),
      key: maskNumbers(record.key),
      record: maskNumbers(record.id),
      occurred_at: toTimestamp(record.occurredAt),
      traceparent: record.traceparent === null ? null : maskNumbers(record.traceparent),
      bytes: record.value.length,
      undecodable: Result.isFailure(content) ? content.failure.reason : null,
      content: Result.isSuccess(content)
        ? (JSON.parse(maskNumbers(JSON.stringify(content.success))) as Readonly<Record<string, Schema.Json>>)
        : null,
    }
  }),
})

/** Records the outcome before the dead letter is handled. Fails if it was handled before. */
const reserve = Effect.fnUntraced(function* (
  letter: Letter,
  outcome: 'retrying' | 'dropped',
  again: boolean,
) {
  if (yield* query((q) => Handled.reserve(q, sourceOf(letter), outcome, again))) return
  const handling = (yield* readHandling([letter]))(letter)
  const before = handling === null ? 'handled' : `${handling.outcome} at ${handling.at.toISOString()}`
  return yield* refused(
    'dead_letter_handled',
    `${positionText(letter.record)} was already ${before}.`,
    'again',
  )
})

/** Nobody waits for the append, so the deadline is longer than that of a client's request. */
const APPEND_DEADLINE_MS = 5000

const handlingFields = {
  id: LetterId,
  /** Also if it was retried or dropped before. */
  again: Schema.Boolean,
}

/** Appends the record to its source partition again, with its key and headers. */
export const retry = defineUseCase({
  name: 'dead-letters retry',
  permission: 'dead_letters.change',
  input: Schema.Struct(handlingFields),
  output: Schema.Struct({
    id: LetterId,
    object: Schema.Literal('dead_letter'),
    outcome: Schema.Literal('retried'),
    /** The position of the new record. */
    produced: Schema.NullOr(Schema.String),
  }),
  audit: ({ again, id }) => ({ letter: id, again }),
  result: ({ produced }) => ({ produced }),
  run: Effect.fnUntraced(function* ({ again, id }) {
    const letter = yield* requireLetter(id)
    const record = recordToRetry(letter)
    if (record === null) {
      return yield* refused('source_unknown', `${id} does not contain its source partition.`, 'id')
    }
    yield* reserve(letter, 'retrying', again)
    const log = yield* EventLog
    const [appended] = yield* log.append([record], { deadlineMs: APPEND_DEADLINE_MS })
    yield* query((q) => Handled.markRetried(q, sourceOf(letter)))
    return {
      id,
      object: 'dead_letter' as const,
      outcome: 'retried' as const,
      produced: appended === undefined ? null : positionText(appended),
    }
  }),
})

/** Marks a dead letter as not to be retried, with the reason. Kafka keeps the record. */
export const drop = defineUseCase({
  name: 'dead-letters drop',
  permission: 'dead_letters.change',
  input: Schema.Struct({ ...handlingFields, reason: Schema.NullOr(Reason) }),
  output: Schema.Struct({
    id: LetterId,
    object: Schema.Literal('dead_letter'),
    outcome: Schema.Literal('dropped'),
  }),
  audit: ({ again, id }) => ({ letter: id, again }),
  reason: ({ reason }) => reason,
  run: Effect.fnUntraced(function* ({ again, id }) {
    yield* reserve(yield* requireLetter(id), 'dropped', again)
    return { id, object: 'dead_letter' as const, outcome: 'dropped' as const }
  }),
})
