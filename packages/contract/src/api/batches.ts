/** Operations of batches. Source: docs/contract/batches.md. */
import { Batch } from '../schemas/batches.ts'
import { get, idParam, resource } from './operation.ts'

export const BatchesGroup = resource(
  'batches',
  'Batches',
  'What was sent together.',
  get('read', '/v1/batches/:id', {
    summary: 'Read a batch',
    description: 'How many of its elements came to what, and whether all of its messages are final.',
    answer: 'The batch.',
    codes: ['not_found'],
    params: idParam('the batch'),
    success: Batch,
  }),
)
