/** Operations of events. Source: specification, Delivery of events. */
import { EVENT_TYPES } from '@hub/domain'
import { Schema } from 'effect'
import { HttpApiEndpoint, HttpApiGroup, OpenApi } from 'effect/http-api'
import { LONG_LIST_LIMITS } from '../limits.ts'
import { Timestamp } from '../schemas/common.ts'
import { EventList } from '../schemas/events.ts'
import { ApiKey, failures, limitParam, LIST_CODES, operation, startingAfterParam } from './operation.ts'

const listEvents = HttpApiEndpoint.get('list', '/v1/events', {
  query: {
    limit: limitParam(LONG_LIST_LIMITS),
    starting_after: startingAfterParam,
    created_after: Schema.optionalKey(
      Timestamp.annotate({
        description:
          'Events recorded after this moment, strictly. To go on without a cursor, send the `created_at` of the last event ' +
          'you processed minus a millisecond and drop what you have by its id. Not together with `starting_after`.',
      }),
    ),
    type: Schema.optionalKey(
      Schema.Array(Schema.Literals(EVENT_TYPES)).annotate({
        description: 'Only events of this type. May be repeated.',
      }),
    ),
  },
  success: EventList,
  error: failures(LIST_CODES),
}).annotateMerge(
  operation({
    summary: 'List events',
    description:
      'Events in the order of recording, without gaps: keep `next_cursor` and ask again. Drop repeated events by their id.',
    answer: 'A page of events.',
    codes: LIST_CODES,
  }),
)

export const EventsGroup = HttpApiGroup.make('events')
  .add(listEvents)
  .middleware(ApiKey)
  .annotateMerge(OpenApi.annotations({ title: 'Events', description: 'What happened, for catching up.' }))
