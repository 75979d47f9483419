/** Batches: requests, results and counts. Source: docs/contract/batches.md. */
import { Schema } from 'effect'
import { ERRORS } from '../errors.ts'
import { ErrorDetail, moment, Timestamp } from './common.ts'
import {
  anyId,
  AT,
  atLeast,
  BATCH_ID,
  ClientRefToSend,
  constant,
  DOCS,
  EARLIER_MESSAGE_ID,
  id,
  REQUEST_ID,
  resultFields,
} from './fields.ts'
import { acceptedExample } from './message-fields.ts'
import { AcceptedMessage, SendRequest } from './messages.ts'

/** An element of a batch: a send request that has a `client_ref`. */
export const BatchMessage = Schema.Struct({
  ...SendRequest.fields,
  client_ref: ClientRefToSend.annotate({
    description:
      'Your own record identifier, required here. An element whose `client_ref` was used before is a `duplicate`.',
    examples: ['order-1001-code'],
  }),
}).annotate({
  identifier: 'BatchMessage',
  title: 'Message of a batch',
  description: 'A send request that has a `client_ref`.',
})

/** Body of `POST /v1/messages/batch`. `decodeBatch` checks it. */
export const BatchRequest = Schema.Struct({
  messages: Schema.Array(BatchMessage).check(Schema.isMinLength(1)).annotate({
    description:
      'From 1 to `limits.batch_max` of the account, which is 1000 where nothing else was agreed. `GET /v1/account` tells it.',
  }),
}).annotate({
  identifier: 'BatchRequest',
  title: 'Batch to send',
  description: 'Messages to send together. Each gets a result of its own.',
  examples: [
    {
      messages: [
        {
          to: '+79000000001',
          class: 'service',
          template: 'order_ready',
          variables: { order: '1001' },
          client_ref: 'order-1001',
        },
        {
          to: '+79000000002',
          class: 'service',
          template: 'order_ready',
          variables: { order: '1002' },
          client_ref: 'order-1002',
        },
      ],
    },
  ],
})

export const BatchCounts = Schema.Struct({
  total: atLeast(0).annotate({ description: 'Elements of the request.' }),
  accepted: atLeast(0).annotate({
    description: 'Elements that were accepted, whatever became of them since.',
  }),
  duplicate: atLeast(0).annotate({ description: 'Elements whose `client_ref` was used before.' }),
  rejected: atLeast(0).annotate({
    description: 'Elements that were refused at acceptance, and messages whose status is `rejected`.',
  }),
  delivered: atLeast(0).annotate({ description: 'Messages whose status is `delivered`.' }),
  undelivered: atLeast(0).annotate({ description: 'Messages whose status is `undelivered`.' }),
  expired: atLeast(0).annotate({ description: 'Messages whose status is `expired`.' }),
}).annotate({
  identifier: 'BatchCounts',
  title: 'Counts of a batch',
  description: 'How many elements of a batch came to what.',
})
export type BatchCounts = typeof BatchCounts.Type

const closed = Schema.Boolean.annotate({
  description: 'True once every accepted message is final. `batch.completed` tells it, once.',
})

const batchExample = {
  object: 'batch',
  id: BATCH_ID,
  created_at: AT,
  closed: false,
  counts: { total: 3, accepted: 1, duplicate: 1, rejected: 1, delivered: 0, undelivered: 0, expired: 0 },
} as const

/** Response of `GET /v1/batches/{id}`, and the object of `batch.completed`. */
export const Batch = Schema.Struct({
  object: constant('batch'),
  id: id('bat_', 'the batch'),
  created_at: moment('When the batch was accepted.'),
  closed,
  counts: BatchCounts,
}).annotate({
  identifier: 'Batch',
  title: 'Batch',
  description: 'What became of the messages that were sent together.',
  examples: [{ ...batchExample, closed: true, counts: { ...batchExample.counts, delivered: 1 } }],
})

export const BatchResultAccepted = Schema.Struct({
  ...resultFields,
  client_ref: Schema.String.annotate({ description: 'Your own record identifier, as you sent it.' }),
  result: constant('accepted'),
  message: AcceptedMessage,
}).annotate({
  identifier: 'BatchResultAccepted',
  title: 'Accepted element',
  description: 'This element is accepted and lives on as an ordinary message.',
})

export const BatchResultDuplicate = Schema.Struct({
  ...resultFields,
  client_ref: Schema.String.annotate({ description: 'Your own record identifier, as you sent it.' }),
  result: constant('duplicate'),
  message_id: id('msg_', 'the earlier message with this `client_ref`'),
  message_url: Schema.String.annotate({
    description: 'Path of the earlier message.',
    format: 'uri-reference',
    examples: [`/v1/messages/${EARLIER_MESSAGE_ID}`],
  }),
}).annotate({
  identifier: 'BatchResultDuplicate',
  title: 'Duplicate element',
  description: 'The `client_ref` of this element was used before; nothing was created.',
})

export const BatchResultRejected = Schema.Struct({
  ...resultFields,
  client_ref: Schema.NullOr(Schema.String).annotate({
    description: 'Your own record identifier; `null` where the element has none that is in the right form.',
  }),
  result: constant('rejected'),
  error: ErrorDetail,
}).annotate({
  identifier: 'BatchResultRejected',
  title: 'Rejected element',
  description: 'This element was refused; the others were not touched by it.',
})

/** The result of an element, by `result`. */
export const BatchResult = Schema.Union([BatchResultAccepted, BatchResultDuplicate, BatchResultRejected], {
  mode: 'oneOf',
}).annotate({
  identifier: 'BatchResult',
  title: 'Result of an element',
  description: 'What became of an element; `result` says which of these it is.',
})
export type BatchResult = typeof BatchResult.Type

/** Response of `POST /v1/messages/batch`. */
export const AcceptedBatch = Schema.Struct({
  object: constant('batch'),
  id: Schema.NullOr(anyId('bat_')).annotate({
    description:
      'Identifier of the batch: `bat_` and opaque characters. Where nothing was accepted and something is a duplicate, no batch ' +
      'is created: then it is the earlier batch that all duplicates share, else `null`.',
  }),
  created_at: Schema.NullOr(Timestamp).annotate({
    description: 'When the batch of `id` was accepted; `null` without one.',
  }),
  closed,
  counts: BatchCounts,
  results: Schema.Array(BatchResult).annotate({
    description: 'One for each element, in the order of the request.',
  }),
}).annotate({
  identifier: 'AcceptedBatch',
  title: 'Accepted batch',
  description: 'What became of each element at acceptance.',
  examples: [
    {
      ...batchExample,
      results: [
        {
          index: 0,
          client_ref: 'order-1001',
          result: 'accepted',
          message: {
            ...acceptedExample,
            class: 'service',
            client_ref: 'order-1001',
            batch: BATCH_ID,
            template: 'order_ready',
          },
        },
        {
          index: 1,
          client_ref: 'order-1000',
          result: 'duplicate',
          message_id: EARLIER_MESSAGE_ID,
          message_url: `/v1/messages/${EARLIER_MESSAGE_ID}`,
        },
        {
          index: 2,
          client_ref: 'order-1002',
          result: 'rejected',
          error: {
            code: 'recipient_invalid',
            message: ERRORS.recipient_invalid.message,
            param: 'messages[2].to',
            request_id: REQUEST_ID,
            doc_url: `${DOCS}#recipient_invalid`,
          },
        },
      ],
    },
  ],
})
export type AcceptedBatch = typeof AcceptedBatch.Type
