/** `hubctl dead-letters`: records that a consumer could not read or apply, and their handling. */
import { confirm, defineGroup, fields, NOTHING, show, showList } from '@hub/command-line'
import { DeadLetters } from '@hub/operations'
import { Effect, Option } from 'effect'
import { Argument, Flag } from 'effect/cli'
import { limitFlag, reasonFlag, switchFlag } from '../command-line/arguments.ts'
import { defineCommand } from '../command-line/command.ts'
import { databaseAndKafka } from '../command-line/connections.ts'
import { run, withHint } from '../operations.ts'

const EXAMPLE = 'hub.messages.v1.dead-letter/3/17'

const isPosition = (text: string): boolean => DeadLetters.parsePosition(text) !== null

const expectedPosition = () => `a topic, a partition and an offset, such as ${EXAMPLE}`

const positionArgument = Argument.String('letter').pipe(
  Argument.withDescription('A dead letter from hubctl dead-letters list'),
  Argument.withMetavar(EXAMPLE),
  Argument.filter(isPosition, expectedPosition),
)

const againFlag = switchFlag('again', 'Also if it was retried or dropped before')

const handlingText = (handled: DeadLetters.DeadLetter['handled']): string | null =>
  handled === null ? null : `${handled.outcome} ${handled.at}`

/** For a dead letter that was handled before. */
const hintAgain = withHint('dead_letter_handled', 'Repeat it with --again.')

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
      Flag.filter(isPosition, expectedPosition),
      Flag.optional,
    ),
    all: switchFlag('all', 'Include retried and dropped dead letters'),
    limit: limitFlag,
  },
  Effect.fnUntraced(function* ({ all, from, limit, topic }) {
    const { data } = yield* run(DeadLetters.list, {
      topic: Option.getOrNull(topic),
      from: Option.getOrNull(from),
      all,
      limit,
    })
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
  { id: positionArgument },
  Effect.fnUntraced(function* ({ id }) {
    const shown = yield* run(DeadLetters.get, { id })
    const { content: decoded } = shown
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
  { id: positionArgument, again: againFlag },
  Effect.fnUntraced(function* ({ again, id }) {
    const { source } = yield* run(DeadLetters.get, { id })
    if (source !== null) yield* confirm(`Append ${id} to ${source.split('/')[0]} again?`)
    const retried = yield* run(DeadLetters.retry, { id, again }).pipe(hintAgain)
    yield* show(retried, ({ outcome, produced }) => fields({ letter: id, outcome, 'produced at': produced }))
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
  {
    id: positionArgument,
    again: againFlag,
    reason: reasonFlag('Why it needs no retry, for the audit trail. With --api it is required').pipe(
      Flag.optional,
    ),
  },
  Effect.fnUntraced(function* ({ again, id, reason: why }) {
    const { reason } = yield* run(DeadLetters.get, { id })
    yield* confirm(`Drop ${id} (${reason ?? 'no reason'})?`)
    const dropped = yield* run(DeadLetters.drop, { id, again, reason: Option.getOrNull(why) }).pipe(hintAgain)
    yield* show(dropped, ({ outcome }) => fields({ letter: id, outcome }))
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
