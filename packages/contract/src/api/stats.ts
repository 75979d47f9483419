/** Operations of the summary. Source: specification, Endpoints. */
import { Schema } from 'effect'
import { MAX_STATS_DAYS } from '../limits.ts'
import { Day } from '../schemas/common.ts'
import { Stats, STATS_GROUPS } from '../schemas/stats.ts'
import { get, resource } from './operation.ts'

const readStats = get('read', '/v1/stats', {
  summary: 'Read a summary',
  description:
    'Counts over the messages that were accepted on these days. It is empty for days more than three years ago.',
  answer: 'The summary.',
  codes: ['invalid_parameter'],
  query: {
    from: Schema.optionalKey(
      Day.annotate({
        description: 'First day, in UTC. The first of the month of `to` when absent; not after `to`.',
      }),
    ),
    to: Schema.optionalKey(
      Day.annotate({
        description: `Last day, in UTC, which is included; today when absent. A summary covers at most ${MAX_STATS_DAYS} days.`,
      }),
    ),
    group_by: Schema.optionalKey(
      Schema.Literals(STATS_GROUPS).annotate({
        description: 'What the rows of `data` are; without it there are none.',
      }),
    ),
  },
  success: Stats,
})

export const SummaryGroup = resource('stats', 'Stats', 'How much was sent, and how it went.', readStats)
