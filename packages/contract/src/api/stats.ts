/** Operations of the summary. Source: docs/contract/stats.md. */
import { Schema } from 'effect'
import { MAX_HOURLY_DAYS, MAX_STATS_DAYS } from '../limits.ts'
import { DayToSend } from '../schemas/common.ts'
import { Stats, STATS_CSV_EXAMPLE, STATS_GROUPS } from '../schemas/stats.ts'
import { get, resource } from './operation.ts'

export const SummaryGroup = resource(
  'stats',
  'Stats',
  'How much was sent, and how it went.',
  get('read', '/v1/stats', {
    summary: 'Read a summary',
    description:
      'Counts over the messages that were accepted on these days. It is empty for days more than three years ago. With ' +
      '`Accept: text/csv` the rows are CSV with a header line: those of `data`, and without `group_by` the totals.',
    answer: 'The summary.',
    codes: ['invalid_parameter'],
    query: {
      from: Schema.optionalKey(
        DayToSend.annotate({
          description: 'First day, in UTC. The first of the month of `to` when absent; not after `to`.',
        }),
      ),
      to: Schema.optionalKey(
        DayToSend.annotate({
          description: `Last day, in UTC, which is included; today when absent. A summary covers at most ${MAX_STATS_DAYS} days.`,
        }),
      ),
      group_by: Schema.optionalKey(
        Schema.Literals(STATS_GROUPS).annotate({
          description: `What the rows of \`data\` are; without it there are none. \`hour\` and \`range\` cover at most ${MAX_HOURLY_DAYS} days.`,
        }),
      ),
    },
    success: Stats,
    otherMedia: {
      'text/csv': {
        schema: {
          type: 'string',
          description:
            'RFC 4180: a header line, then a line for each row. The columns are those of `group_by`, `accepted`, `sent`, ' +
            '`delivered`, `undelivered`, `rejected`, `expired`, `parts`, `price` and `currency`. Find columns by their names: more may be added.',
        },
        example: STATS_CSV_EXAMPLE,
      },
    },
  }),
)
