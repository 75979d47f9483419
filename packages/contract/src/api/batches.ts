/** Operations of batches. Source: specification, Endpoints. */
import { HttpApiEndpoint, HttpApiGroup, OpenApi } from 'effect/http-api'
import { Batch } from '../schemas/batches.ts'
import { ApiKey, failures, idParam, operation, READ_CODES } from './operation.ts'

const readBatch = HttpApiEndpoint.get('read', '/v1/batches/:id', {
  params: idParam('the batch'),
  success: Batch,
  error: failures(READ_CODES),
}).annotateMerge(
  operation({
    summary: 'Read a batch',
    description: 'How many of its elements came to what, and whether all of its messages are final.',
    answer: 'The batch.',
    codes: READ_CODES,
  }),
)

export const BatchesGroup = HttpApiGroup.make('batches')
  .add(readBatch)
  .middleware(ApiKey)
  .annotateMerge(OpenApi.annotations({ title: 'Batches', description: 'What was sent together.' }))
