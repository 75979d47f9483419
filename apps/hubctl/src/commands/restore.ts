/** `hubctl restore`: what a database that came back from a backup still lacks. */
import { decodeId } from '@hub/domain'
import {
  catalogueConfig,
  decodeEventRecorded,
  kafkaConnectionConfig,
  describeGroup,
  topicNames,
} from '@hub/kafka'
import { restoreEvents, restoreLedger } from '@hub/store'
import { Config, Effect, Result } from 'effect'
import { Flag } from 'effect/cli'
import { audited } from '../audit/audit-trail.ts'
import { defineCommand, defineGroup } from '../command-line/command.ts'
import { confirm } from '../command-line/confirm.ts'
import { bus, CLIENT, database } from '../command-line/connections.ts'
import { refused } from '../command-line/failure.ts'
import { show } from '../command-line/output.ts'
import { readToEnd } from '../restore/read-topic.ts'

/** Without the prefix: the group of those who record events. */
const PROJECTORS = 'hub.projector'

const journal = defineCommand(
  'journal',
  {
    short: 'Put recorded events back to their places',
    about:
      'Reads hub.webhooks.v1 from its beginning and puts the events that were recorded after the backup back into the journal, with the places and ' +
      'moments that clients have seen. It is done before a projector runs: one that reads the other topics again would record them anew, at other ' +
      'places. Safe to repeat.',
    changes: 'The journal of events behind GET /v1/events, behind where the backup ends.',
    examples: [
      {
        command: 'hubctl restore journal',
        description: 'After the database is back, before anything starts',
      },
    ],
    needs: bus,
  },
  {},
  Effect.fnUntraced(function* () {
    const [connection, { prefix }] = yield* Config.all([kafkaConnectionConfig(CLIENT), catalogueConfig])
    const { members } = yield* describeGroup(connection, `${prefix}${PROJECTORS}`)
    if (members > 0) {
      return yield* refused(
        'projectors_run',
        `${members} projectors run: end them first, they record events.`,
      )
    }
    yield* confirm('Put the events of hub.webhooks.v1 back into the journal?')
    let restored = 0
    let stranded = 0
    const found = yield* audited(
      { command: 'restore journal', arguments: {} },
      readToEnd(
        topicNames(prefix).webhooks,
        Effect.fnUntraced(function* (records) {
          const events = records.flatMap((record) => {
            const read = record.type === 'EventRecorded' ? decodeEventRecorded(record) : null
            if (read === null || Result.isFailure(read)) return []
            const { account, body, createdAt, event, eventType, mode, sequence } = read.success
            const ids = { account: decodeId('acc', account), id: decodeId('evt', event) }
            return ids.account === null || ids.id === null
              ? []
              : [{ account: ids.account, id: ids.id, mode, sequence, type: eventType, createdAt, body }]
          })
          const part = yield* restoreEvents(events)
          restored += part.restored
          stranded += part.afterGap
        }),
      ).pipe(Effect.map(() => ({ restored, stranded }))),
      (facts) => facts,
    )
    yield* show(
      { object: 'restored_journal', ...found },
      () => `${found.restored} events are back in the journal.`,
    )
    if (found.stranded > 0) {
      return yield* refused(
        'journal_has_gaps',
        `${found.stranded} events lie behind a place that the topic does not hold: its beginning is younger than the backup. The projector records them anew.`,
      )
    }
  }),
)

const ledger = defineCommand(
  'ledger',
  {
    short: 'Mark references as used, and count what was spent',
    about:
      'Marks the references of messages as used that the read model knows and the restored ledger does not, so that a repeat of one is a duplicate ' +
      'again, and counts the money of each account and month by the charges. It is done when the projectors have read to the end of the topics, and ' +
      'before the API takes sends. Safe to repeat.',
    changes: 'Used references, and what accounts have spent in the months since.',
    examples: [
      {
        command: 'hubctl restore ledger --since 2026-11-21T09:00:00Z',
        description: 'With a moment before the backup was made',
      },
    ],
    needs: database,
  },
  {
    since: Flag.String('since').pipe(
      Flag.withDescription('A moment before the backup was begun, as 2026-11-21T09:00:00Z'),
    ),
  },
  Effect.fnUntraced(function* ({ since }) {
    const moment = Date.parse(since)
    if (!Number.isFinite(moment)) {
      return yield* refused('invalid_moment', `--since must be a moment such as 2026-11-21T09:00:00Z.`)
    }
    yield* confirm(
      `Count references and money anew, of messages accepted since ${new Date(moment).toISOString()}?`,
    )
    const found = yield* audited(
      { command: 'restore ledger', arguments: { since: new Date(moment).toISOString() } },
      restoreLedger(moment),
      (facts) => facts,
    )
    yield* show(
      { object: 'restored_ledger', ...found },
      () =>
        `${found.references} references are marked as used; ${found.periods} months of accounts are counted anew.`,
    )
  }),
)

export const restore = defineGroup(
  'restore',
  {
    short: 'After a backup was put back',
    about:
      'Two steps of bringing a hub back from a backup that only the topics can help with; docs/operating.md has the others.',
  },
  [journal, ledger],
)
