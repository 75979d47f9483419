/** Operations of senders. Source: docs/contract/senders.md. */
import { SENDER_STATUSES } from '@hub/domain'
import { Schema } from 'effect'
import { HttpApiSchema } from 'effect/http-api'
import { LIST_LIMITS } from '../limits.ts'
import { DeletedSender, Sender, SenderCreate, SenderList } from '../schemas/senders.ts'
import { get, idParam, pageQuery, post, remove, resource } from './operation.ts'

export const SendersGroup = resource(
  'senders',
  'Senders',
  'Names that recipients see.',
  post('create', '/v1/senders', {
    scope: 'manage',
    summary: 'Create a sender',
    description:
      'The sender is registered with the operator; `sender.registered` or `sender.declined` tells. In test mode it is registered ' +
      'at once. The name of a declined sender can be used again: the new sender has a new id and takes its place.',
    answer: 'The sender.',
    codes: ['duplicate_rejected'],
    payload: SenderCreate,
    success: Sender.pipe(HttpApiSchema.status(201)),
  }),
  get('list', '/v1/senders', {
    summary: 'List senders',
    description:
      'The senders of the account and mode, newest first. A declined one whose name was submitted again is listed with ' +
      '`status=declined` only.',
    answer: 'A page of senders.',
    codes: ['invalid_parameter', 'not_found'],
    query: {
      status: Schema.optionalKey(
        Schema.Literals(SENDER_STATUSES).annotate({
          description: 'Only senders with this status.',
          examples: ['declined'],
        }),
      ),
      ...pageQuery(LIST_LIMITS),
    },
    success: SenderList,
  }),
  get('read', '/v1/senders/:id', {
    summary: 'Read a sender',
    description: 'The sender, with what became of its registration.',
    answer: 'The sender.',
    codes: ['not_found'],
    params: idParam('the sender'),
    success: Sender,
  }),
  remove('delete', '/v1/senders/:id', {
    summary: 'Delete a sender',
    description:
      'Removes a sender that is pending or declined and that no template names. While one does, the error names the templates to delete first: each of them can be deleted. A second deletion is `not_found`.',
    answer: 'What was deleted.',
    codes: ['not_found', 'deletion_not_allowed'],
    params: idParam('the sender'),
    success: DeletedSender,
  }),
)
