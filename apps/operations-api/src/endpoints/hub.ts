/** The hub as a whole: daily limit, stop, dead letters and rebuilds of the read models. */
import { DeadLetters, Hub, Projections } from '@hub/operations'
import { endpoint, type EndpointGroup } from './endpoint.ts'
import { list } from './list.ts'

const LETTER_NOT_FOUND = {
  dead_letter_not_found: { message: 'There is no such dead letter.', param: 'id' },
}
const LETTER_HANDLED = {
  dead_letter_handled: { message: 'It was retried or dropped before.', param: 'again' },
}

export const hub: EndpointGroup = {
  name: 'hub',
  title: 'Hub',
  description: 'The hub as a whole: daily limit, stop, and rebuilds of the read models.',
  endpoints: [
    endpoint({
      operation: 'hub.read',
      method: 'GET',
      path: '/v1/hub',
      summary: 'Read the limits of the hub',
      description: 'The daily limit with its use, and the stop.',
      useCase: Hub.get,
    }),
    endpoint({
      operation: 'hub.set_limit',
      method: 'POST',
      path: '/v1/hub/daily_limit',
      summary: 'Set the daily limit',
      description: 'Messages per day (UTC) over all accounts. `null`: no limit.',
      useCase: Hub.setLimit,
    }),
    endpoint({
      operation: 'hub.stop',
      method: 'POST',
      path: '/v1/hub/stop',
      summary: 'Stop the acceptance of messages',
      description: 'For some seconds from now. Accepted messages are sent.',
      useCase: Hub.stop,
    }),
    endpoint({
      operation: 'hub.resume',
      method: 'POST',
      path: '/v1/hub/resume',
      summary: 'End a stop early',
      description: 'The hub accepts messages again within seconds.',
      useCase: Hub.resume,
      refusals: { not_stopped: { message: 'The hub is not stopped.' } },
    }),
    endpoint({
      operation: 'hub.read_projections',
      method: 'GET',
      path: '/v1/projections',
      summary: 'Read the state of the read models',
      description: 'The lag in each partition, and the rebuild in progress or the last one.',
      useCase: Projections.status,
    }),
  ],
}

export const deadLetters: EndpointGroup = {
  name: 'dead_letters',
  title: 'Dead letters',
  description: 'Records that could not be read or applied.',
  endpoints: [
    ...list({
      operation: 'dead_letters.list',
      method: 'GET',
      path: '/v1/dead_letters',
      summary: 'List dead letters',
      description:
        'Newest first, or from one of them on in the order of its partition. `all`: also retried and dropped ones.',
      useCase: DeadLetters.list,
      defaults: { all: false },
      refusals: {
        topic_not_found: { message: 'The hub has no such topic.', param: 'topic' },
        ...LETTER_NOT_FOUND,
      },
    }),
    endpoint({
      operation: 'dead_letters.read',
      method: 'GET',
      path: '/v1/dead_letters/read',
      summary: 'Read a dead letter',
      description: 'With the fields of the record. Encrypted fields stay encrypted, and numbers are masked.',
      useCase: DeadLetters.get,
      refusals: LETTER_NOT_FOUND,
    }),
    endpoint({
      operation: 'dead_letters.retry',
      method: 'POST',
      path: '/v1/dead_letters/retry',
      summary: 'Retry a dead letter',
      description:
        'Appends the record to its source partition again. `again`: also if it was handled before.',
      useCase: DeadLetters.retry,
      defaults: { again: false },
      refusals: {
        ...LETTER_NOT_FOUND,
        ...LETTER_HANDLED,
        source_unknown: { message: 'It does not contain its source partition.', param: 'id' },
      },
    }),
    endpoint({
      operation: 'dead_letters.drop',
      method: 'POST',
      path: '/v1/dead_letters/drop',
      summary: 'Drop a dead letter',
      description: 'Marks it as not to be retried, with a reason. Kafka keeps the record.',
      useCase: DeadLetters.drop,
      defaults: { again: false },
      refusals: {
        ...LETTER_NOT_FOUND,
        ...LETTER_HANDLED,
        reason_required: { message: 'Say why it is not needed.', param: 'reason' },
      },
    }),
  ],
}
