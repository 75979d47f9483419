/** `hubctl dead-letters`: records that a consumer could not read or apply, and their handling. */
import { toTimestamp } from '@hub/domain'
import {
  catalogueConfig,
  type DeadLetter,
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
import { Effect, Option, Result } from 'effect'
import { Argument, Flag } from 'effect/cli'
import { audited } from '../audit/audit-trail.ts'
import { limitFlag, switchFlag } from '../command-line/arguments.ts'
import { defineCommand, defineGroup, NOTHING } from '../command-line/command.ts'
import { confirm } from '../command-line/confirm.ts'
import { databaseAndKafka, query } from '../command-line/connections.ts'
import { refused } from '../command-line/failure.ts'
import { fields, show, showList } from '../command-line/output.ts'
import * as DeadLetters from '../tables/dead-letters.ts'

const { positionText } = DeadLetters

const EXAMPLE = 'hub.messages.v1.dead-letter/3/17'

const parsePosition = (text: string): Option.Option<Position> => {
  const [, topic, partition, offset] = /^([A-Za-z0-9._-]{1,249})\/(\d{1,5})\/(\d{1,15})$/u.exec(text) ?? []
  return topic === undefined
    ? Option.none()
    : Option.some({ topic, partition: Number(partition), offset: Number(offset) })
}

const expectedPosition = () => `a topic, a partition and an offset, such as ${EXAMPLE}`

const positionArgument = Argument.String('letter').pipe(
  Argument.withDescription('A dead letter from hubctl dead-letters list'),
  Argument.withMetavar(EXAMPLE),
  Argument.filterMap(parsePosition, expectedPosition),
)

const againFlag = switchFlag('again', 'Also if it was retried or dropped before')

/** The key of the handling. A dead letter without a source has its own position instead. */
const sourceOf = ({ record, source }: DeadLetter): Position => source ?? record

/** Returns the function that looks up the handling of each of these dead letters. */
const readHandling = Effect.fnUntraced(function* (letters: ReadonlyArray<DeadLetter>) {
  const handled = yield* query((q) => DeadLetters.read(q, letters.map(sourceOf)))
  return (letter: DeadLetter) => handled.get(positionText(sourceOf(letter))) ?? null
})

/** Masks phone numbers, because a foreign producer may have written any text. */
const toJson = (letter: DeadLetter, handling: DeadLetters.Handling | null) => {
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

const handlingText = (handled: ReturnType<typeof toJson>['handled']): string | null =>
  handled === null ? null : `${handled.outcome} ${handled.at}`

const readTopics = Effect.map(catalogueConfig, ({ prefix }) => {
  const sources = shardedTopics(topicNames(prefix))
  return { sources, deadLetters: sources.map(deadLetterTopic) }
})

/** Fails if the position is not in a dead-letter topic of the hub. */
const requireTopic = Effect.fnUntraced(function* ({ topic }: Position) {
  const { deadLetters: known } = yield* readTopics
  if (!known.includes(topic)) {
    return yield* refused('topic_not_found', `${topic} is no dead-letter topic of this hub.`)
  }
})

const requireLetter = Effect.fnUntraced(function* (position: Position) {
  yield* requireTopic(position)
  const letter = yield* readDeadLetter(position)
  return Option.isSome(letter)
    ? letter.value
    : yield* refused('dead_letter_not_found', `There is no dead letter at ${positionText(position)}.`)
})

const list = defineCommand(
  'list',
  {
    short: 'List dead letters, newest first',
    about:
      'Lists dead letters: records that a consumer could not read or apply, with the reason. A record ' +
      'can be there twice if two consumers read its topic. Retried and dropped dead letters are shown ' +
      'only with --all.',
    changes: NOTHING,
    examples: [
      { command: 'hubctl dead-letters list' },
      {
        command: 'hubctl dead-letters list --topic hub.messages.v1 --all',
        description: 'All dead letters of one topic',
      },
      {
        command: `hubctl dead-letters list --from ${EXAMPLE}`,
        description: 'From one position on, oldest first',
      },
    ],
    needs: databaseAndKafka,
  },
  {
    topic: Flag.String('topic').pipe(
      Flag.withDescription('Only records of this source topic'),
      Flag.optional,
    ),
    from: Flag.String('from').pipe(
      Flag.withDescription('From this dead letter on, in the order of its partition'),
      Flag.withMetavar(EXAMPLE),
      Flag.filterMap(parsePosition, expectedPosition),
      Flag.optional,
    ),
    all: switchFlag('all', 'Include retried and dropped dead letters'),
    limit: limitFlag,
  },
  Effect.fnUntraced(function* ({ all, from, limit, topic }) {
    const topics = yield* readTopics
    if (Option.isSome(topic) && !topics.sources.includes(topic.value)) {
      return yield* refused(
        'topic_not_found',
        `The hub has no topic ${topic.value}. Its topics: ${topics.sources.join(', ')}.`,
      )
    }
    if (Option.isSome(from)) yield* requireTopic(from.value)
    const found = Option.isSome(from)
      ? yield* deadLettersFrom(from.value, limit)
      : yield* newestDeadLetters({
          topics: Option.isSome(topic) ? [deadLetterTopic(topic.value)] : topics.deadLetters,
          limit,
        })
    const handlingOf = yield* readHandling(found)
    const data = found
      .map((letter) => toJson(letter, handlingOf(letter)))
      .filter(({ handled }) => all || handled === null || handled.outcome === 'retrying')
    yield* showList(
      data,
      {
        letter: (row) => row.id,
        'set aside': (row) => row.set_aside_at,
        reason: (row) => row.reason,
        type: (row) => row.type,
        handled: (row) => handlingText(row.handled),
      },
      'No dead letters.',
    )
  }),
)

const showOne = defineCommand(
  'show',
  {
    short: 'Show a dead letter',
    about:
      'Shows the source, the reason and the headers of a dead letter, and its fields if its schema is ' +
      'known. Encrypted fields stay encrypted. Of a value that cannot be decoded it shows only the ' +
      'number of bytes, because the value may contain personal data.',
    changes: NOTHING,
    examples: [{ command: `hubctl dead-letters show ${EXAMPLE}` }],
    needs: databaseAndKafka,
  },
  { position: positionArgument },
  Effect.fnUntraced(function* ({ position }) {
    const letter = yield* requireLetter(position)
    const handlingOf = yield* readHandling([letter])
    const { record } = letter
    const content = displayContent(letter)
    const decoded = Result.isSuccess(content)
      ? (JSON.parse(maskNumbers(JSON.stringify(content.success))) as Readonly<Record<string, unknown>>)
      : null
    const shown = {
      ...toJson(letter, handlingOf(letter)),
      key: maskNumbers(record.key),
      record: maskNumbers(record.id),
      occurred_at: toTimestamp(record.occurredAt),
      traceparent: record.traceparent === null ? null : maskNumbers(record.traceparent),
      bytes: record.value.length,
      undecodable: Result.isFailure(content) ? content.failure.reason : null,
      content: decoded,
    }
    const contentCells = Object.entries(decoded ?? {}).map(([name, value]): [string, string] => [
      name,
      typeof value === 'string' ? value : JSON.stringify(value),
    ])
    yield* show(shown, () =>
      [
        fields({
          letter: shown.id,
          reason: shown.reason,
          'set aside': shown.set_aside_at,
          source: shown.source,
          handled: handlingText(shown.handled),
          type: shown.type,
          key: shown.key,
          record: shown.record,
          'occurred at': shown.occurred_at,
          traceparent: shown.traceparent,
          bytes: shown.bytes,
          decodes: shown.undecodable === null ? 'yes' : `no: ${shown.undecodable}`,
        }),
        ...(decoded === null ? [] : ['', fields(Object.fromEntries(contentCells))]),
      ].join('\n'),
    )
  }),
)

/** Records the outcome before the dead letter is handled. Fails if it was handled before. */
const reserve = Effect.fnUntraced(function* (
  letter: DeadLetter,
  outcome: 'retrying' | 'dropped',
  again: boolean,
) {
  if (yield* query((q) => DeadLetters.reserve(q, sourceOf(letter), outcome, again))) return
  const handling = (yield* readHandling([letter]))(letter)
  const before = handling === null ? 'handled' : `${handling.outcome} at ${handling.at.toISOString()}`
  const message = `${positionText(letter.record)} was already ${before}. Repeat it with --again.`
  return yield* refused('dead_letter_handled', message)
})

/** Nobody waits for the append, so the deadline is longer than that of a client's request. */
const APPEND_DEADLINE_MS = 5000

const retry = defineCommand(
  'retry',
  {
    short: 'Append a dead letter to its source topic again',
    about:
      'Appends the record to its source partition again, with its key and headers. Use it after the ' +
      'repair of the fault. Consumers drop records that they have applied, by record id. If a consumer ' +
      'still cannot apply the record, it becomes a new dead letter.',
    changes:
      'A new record in the source topic, permanently. The dead letter stays, is marked as retried, and ' +
      'can be retried again only with --again.',
    examples: [
      { command: `hubctl dead-letters retry ${EXAMPLE}` },
      {
        command: `hubctl dead-letters retry ${EXAMPLE} --again --yes`,
        description: 'If the first retry came too early',
      },
    ],
    needs: databaseAndKafka,
  },
  { position: positionArgument, again: againFlag },
  Effect.fnUntraced(function* ({ again, position }) {
    const id = positionText(position)
    const letter = yield* requireLetter(position)
    const record = recordToRetry(letter)
    if (record === null) {
      return yield* refused('source_unknown', `${id} does not contain its source partition.`)
    }
    yield* confirm(`Append ${id} to ${record.topic} again?`)
    const [appended] = yield* audited(
      { command: 'dead-letters retry', arguments: { letter: id, again } },
      Effect.gen(function* () {
        yield* reserve(letter, 'retrying', again)
        const log = yield* EventLog
        const positions = yield* log.append([record], { deadlineMs: APPEND_DEADLINE_MS })
        yield* query((q) => DeadLetters.markRetried(q, sourceOf(letter)))
        return positions
      }),
      (positions) => ({ produced: positions.map(positionText) }),
    )
    const produced = appended === undefined ? null : positionText(appended)
    yield* show({ id, object: 'dead_letter', outcome: 'retried', produced }, () =>
      fields({ letter: id, outcome: 'retried', 'produced at': produced }),
    )
  }),
)

const drop = defineCommand(
  'drop',
  {
    short: 'Mark a dead letter as not to be retried',
    about: 'Marks a dead letter as dropped. Use it for a record that needs no retry.',
    changes:
      'hubctl dead-letters list does not show it without --all, and retry refuses it without --again. ' +
      'Kafka stores the record until the end of its retention.',
    examples: [{ command: `hubctl dead-letters drop ${EXAMPLE}` }],
    needs: databaseAndKafka,
  },
  { position: positionArgument, again: againFlag },
  Effect.fnUntraced(function* ({ again, position }) {
    const id = positionText(position)
    const letter = yield* requireLetter(position)
    yield* confirm(`Drop ${id} (${letter.reason === null ? 'no reason' : maskNumbers(letter.reason)})?`)
    yield* audited(
      { command: 'dead-letters drop', arguments: { letter: id, again } },
      reserve(letter, 'dropped', again),
    )
    yield* show({ id, object: 'dead_letter', outcome: 'dropped' }, () =>
      fields({ letter: id, outcome: 'dropped' }),
    )
  }),
)

export const deadLetters = defineGroup(
  'dead-letters',
  {
    short: 'Records that could not be read or applied',
    about:
      'Dead letters are records that a consumer could not read or apply. Each is in the dead-letter ' +
      'topic of its topic, with the reason. No consumer waits for them.',
  },
  [list, showOne, retry, drop],
)
