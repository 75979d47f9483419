/** `hubctl restore`: restores data from Kafka that a database backup does not contain. */
import { decodeId } from '@hub/domain'
import { decodeEventRecorded, describeGroup, type IncomingRecord, topicNames } from '@hub/kafka'
import { restoreEvents, restoreLedger } from '@hub/store'
import { Effect, Result } from 'effect'
import { Flag } from 'effect/cli'
import { audited } from '../audit/audit-trail.ts'
import { defineCommand, defineGroup } from '../command-line/command.ts'
import { confirm } from '../command-line/confirm.ts'
import { database, databaseAndKafka, kafkaConfig } from '../command-line/connections.ts'
import { refused } from '../command-line/failure.ts'
import { show } from '../command-line/output.ts'
import { readToEnd } from '../restore/read-topic.ts'

/** The consumer group of the projectors, which record events. Without the prefix. */
const PROJECTORS = 'hub.projector'

/** The published event in a record. An empty list for other records. */
const publishedEvent = (record: IncomingRecord) => {
  const decoded = record.type === 'EventRecorded' ? decodeEventRecorded(record) : null
  if (decoded === null || Result.isFailure(decoded)) return []
  const { account, body, createdAt, event, eventType, mode, sequence } = decoded.success
  const ids = { account: decodeId('acc', account), id: decodeId('evt', event) }
  return ids.account === null || ids.id === null
    ? []
    : [{ account: ids.account, id: ids.id, mode, sequence, type: eventType, createdAt, body }]
}

const journal = defineCommand(
  'journal',
  {
    short: 'Restore the event journal',
    about:
      'Reads hub.webhooks.v1 from its beginning, and restores the events after the backup in the ' +
      'journal, with their original sequence numbers and times. Run it before a projector starts: a ' +
      'projector would record the events again with other sequence numbers. It is safe to repeat.',
    changes: 'The events after the end of the backup in the journal behind GET /v1/events.',
    examples: [
      {
        command: 'hubctl restore journal',
        description: 'After the restore of the database, before any app starts',
      },
    ],
    needs: databaseAndKafka,
  },
  {},
  Effect.fnUntraced(function* () {
    const [connection, { prefix }] = yield* kafkaConfig
    const { members } = yield* describeGroup(connection, `${prefix}${PROJECTORS}`)
    if (members > 0) {
      return yield* refused('projectors_run', `${members} projectors run and record events. Stop them first.`)
    }
    yield* confirm('Restore the events of hub.webhooks.v1 in the journal?')
    const counts = { restored: 0, stranded: 0 }
    yield* audited(
      { command: 'restore journal', arguments: {} },
      readToEnd(
        topicNames(prefix).webhooks,
        Effect.fnUntraced(function* (records) {
          const { afterGap, restored } = yield* restoreEvents(records.flatMap(publishedEvent))
          counts.restored += restored
          counts.stranded += afterGap
        }),
      ),
      () => counts,
    )
    yield* show({ object: 'restored_journal', ...counts }, () => `${counts.restored} events were restored.`)
    if (counts.stranded > 0) {
      return yield* refused(
        'journal_has_gaps',
        `${counts.stranded} events follow a gap: the topic begins after the end of the backup. The projector will record them again.`,
      )
    }
  }),
)

const ledger = defineCommand(
  'ledger',
  {
    short: 'Restore used references and the spend',
    about:
      'Marks references as used if the read models have a message with them, so that repeats are ' +
      'duplicates again. Calculates the spend of each account and month from the charges. Run it when ' +
      'the projectors have read to the end of the topics, before the API accepts sends. It is safe to ' +
      'repeat.',
    changes: 'The used references, and the spend of the accounts since that month.',
    examples: [
      {
        command: 'hubctl restore ledger --since 2026-11-21T09:00:00Z',
        description: 'With a time before the backup',
      },
    ],
    needs: database,
  },
  {
    since: Flag.String('since').pipe(
      Flag.withDescription('A time before the start of the backup, as 2026-11-21T09:00:00Z'),
    ),
  },
  Effect.fnUntraced(function* ({ since }) {
    const time = Date.parse(since)
    if (!Number.isFinite(time)) {
      return yield* refused('invalid_moment', '--since must be a time such as 2026-11-21T09:00:00Z.')
    }
    const from = new Date(time).toISOString()
    yield* confirm(`Restore references and spend of messages accepted since ${from}?`)
    const counts = yield* audited(
      { command: 'restore ledger', arguments: { since: from } },
      restoreLedger(time),
      (restored) => restored,
    )
    yield* show(
      { object: 'restored_ledger', ...counts },
      () =>
        `${counts.references} references were marked as used. The spend of ${counts.periods} months of accounts was calculated.`,
    )
  }),
)

export const restore = defineGroup(
  'restore',
  {
    short: 'After the restore of a backup',
    about:
      'Two steps after the restore of a database backup, which use data from Kafka. docs/operating.md ' +
      'describes all steps.',
  },
  [journal, ledger],
)
