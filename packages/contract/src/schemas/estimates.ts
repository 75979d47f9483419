/** Estimates of parts and price. Source: docs/contract/estimates.md. */
import { Schema } from 'effect'
import { ERRORS } from '../errors.ts'
import { ErrorDetail, Money } from './common.ts'
import { atLeast, characters, constant, DOCS, encoding, parts, REQUEST_ID, resultFields } from './fields.ts'
import { SendRequest } from './messages.ts'

/** The second form of the body of an estimate. `decodeEstimate` checks both forms. */
export const EstimateBatchRequest = Schema.Struct({
  messages: Schema.Array(SendRequest).check(Schema.isMinLength(1)).annotate({
    description: 'From 1 to `limits.batch_max` of the account. A `client_ref` is not needed.',
  }),
}).annotate({
  identifier: 'EstimateBatchRequest',
  title: 'Batch to estimate',
  description: 'Messages to estimate together.',
  examples: [
    {
      messages: [
        {
          to: '+79000000001',
          class: 'service',
          template: 'order_ready',
          variables: { order: '1001' },
        },
        { to: '+79000000002', class: 'service', template: 'order_ready' },
      ],
    },
  ],
})

/** Body of `POST /v1/messages/estimate`. */
export const EstimateRequest = Schema.Union([SendRequest, EstimateBatchRequest]).annotate({
  identifier: 'EstimateRequest',
  title: 'Estimate request',
  description: 'The body of a send, or `messages` with several of them.',
})

const estimateFields = {
  encoding,
  characters,
  parts,
  price: Money.annotate({
    description: 'Parts at the price of the class, in both modes. In test mode nothing is charged for it.',
  }),
}

/** Response of an estimate of one message. */
export const Estimate = Schema.Struct({ object: constant('estimate'), ...estimateFields }).annotate({
  identifier: 'Estimate',
  title: 'Estimate',
  description: 'What a message would take.',
  examples: [
    {
      object: 'estimate',
      encoding: 'ucs2',
      characters: 16,
      parts: 1,
      price: { amount: '2.00', currency: 'RUB' },
    },
  ],
})

export const EstimateResultGood = Schema.Struct({ ...resultFields, ...estimateFields }).annotate({
  identifier: 'EstimateResultGood',
  title: 'Estimated element',
  description: 'What this element would take.',
})

export const EstimateResultRejected = Schema.Struct({ ...resultFields, error: ErrorDetail }).annotate({
  identifier: 'EstimateResultRejected',
  title: 'Element without an estimate',
  description: 'Why this element would be refused.',
})

/** Response of an estimate of several messages. */
export const EstimateBatch = Schema.Struct({
  object: constant('estimate'),
  data: Schema.Array(Schema.Union([EstimateResultGood, EstimateResultRejected], { mode: 'oneOf' })).annotate({
    description:
      'One for each element, in the order of the request; with an `error` where there is no estimate.',
  }),
  totals: Schema.Struct({
    parts: atLeast(0).annotate({ description: 'Parts of all elements without an error.' }),
    price: Money.annotate({ description: 'Price of all elements without an error.' }),
  }).annotate({ description: 'The sum of the elements without an error.' }),
}).annotate({
  identifier: 'EstimateBatch',
  title: 'Estimate of several messages',
  description: 'What several messages would take.',
  examples: [
    {
      object: 'estimate',
      data: [
        {
          index: 0,
          encoding: 'ucs2',
          characters: 16,
          parts: 1,
          price: { amount: '2.00', currency: 'RUB' },
        },
        {
          index: 1,
          error: {
            code: 'template_variable_missing',
            message: ERRORS.template_variable_missing.message,
            param: 'messages[1].variables.order',
            request_id: REQUEST_ID,
            doc_url: `${DOCS}#template_variable_missing`,
          },
        },
      ],
      totals: { parts: 1, price: { amount: '2.00', currency: 'RUB' } },
    },
  ],
})
