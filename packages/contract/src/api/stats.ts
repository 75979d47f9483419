/** Operations of the summary. Source: specification, Endpoints. */
import { Schema } from 'effect'
import { HttpApiEndpoint, HttpApiGroup, OpenApi } from 'effect/http-api'
import { MAX_STATS_DAYS } from '../limits.ts'
import { Day } from '../schemas/common.ts'
import { Stats, STATS_GROUPS } from '../schemas/stats.ts'
import { ANYWHERE, ApiKey, failures, operation } from './operation.ts'

const STATS_CODES = [...ANYWHERE, 'invalid_parameter'] as const

const readStats = HttpApiEndpoint.get('read', '/v1/stats', {
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
  error: failures(STATS_CODES),
}).annotateMerge(
  operation({
    summary: 'Read a summary',
    description:
      'Counts over the messages that were accepted on these days. It is empty for days more than three years ago.',
    answer: 'The summary.',
    codes: STATS_CODES,
  }),
)

export const SummaryGroup = HttpApiGroup.make('stats')
  .add(readStats)
  .middleware(ApiKey)
  .annotateMerge(OpenApi.annotations({ title: 'Stats', description: 'How much was sent, and how it went.' }))
