/** Messages of all accounts: search, lists, timelines, and what is revealed of them. */
import { Messages } from '@hub/operations'
import { endpoint, type EndpointGroup } from './endpoint.ts'
import { list } from './list.ts'
import { CURSOR_INVALID, RECIPIENT_REFUSALS } from './refusals.ts'

const NOT_FOUND = { message_not_found: { message: 'There is no such message.', param: 'id' } }
const REASON_REQUIRED = {
  reason_required: { message: 'Say why you need to see this data.', param: 'reason' },
  number_in_audit: { message: 'The reason contains a phone number.' },
}

export const messages: EndpointGroup = {
  name: 'messages',
  title: 'Messages',
  description: 'Messages of all accounts. They are shown with the hash of the recipient.',
  endpoints: [
    endpoint({
      operation: 'messages.search',
      method: 'POST',
      path: '/v1/search',
      summary: 'Search by number, id or reference',
      description:
        'Finds messages by phone number, `client_ref` or the id at an SMS operator, and anything by its id. It is a POST, so ' +
        'that a phone number is in no URL. Nothing changes.',
      useCase: Messages.find,
    }),
    endpoint({
      operation: 'messages.find',
      method: 'POST',
      path: '/v1/messages/find',
      summary: 'Find messages by one criterion',
      description:
        'Messages of a recipient, of the `client_ref` of an account, or with an id at an SMS operator, newest first. Nothing changes.',
      useCase: Messages.findBy,
      refusals: RECIPIENT_REFUSALS,
    }),
    ...list({
      operation: 'messages.list',
      method: 'GET',
      path: '/v1/messages',
      summary: 'List messages',
      description:
        'Messages of all accounts that pass the filters, newest first. A page may be short or empty although more follow: ' +
        'read on while `next_cursor` is not `null`.',
      useCase: Messages.list,
      refusals: CURSOR_INVALID,
    }),
    endpoint({
      operation: 'messages.read',
      method: 'GET',
      path: '/v1/messages/:id',
      summary: 'Read a message',
      description: 'A message as it stands now, with its ids at the SMS operator.',
      useCase: Messages.get,
      refusals: NOT_FOUND,
    }),
    endpoint({
      operation: 'messages.timeline',
      method: 'GET',
      path: '/v1/messages/:id/timeline',
      summary: 'Read the timeline of a message',
      description:
        'Everything that happened to a message, in the order of time, and what cannot be shown. It reads Kafka, and can take some seconds.',
      useCase: Messages.timeline,
      refusals: NOT_FOUND,
    }),
    endpoint({
      operation: 'messages.brief_timeline',
      method: 'GET',
      path: '/v1/messages/:id/brief_timeline',
      summary: 'Read the statuses and events of a message',
      description:
        'The statuses of a message, its events, and the attempts to deliver them, without the records in Kafka.',
      useCase: Messages.briefTimeline,
      refusals: NOT_FOUND,
    }),
    endpoint({
      operation: 'messages.reveal',
      method: 'POST',
      path: '/v1/messages/:id/reveal',
      summary: 'Reveal number and text',
      description: 'The number of the recipient, the text and the variables of a message of the last year.',
      useCase: Messages.reveal,
      refusals: { ...NOT_FOUND, ...REASON_REQUIRED },
    }),
    endpoint({
      operation: 'messages.raw',
      method: 'POST',
      path: '/v1/messages/:id/raw',
      summary: "Reveal the SMS operator's own words",
      description:
        'The answers to the submits of a message and its delivery reports, as the SMS operator sent them, of the last 90 days. ' +
        'They can contain the number and the text.',
      useCase: Messages.raw,
      refusals: { ...NOT_FOUND, ...REASON_REQUIRED },
    }),
  ],
}
