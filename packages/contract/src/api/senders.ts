/** Operations of senders. Source: specification, Endpoints. */
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from 'effect/http-api'
import { LIST_LIMITS } from '../limits.ts'
import { Sender, SenderCreate, SenderList } from '../schemas/senders.ts'
import {
  ANY_POST,
  ANYWHERE,
  ApiKey,
  failures,
  idempotencyHeaders,
  idParam,
  limitParam,
  LIST_CODES,
  operation,
  READ_CODES,
  startingAfterParam,
} from './operation.ts'

const CREATE_SENDER_CODES = [...ANYWHERE, ...ANY_POST, 'duplicate_rejected'] as const

const createSender = HttpApiEndpoint.post('create', '/v1/senders', {
  headers: idempotencyHeaders,
  payload: SenderCreate,
  success: Sender.pipe(HttpApiSchema.status(201)),
  error: failures(CREATE_SENDER_CODES),
}).annotateMerge(
  operation({
    summary: 'Create a sender',
    description:
      'The sender is registered with the operator; `sender.registered` or `sender.declined` tells. In test mode it is registered ' +
      'at once.',
    answer: 'The sender.',
    codes: CREATE_SENDER_CODES,
  }),
)

const listSenders = HttpApiEndpoint.get('list', '/v1/senders', {
  query: { limit: limitParam(LIST_LIMITS), starting_after: startingAfterParam },
  success: SenderList,
  error: failures(LIST_CODES),
}).annotateMerge(
  operation({
    summary: 'List senders',
    description: 'All senders of the account and mode, newest first.',
    answer: 'A page of senders.',
    codes: LIST_CODES,
  }),
)

const readSender = HttpApiEndpoint.get('read', '/v1/senders/:id', {
  params: idParam('the sender'),
  success: Sender,
  error: failures(READ_CODES),
}).annotateMerge(
  operation({
    summary: 'Read a sender',
    description: 'The sender, with what became of its registration.',
    answer: 'The sender.',
    codes: READ_CODES,
  }),
)

export const SendersGroup = HttpApiGroup.make('senders')
  .add(createSender, listSenders, readSender)
  .middleware(ApiKey)
  .annotateMerge(OpenApi.annotations({ title: 'Senders', description: 'Names that recipients see.' }))
