/** `hubctl dead-letters`: records that could not be read or applied, and what is done about them. */
import { toTimestamp } from '@hub/domain'
import {
  catalogueConfig,
  displayContent,
  type DeadLetter,
  deadLetterTopic,
  deadLettersFrom,
  EventLog,
  newestDeadLetters,
  type Position,
  readDeadLetter,
  recordToRetry,
  topicNames,
} from '@hub/kafka'
import { Sql } from '@hub/store'
import { maskNumbers } from '@hub/telemetry'
import { Effect, Option, Result } from 'effect'
import { Argument, Flag } from 'effect/cli'
import { audited } from '../audit/audit-trail.ts'
import { defineCommand, defineGroup, NOTHING } from '../command-line/command.ts'
import { confirm } from '../command-line/confirm.ts'
import { bus } from '../command-line/connections.ts'
import { refused } from '../command-line/failure.ts'
import { fields, show, table } from '../command-line/output.ts'
import { limitFlag } from '../command-line/arguments.ts'

const EXAMPLE = 'hub.messages.v1.dead-letter/3/17'

/** Where a dead letter is: the topic, the partition and the offset. */
const parsePlace = (text: string): Position | null => {
  const [, topic, partition, offset] = /^([A-Za-z0-9._-]{1,249})\/(\d{1,5})\/(\d{1,15})$/u.exec(text) ?? []
  return topic === undefined ? null : { topic, partition: Number(partition), offset: Number(offset) }
}
const textOf = ({ offset, partition, topic }: Position): string => `${topic}/${partition}/${offset}`

const placeArgument = Argument.String('letter').pipe(
  Argument.withDescription('The dead letter, as hubctl dead-letters list shows it'),
  Argument.withMetavar(EXAMPLE),
  Argument.filterMap(
    (text) => Option.fromNullishOr(parsePlace(text)),
    () => `a topic, a partition and an offset, such as ${EXAMPLE}`,
  ),
)

/** What was done about a record, by where it came from. */
interface Mark {
  readonly outcome: 'retrying' | 'retried' | 'dropped'
  readonly at: Date
}

/** A record that does not say where it came from is known by where it lies. */
const originOf = ({ record, source }: DeadLetter): Position => source ?? record

const marksOf = Effect.fnUntraced(function* (letters: ReadonlyArray<DeadLetter>) {
  const sql = yield* Sql
  const origins = letters.map(originOf)
  const rows = yield* sql.run(
    (q) => q<(Mark & { topic: string; partition: number; place: string })[]>`
      SELECT d.source_topic AS topic, d.source_partition AS partition, d.source_offset AS place, d.outcome, d.at
        FROM unnest(${origins.map(({ topic }) => topic)}::text[], ${origins.map(({ partition }) => partition)}::integer[],
                    ${origins.map(({ offset }) => offset)}::bigint[]) AS w (topic, partition, place)
        JOIN command.dead_letters d
          ON d.source_topic = w.topic AND d.source_partition = w.partition AND d.source_offset = w.place`,
  )
  const marks = new Map(
    rows.map(({ partition, place, topic, ...mark }) => [`${topic}/${partition}/${place}`, mark]),
  )
  return (letter: DeadLetter): Mark | null => marks.get(textOf(originOf(letter))) ?? null
})

/** Another producer may have put anything where ours put ids and hashes. */
const letterObject = (letter: DeadLetter, mark: Mark | null) => {
  const { record, source } = letter
  return {
    id: textOf(record),
    object: 'dead_letter',
    set_aside_at: toTimestamp(record.appendedAt),
    reason: letter.reason === null ? null : maskNumbers(letter.reason),
    type: maskNumbers(record.type),
    source: source === null ? null : textOf(source),
    handled: mark === null ? null : { outcome: mark.outcome, at: mark.at.toISOString() },
  }
}

const handledText = (handled: ReturnType<typeof letterObject>['handled']): string | null =>
  handled === null ? null : `${handled.outcome} ${handled.at}`

const deadLetterTopics = Effect.map(catalogueConfig, ({ prefix }) => {
  const names = Object.values(topicNames(prefix))
  return { names, letters: names.map(deadLetterTopic) }
})

