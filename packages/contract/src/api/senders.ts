/** Operations of senders. Source: specification, Endpoints. */
import { HttpApiSchema } from 'effect/http-api'
import { LIST_LIMITS } from '../limits.ts'
import { Sender, SenderCreate, SenderList } from '../schemas/senders.ts'
import { get, idParam, pageQuery, post, resource } from './operation.ts'

const createSender = post('create', '/v1/senders', {
  summary: 'Create a sender',
  description:
    'The sender is registered with the operator; `sender.registered` or `sender.declined` tells. In test mode it is registered ' +
    'at once.',
  answer: 'The sender.',
  codes: ['duplicate_rejected'],
  payload: SenderCreate,
  success: Sender.pipe(HttpApiSchema.status(201)),
})

const listSenders = get('list', '/v1/senders', {
  summary: 'List senders',
  description: 'All senders of the account and mode, newest first.',
  answer: 'A page of senders.',
  codes: ['invalid_parameter', 'not_found'],
  query: pageQuery(LIST_LIMITS),
  success: SenderList,
})

const readSender = get('read', '/v1/senders/:id', {
  summary: 'Read a sender',
  description: 'The sender, with what became of its registration.',
  answer: 'The sender.',
  codes: ['not_found'],
  params: idParam('the sender'),
  success: Sender,
})

export const SendersGroup = resource(
  'senders',
  'Senders',
  'Names that recipients see.',
  createSender,
  listSenders,
  readSender,
)
