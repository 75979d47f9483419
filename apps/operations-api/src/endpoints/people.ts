/** Requests of recipients about their own data. A phone number is in the body, and never in a URL. */
import { Erasures, Inbound, OptOutHistory, OptOuts, Recipients } from '@hub/operations'
import { endpoint, type EndpointGroup } from './endpoint.ts'
import { list } from './list.ts'
import { CURSOR_INVALID, RECIPIENT_REFUSALS, REQUEST_UNIDENTIFIED } from './refusals.ts'

export const people: EndpointGroup = {
  name: 'people',
  title: 'People',
  description: 'Opt-outs and erasures of recipients.',
  endpoints: [
    endpoint({
      operation: 'people.hash',
      method: 'POST',
      path: '/v1/recipients/hash',
      summary: 'Read the hash of a recipient',
      description:
        'The hash by which topics, tables and events name a recipient. It is a POST, so that a phone number is in no URL. It is recorded and limited like a reveal.',
      useCase: Recipients.hash,
      refusals: RECIPIENT_REFUSALS,
    }),
    endpoint({
      operation: 'people.reveal_inbound',
      method: 'POST',
      path: '/v1/inbound_messages/reveal',
      summary: 'Reveal inbound messages',
      description:
        'What recipients wrote to the hub, newest first, of one recipient or of all. Number and text are masked after 90 days.',
      useCase: Inbound.list,
      refusals: {
        ...RECIPIENT_REFUSALS,
        reason_required: { message: 'Say why you need to see this data.', param: 'reason' },
        number_in_audit: { message: 'The reason contains a phone number.' },
      },
    }),
    endpoint({
      operation: 'people.check_opt_out',
      method: 'POST',
      path: '/v1/opt_outs/check',
      summary: 'Check an opt-out',
      description:
        'Whether a recipient is opted out, and each change: when, and by which word or by whom. Nothing changes.',
      useCase: OptOutHistory.check,
      refusals: RECIPIENT_REFUSALS,
    }),
    ...list({
      operation: 'people.list_opt_outs',
      method: 'GET',
      path: '/v1/opt_outs',
      summary: 'List opt-outs',
      description: 'The recipients who are opted out, by their hash, newest first.',
      useCase: OptOuts.list,
      refusals: CURSOR_INVALID,
    }),
    endpoint({
      operation: 'people.add_opt_out',
      method: 'POST',
      path: '/v1/opt_outs',
      summary: 'Record an opt-out',
      description:
        'Records an opt-out at the request of a recipient, by the hash from the check. The accounts that wrote to the recipient in the last 90 days get an event.',
      useCase: OptOuts.add,
    }),
    endpoint({
      operation: 'people.lift_opt_out',
      method: 'POST',
      path: '/v1/opt_outs/lift',
      summary: 'Lift an opt-out',
      description:
        'Lifts an opt-out at the request of a recipient, by the hash from the check. Its record stays.',
      useCase: OptOuts.lift,
      refusals: { not_opted_out: { message: 'The recipient is not opted out.', param: 'recipient' } },
    }),
    ...list({
      operation: 'people.list_erasure_requests',
      method: 'GET',
      path: '/v1/erasures',
      summary: 'List erasure requests',
      description:
        'The erasures that another person must confirm, newest first. `open=false` lists all requests.',
      useCase: Erasures.requests,
      defaults: { open: true },
      refusals: CURSOR_INVALID,
    }),
    endpoint({
      operation: 'people.erase',
      method: 'POST',
      path: '/v1/erasures',
      summary: 'Erase a recipient, or request it',
      description:
        'Erases the data of a recipient from all stores, and answers with the receipt. It cannot be undone. If the hub requires two ' +
        'persons, it answers with a request that another person must confirm.',
      useCase: Erasures.request,
      refusals: {
        ...RECIPIENT_REFUSALS,
        reason_required: { message: 'Say why you need to see this data.', param: 'reason' },
        number_in_audit: { message: 'The reason contains a phone number.' },
      },
    }),
    endpoint({
      operation: 'people.confirm_erasure',
      method: 'POST',
      path: '/v1/erasures/:id/confirm',
      summary: 'Confirm an erasure',
      description:
        'Confirms the request of another person, erases the recipient, and answers with the receipt.',
      useCase: Erasures.confirm,
      refusals: {
        erasure_request_not_found: { message: 'There is no such request.' },
        same_person: { message: 'Another person must confirm it.' },
        request_unidentified: REQUEST_UNIDENTIFIED,
        erasure_request_expired: { message: 'The request is older than a week.' },
        already_confirmed: { message: 'The request was confirmed already.' },
      },
    }),
    endpoint({
      operation: 'people.list_receipts',
      method: 'POST',
      path: '/v1/erasures/receipts',
      summary: 'List the receipts of a recipient',
      description: 'The erasures of a recipient, newest first, as proof. Nothing changes.',
      useCase: Erasures.receipts,
      refusals: RECIPIENT_REFUSALS,
    }),
  ],
}