const list = defineCommand(
  'list',
  {
    short: 'Records that were set aside, newest first',
    about:
      'Lists the dead letters: records of the topics that could not be read or applied, with the reason. The same record may be there twice, where two consumers read ' +
      'its topic. Those that were retried or dropped are left out without --all.',
    changes: NOTHING,
    examples: [
      { command: 'hubctl dead-letters list' },
      {
        command: 'hubctl dead-letters list --topic hub.messages.v1 --all',
        description: 'Of one topic, all of them',
      },
      { command: `hubctl dead-letters list --from ${EXAMPLE}`, description: 'From a place on, oldest first' },
    ],
    needs: bus,
  },
  {
    topic: Flag.String('topic').pipe(
      Flag.withDescription('Only of this topic, by the name of the topic that they come from'),
      Flag.optional,
    ),
    from: Flag.String('from').pipe(
      Flag.withDescription('From this one on, in the order of its partition'),
      Flag.withMetavar(EXAMPLE),
      Flag.filterMap(
        (text) => Option.fromNullishOr(parsePlace(text)),
        () => `a topic, a partition and an offset, such as ${EXAMPLE}`,
      ),
      Flag.optional,
    ),
    all: Flag.Boolean('all').pipe(
      Flag.withDescription('Retried and dropped ones as well'),
      Flag.withDefault(false),
    ),
    limit: limitFlag,
  },
  Effect.fnUntraced(function* ({ all, from, limit, topic }) {
    const topics = yield* deadLetterTopics
    if (Option.isSome(topic) && !topics.names.includes(topic.value)) {
      return yield* refused(
        'topic_not_found',
        `The hub has no topic ${topic.value}: ${topics.names.join(', ')}.`,
      )
    }
    if (Option.isSome(from)) yield* requireTopic(from.value)
    const found = Option.isSome(from)
      ? yield* deadLettersFrom(from.value, limit)
      : yield* newestDeadLetters({
          topics: Option.isSome(topic) ? [deadLetterTopic(topic.value)] : topics.letters,
          limit,
        })
    const markOf = yield* marksOf(found)
    const data = found
      .map((letter) => letterObject(letter, markOf(letter)))
      .filter(({ handled }) => all || handled === null || handled.outcome === 'retrying')
    yield* show({ object: 'list', data }, () =>
      table(
        data,
        {
          letter: (row) => row.id,
          'set aside': (row) => row.set_aside_at,
          reason: (row) => row.reason,
          type: (row) => row.type,
          handled: (row) => handledText(row.handled),
        },
        'No dead letters.',
      ),
    )
  }),
)

/** Fails where a place is not in one of the hub's dead-letter topics: what lies elsewhere is none. */
const requireTopic = Effect.fnUntraced(function* (place: Position) {
  const { letters } = yield* deadLetterTopics
  if (!letters.includes(place.topic)) {
    return yield* refused('topic_not_found', `${place.topic} is no dead-letter topic of this hub.`)
  }
})

const requireLetter = Effect.fnUntraced(function* (place: Position) {
  yield* requireTopic(place)
  const letter = yield* readDeadLetter(place)
  return Option.isSome(letter)
    ? letter.value
    : yield* refused('dead_letter_not_found', `There is no dead letter at ${textOf(place)}, or not any more.`)
})

const showOne = defineCommand(
  'show',
  {
    short: 'One of them, as far as it can be read',
    about:
      'Shows where a dead letter came from, why it was set aside, its headers, and its fields where its schema is known. What is sealed stays sealed. Of bytes ' +
      'that do not decode only their number is shown: nobody knows what they are.',
    changes: NOTHING,
    examples: [{ command: `hubctl dead-letters show ${EXAMPLE}` }],
    needs: bus,
  },
  { place: placeArgument },
  Effect.fnUntraced(function* ({ place }) {
    const letter = yield* requireLetter(place)
    const markOf = yield* marksOf([letter])
    const { record } = letter
    const content = displayContent(letter)
    const decoded = Result.isSuccess(content)
      ? (JSON.parse(maskNumbers(JSON.stringify(content.success))) as Readonly<Record<string, unknown>>)
      : null
    const shown = {
      ...letterObject(letter, markOf(letter)),
      key: maskNumbers(record.key),
      record: maskNumbers(record.id),
      occurred_at: toTimestamp(record.occurredAt),
      traceparent: record.traceparent === null ? null : maskNumbers(record.traceparent),
      bytes: record.value.length,
      undecodable: Result.isFailure(content) ? content.failure.reason : null,
      content: decoded,
    }
    yield* show(shown, () =>
      [
        fields({
          letter: shown.id,
          reason: shown.reason,
          'set aside': shown.set_aside_at,
          source: shown.source,
          handled: handledText(shown.handled),
          type: shown.type,
          key: shown.key,
          record: shown.record,
          'occurred at': shown.occurred_at,
          traceparent: shown.traceparent,
          bytes: shown.bytes,
          decodes: shown.undecodable === null ? 'yes' : `no: ${shown.undecodable}`,
        }),
        ...(decoded === null
          ? []
          : [
              '',
              fields(
                Object.fromEntries(
                  Object.entries(decoded).map(([name, value]) => [
                    name,
                    typeof value === 'string' ? value : JSON.stringify(value),
                  ]),
                ),
              ),
            ]),
      ].join('\n'),
    )
  }),
)

