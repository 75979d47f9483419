import { assert, describe, it } from '@effect/vitest'
import { AcceptedBatch, type ApiError, apiError, type BatchElement, type ErrorObject } from '@hub/contract'
import { Result, Schema } from 'effect'
import type { SendOutcome } from '../accept/send.ts'
import type { MessageView } from '../messages/message.ts'
import { otpSend } from '../testing/doubles.ts'
import {
  areFinal,
  batchBody,
  failureOf,
  isRepeatable,
  pair,
  sharedBatch,
  countOutcomes,
} from './batch-response.ts'

const BATCH = 'bat_06e9c2v5k4r8x1m7n3p0q2s6tw'

const view = (over: Partial<MessageView> = {}): MessageView => ({
  id: 'msg_06e9c2v5k4r8x1m7n3p0q2s6tw',
  mode: 'live',
  class: 'service',
  toMasked: '+7900***4567',
  status: 'accepted',
  reason: null,
  createdAt: 0,
  updatedAt: 0,
  clientRef: 'a',
  batch: BATCH,
  template: 'order_ready',
  sender: 'HUB',
  attempts: 0,
  parts: 1,
  price: { amount: '2.00', currency: 'RUB' },
  variables: ['order'],
  history: [{ status: 'accepted', reason: null, at: 0 }],
  ...over,
})

const accepted: SendOutcome = Result.succeed({ view: view(), duplicate: false })
const duplicate = (over: Partial<MessageView> = {}): SendOutcome =>
  Result.succeed({ view: view(over), duplicate: true })
const refused = (code: ApiError['code']): SendOutcome => Result.fail(apiError(code))

const element = (index: number, send: BatchElement['send']): BatchElement => ({
  index,
  path: `messages[${index}]`,
  clientRef: `ref-${index}`,
  send,
})
const good = (index: number) => element(index, Result.succeed(otpSend({ clientRef: `ref-${index}` })))
const bad = (index: number) => element(index, Result.fail(apiError('recipient_invalid')))

const counts = (...outcomes: ReadonlyArray<SendOutcome>) =>
  countOutcomes(
    pair(
      outcomes.map((_, i) => good(i)),
      outcomes,
    ),
  )
const errorObject = (error: ApiError): ErrorObject => ({
  code: error.code,
  message: error.message,
  request_id: 'req_06e9c2v5k4r8x1m7n3p0q2s6tw',
  doc_url: 'https://hub.example.com/docs/errors',
})

describe('the response to a batch', () => {
  // Rules: BAT-3, BAT-11
  it('has the form of the contract, in the order of the request', () => {
    const results = pair(
      [good(0), bad(1), good(2), good(3)],
      [accepted, duplicate(), refused('spend_limit_reached')],
    )
    const body = batchBody(
      { id: BATCH, createdAt: 0, closed: false },
      results,
      countOutcomes(results),
      errorObject,
    )
    Schema.decodeUnknownSync(AcceptedBatch)(body)
    assert.deepStrictEqual(
      body.results.map(({ client_ref, index, result }) => [index, client_ref, result]),
      [
        [0, 'ref-0', 'accepted'],
        [1, 'ref-1', 'rejected'],
        [2, 'ref-2', 'duplicate'],
        [3, 'ref-3', 'rejected'],
      ],
    )
    assert.deepInclude(body.counts as object, { total: 4, accepted: 1, duplicate: 1, rejected: 2 })
  })

  // Rules: IDEM-7
  it('is not stored if a repeat could accept more', () => {
    assert.isFalse(isRepeatable(counts(accepted, refused('spend_limit_reached'))))
    assert.isTrue(isRepeatable(counts(accepted, refused('provider_unavailable'))))
    assert.isTrue(isRepeatable(counts(accepted, refused('internal_error'))))
    // Also without a window, when the hub could not check the windows.
    assert.isFalse(isRepeatable(counts(accepted, refused('recipient_flood_limited'))))
  })

  // Rules: AVL-2, AVL-3
  it('is an error if nothing was accepted because of the hub', () => {
    assert.isNull(failureOf(counts(accepted, refused('internal_error'))))
    assert.isNull(failureOf(counts(duplicate(), refused('internal_error'))))
    // Codes that were not queued are normal results.
    assert.isNull(failureOf(counts(refused('provider_unavailable'))))
    assert.strictEqual(
      failureOf(counts(refused('template_not_found'), refused('internal_error')))?.code,
      'internal_error',
    )
    assert.strictEqual(
      failureOf(counts(duplicate(), refused('hub_daily_limit_reached')))?.code,
      'hub_daily_limit_reached',
    )
  })

  // Rules: BAT-16
  it('to a repeat names the batch that all duplicates share', () => {
    assert.strictEqual(sharedBatch(counts(duplicate(), duplicate(), refused('template_not_found'))), BATCH)
    assert.isNull(sharedBatch(counts(duplicate(), duplicate({ batch: null }))))
    assert.isNull(sharedBatch(counts(duplicate({ batch: null }))))
  })

  // Rules: BAT-12
  it('to a repeat is closed if no message is open', () => {
    assert.isFalse(areFinal(counts(duplicate({ status: 'delivered' }), duplicate({ status: 'sent' }))))
    assert.isTrue(areFinal(counts(duplicate({ status: 'delivered' }), duplicate({ status: 'expired' }))))
  })
})
