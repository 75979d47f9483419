/** Moderation: templates and senders that wait for a decision of the SMS operator. */
import { Senders, Templates } from '@hub/operations'
import { endpoint, type EndpointGroup } from './endpoint.ts'
import { list } from './list.ts'
import { CURSOR_INVALID } from './refusals.ts'

const ALREADY_DECIDED = {
  already_decided: { message: 'It has this decision already. The details say who decided, and when.' },
}
const templateNotFound = { template_not_found: { message: 'There is no such template.', param: 'id' } }
const senderNotFound = { sender_not_found: { message: 'There is no such sender.', param: 'id' } }
export const moderation: EndpointGroup = {
  name: 'moderation',
  title: 'Moderation',
  description: 'Templates and senders, and the decisions of the SMS operator about them.',
  endpoints: [
    ...list({
      operation: 'moderation.template_queue',
      method: 'GET',
      path: '/v1/moderation/queue/templates',
      summary: 'List templates that wait',
      description: 'Live templates without a decision, oldest first.',
      useCase: Templates.queue,
      refusals: CURSOR_INVALID,
    }),
    ...list({
      operation: 'moderation.sender_queue',
      method: 'GET',
      path: '/v1/moderation/queue/senders',
      summary: 'List senders that wait',
      description: 'Live senders without a decision, oldest first.',
      useCase: Senders.queue,
      refusals: CURSOR_INVALID,
    }),
    ...list({
      operation: 'moderation.list_templates',
      method: 'GET',
      path: '/v1/moderation/templates',
      summary: 'List templates',
      description: 'Templates of all accounts or of one, oldest first.',
      useCase: Templates.list,
      refusals: CURSOR_INVALID,
    }),
    endpoint({
      operation: 'moderation.read_template',
      method: 'GET',
      path: '/v1/moderation/templates/:id',
      summary: 'Read a template',
      description: 'A template with its decision and the status of its sender.',
      useCase: Templates.get,
      refusals: templateNotFound,
    }),
    endpoint({
      operation: 'moderation.approve_template',
      method: 'POST',
      path: '/v1/moderation/templates/:id/approve',
      summary: 'Approve a template',
      description:
        'Records that the SMS operator has approved a template. The account gets the event `template.approved`. An earlier refusal can be replaced.',
      useCase: Templates.approve,
      refusals: { ...templateNotFound, ...ALREADY_DECIDED },
    }),
    endpoint({
      operation: 'moderation.decline_template',
      method: 'POST',
      path: '/v1/moderation/templates/:id/decline',
      summary: 'Decline a template',
      description:
        'Records that the SMS operator has declined a template. The account sees the reason, and can submit the template again.',
      useCase: Templates.decline,
      refusals: { ...templateNotFound, ...ALREADY_DECIDED },
    }),
    ...list({
      operation: 'moderation.list_senders',
      method: 'GET',
      path: '/v1/moderation/senders',
      summary: 'List senders',
      description: 'Senders of all accounts or of one, oldest first.',
      useCase: Senders.list,
      refusals: CURSOR_INVALID,
    }),
    endpoint({
      operation: 'moderation.read_sender',
      method: 'GET',
      path: '/v1/moderation/senders/:id',
      summary: 'Read a sender',
      description: 'A sender with its registration data and its decision.',
      useCase: Senders.get,
      refusals: senderNotFound,
    }),
    endpoint({
      operation: 'moderation.approve_sender',
      method: 'POST',
      path: '/v1/moderation/senders/:id/approve',
      summary: 'Approve a sender',
      description:
        'Records that the SMS operator has registered a sender. The account gets the event `sender.registered`. An earlier refusal can be replaced.',
      useCase: Senders.approve,
      refusals: { ...senderNotFound, ...ALREADY_DECIDED },
    }),
    endpoint({
      operation: 'moderation.decline_sender',
      method: 'POST',
      path: '/v1/moderation/senders/:id/decline',
      summary: 'Decline a sender',
      description:
        'Records that the SMS operator has declined a sender. The account sees the reason, and can submit the sender again.',
      useCase: Senders.decline,
      refusals: { ...senderNotFound, ...ALREADY_DECIDED },
    }),
  ],
}
