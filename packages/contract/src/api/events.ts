/** Operations of events. Source: docs/contract/events.md. */
import { EVENT_TYPES } from '@hub/domain'
import { Schema } from 'effect'
import { LONG_LIST_LIMITS } from '../limits.ts'
import { TimestampToSend } from '../schemas/common.ts'
import { EventList } from '../schemas/events.ts'
import { get, pageQuery, resource } from './operation.ts'

export const EventsGroup = resource(
  'events',
  'Events',
  'What happened, for catching up.',
  get('list', '/v1/events', {
    summary: 'List events',
    description:
      'Events in the order of recording, without gaps: keep `next_cursor` and ask again. Drop repeated events by their id.',
    answer: 'A page of events.',
    codes: ['invalid_parameter', 'not_found'],
    query: {
      ...pageQuery(LONG_LIST_LIMITS),
      created_after: Schema.optionalKey(
        TimestampToSend.annotate({
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
      message: Schema.optionalKey(
        Schema.String.annotate({ description: 'Only the `message.*` events of this message (`msg_…`).' }),
      ),
      batch: Schema.optionalKey(
        Schema.String.annotate({
          description:
            'Only the `message.*` events of the messages of this batch (`bat_…`), and its `batch.completed`. Not together with `message`.',
        }),
      ),
    },
    success: EventList,
  }),
)
