/** `hubctl restore`: restores data from Kafka that a database backup does not contain. */
import { confirm, defineGroup, refused, show } from '@hub/command-line'
import { Restore } from '@hub/operations'
import { connectedKafka } from '@hub/store'
import { Effect } from 'effect'
import { Flag } from 'effect/cli'
import { defineCommand } from '../command-line/command.ts'
import { databaseAndKafka } from '../command-line/connections.ts'
import { run } from '../operations.ts'

/** Why the operations API has no command of this group. */
const NOT_OVER_API = 'it is a step of the restore of a backup, during which the API does not run'

const journal = defineCommand(
  'journal',
  {
    short: 'Restore the event journals of accounts with webhooks',
    about:
      'Reads hub.webhooks.v1 from its beginning, and restores the events after the backup in the ' +
      'journal, with their original sequence numbers and times. Run it before a projector starts: a ' +
      'projector would record the events again with other sequence numbers. It does so for accounts ' +
      'without a webhook subscription, because the topic does not contain their events. Their clients ' +
      'read the events once more (docs/operating.md, Restore). It is safe to repeat.',
    changes: 'The events after the end of the backup in the journal behind GET /v1/events.',
    examples: [
      {
        command: 'hubctl restore journal',
        description: 'After the restore of the database, before any app starts',
      },
    ],
    notOverApi: NOT_OVER_API,
    needs: databaseAndKafka,
  },
  {},
  Effect.fnUntraced(function* () {
    yield* confirm('Restore the events of hub.webhooks.v1 in the journal?')
    const counts = yield* run(Restore.journal, {})
    const notRestored =
      counts.after_gap === 0
        ? ''
        : ` ${counts.after_gap} events follow a gap and were not restored: their accounts had no subscription ` +
          'for a time after the backup, or the topic begins later. A projector records them again.'
    yield* show(counts, ({ restored }) => `${restored} events were restored.${notRestored}`)
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
    notOverApi: NOT_OVER_API,
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
    yield* show(
      yield* run(Restore.ledger, { since: from }),
      (counts) =>
        `${counts.references} references were marked as used. The spend of ${counts.periods} months of accounts was calculated.`,
    )
  }),
)

const erasures = defineCommand(
  'erasures',
  {
    short: 'Apply the erasures after the backup again',
    about:
      'Reads hub.erasures.v1, and erases the people again whose erasures are newer than the backup. ' +
      'Until it has run, no process is ready (/readyz), and hubctl doctor reports a problem. Run it ' +
      'before any app starts, so that the projectors do not store their numbers again. It is safe to ' +
      'repeat.',
    changes:
      'It cannot be undone: numbers and texts of these people are unreadable, as they were before the ' +
      'restore.',
    examples: [
      {
        command: 'hubctl restore erasures',
        description: 'After the restore of the database, before any app starts',
      },
    ],
    notOverApi: NOT_OVER_API,
    needs: databaseAndKafka,
  },
  {},
  Effect.fnUntraced(function* () {
    const { missing } = yield* run(Restore.missingErasures, {})
    if (missing > 0) yield* confirm(`Apply ${missing} erasures again? It cannot be undone.`)
    yield* show(yield* run(Restore.erasures, {}), ({ restored }) =>
      restored === 0
        ? 'The database contains all erasures.'
        : `${restored} erasures were applied again. hubctl recipients receipts shows their receipts.`,
    )
  }),
)

const kafka = defineCommand(
  'kafka',
  {
    short: 'Accept the Kafka cluster of HUB_KAFKA_BROKERS',
    about:
      'The database of a hub knows its Kafka cluster and the prefix of its topics, and no process starts with ' +
      'others. Run this command after a restore into another cluster, when its topics contain the records of ' +
      'the old one and all processes of the hub have stopped.',
    changes: 'The cluster with which processes of the hub may start. With any other one they end.',
    examples: [
      {
        command: 'hubctl restore kafka',
        description: 'After the records were appended to a new cluster, before any app starts',
      },
    ],
    notOverApi: NOT_OVER_API,
  },
  {},
  Effect.fnUntraced(function* () {
    const { cluster, prefix } = yield* connectedKafka('hubctl')
    const topics = prefix === '' ? '' : ` and the prefix ${prefix}`
    yield* confirm(`Make the Kafka cluster ${cluster}${topics} the one of this hub?`)
    yield* show(yield* run(Restore.kafka, {}), ({ before }) =>
      before === cluster
        ? `The hub already used the Kafka cluster ${cluster}.`
        : `The hub now uses the Kafka cluster ${cluster}. Before, it used ${before ?? 'none'}.`,
    )
  }),
)

const databaseCommand = defineCommand(
  'database',
  {
    short: 'Accept the database of HUB_DATABASE_URL',
    about:
      'Kafka knows the database of a hub (hub.database.v1), and no process starts with another one. Run this ' +
      'command after a restore from a dump, an upgrade of PostgreSQL or a move to another server, when all ' +
      'processes of the hub have stopped. A standby that was promoted, and a base backup, are the same ' +
      'database: they need no command.',
    changes: 'The database with which processes of the hub may start. With any other one they end.',
    examples: [
      {
        command: 'hubctl restore database',
        description: 'After the restore of a dump, before any app starts',
      },
    ],
    notOverApi: NOT_OVER_API,
  },
  {},
  Effect.fnUntraced(function* () {
    yield* confirm('Make the database of HUB_DATABASE_URL the one of this hub?')
    yield* show(yield* run(Restore.database, {}), (result) =>
      result.before === result.database
        ? `The hub already used the database ${result.database}.`
        : `The hub now uses the database ${result.database}. Before, it used ${result.before ?? 'none'}.`,
    )
  }),
)

export const restore = defineGroup(
  'restore',
  {
    short: 'After the restore of a backup',
    about:
      'Steps after the restore of a database backup, which use data from Kafka. docs/operating.md ' +
      'describes all steps.',
  },
  [kafka, databaseCommand, erasures, journal, ledger],
)