/** Says beforehand what is about to be done, so that nobody does it twice; answers whether it may be done. */
const claim = (letter: DeadLetter, outcome: 'retrying' | 'dropped', again: boolean) =>
  Effect.gen(function* () {
    const sql = yield* Sql
    const { offset, partition, topic } = originOf(letter)
    const rows = yield* sql.run(
      (q) => q`
        INSERT INTO command.dead_letters AS d (source_topic, source_partition, source_offset, outcome)
        VALUES (${topic}, ${partition}, ${offset}, ${outcome})
        ON CONFLICT (source_topic, source_partition, source_offset)
          DO UPDATE SET outcome = excluded.outcome, at = excluded.at WHERE ${again}
        RETURNING 1`,
    )
    if (rows.length > 0) return
    const markOf = yield* marksOf([letter])
    const mark = markOf(letter)
    return yield* refused(
      'dead_letter_handled',
      `${textOf(letter.record)} was ${mark === null ? 'handled' : `${mark.outcome} at ${mark.at.toISOString()}`} already. With --again it is done once more.`,
    )
  })

const again = Flag.Boolean('again').pipe(
  Flag.withDescription('Also where it was retried or dropped before'),
  Flag.withDefault(false),
)

/** Not a client's wait. */
const RETRY_WITHIN_MS = 5000

const retry = defineCommand(
  'retry',
  {
    short: 'Put one back where it came from',
    about:
      'Produces the record to the partition that it came from once more, with its key and headers: after a fault was mended that had set it aside. Consumers drop what ' +
      'they have applied already by its id. Where it still cannot be read or applied, it becomes a new dead letter.',
    changes:
      'One more record in the source topic, for good. The dead letter stays where it is, marked as retried, and is not retried again without --again.',
    examples: [
      { command: `hubctl dead-letters retry ${EXAMPLE}` },
      {
        command: `hubctl dead-letters retry ${EXAMPLE} --again --yes`,
        description: 'When the first time came too early',
      },
    ],
    needs: bus,
  },
  { place: placeArgument, again },
  Effect.fnUntraced(function* ({ again: repeated, place }) {
    const letter = yield* requireLetter(place)
    const record = recordToRetry(letter)
    if (record === null) {
      return yield* refused('source_unknown', `${textOf(place)} does not say which partition it came from.`)
    }
    yield* confirm(`Produce ${textOf(place)} to ${record.topic} again?`)
    const [position] = yield* audited(
      { command: 'dead-letters retry', arguments: { letter: textOf(place), again: repeated } },
      Effect.gen(function* () {
        yield* claim(letter, 'retrying', repeated)
        const log = yield* EventLog
        const positions = yield* log.append([record], { deadlineMs: RETRY_WITHIN_MS })
        const sql = yield* Sql
        const { offset, partition, topic } = originOf(letter)
        yield* sql.run(
          (q) => q`
            UPDATE command.dead_letters SET outcome = 'retried', at = now()
             WHERE source_topic = ${topic} AND source_partition = ${partition} AND source_offset = ${offset}`,
        )
        return positions
      }),
      (positions) => ({ produced: positions.map(textOf) }),
    )
    const produced = position === undefined ? null : textOf(position)
    yield* show({ id: textOf(place), object: 'dead_letter', outcome: 'retried', produced }, () =>
      fields({ letter: textOf(place), outcome: 'retried', 'produced at': produced }),
    )
  }),
)

const drop = defineCommand(
  'drop',
  {
    short: 'Settle that one is not retried',
    about: 'Marks a dead letter as dropped: somebody has looked at it, and it need not come back.',
    changes:
      'hubctl dead-letters list leaves it out, and retry refuses it without --again. Kafka keeps the record itself until its retention is over.',
    examples: [{ command: `hubctl dead-letters drop ${EXAMPLE}` }],
    needs: bus,
  },
  { place: placeArgument, again },
  Effect.fnUntraced(function* ({ again: repeated, place }) {
    const letter = yield* requireLetter(place)
    yield* confirm(
      `Drop ${textOf(place)} (${letter.reason === null ? 'no reason' : maskNumbers(letter.reason)})?`,
    )
    yield* audited(
      { command: 'dead-letters drop', arguments: { letter: textOf(place), again: repeated } },
      claim(letter, 'dropped', repeated),
    )
    yield* show({ id: textOf(place), object: 'dead_letter', outcome: 'dropped' }, () =>
      fields({ letter: textOf(place), outcome: 'dropped' }),
    )
  }),
)

export const deadLetters = defineGroup(
  'dead-letters',
  {
    short: 'Records that could not be read or applied',
    about:
      'Dead letters: records that a consumer could not read or apply and has set aside, each in the dead-letter topic of its topic, with the reason. Nothing waits for them.',
  },
  [list, showOne, retry, drop],
)
