/** Compares docs/asyncapi.json with the published schema of AsyncAPI 3, the topics and the types of events. */
import { readFileSync } from 'node:fs'
import specs from '@asyncapi/specs'
import type { JsonObject } from '@hub/contract'
import { EVENT_TYPES } from '@hub/domain'
import { RECORD_NAMES, topicCatalogue } from '@hub/kafka'
import { Ajv } from 'ajv'
import { assert, describe, it } from 'vitest'
import { asyncApi, asyncApiText } from './describe.ts'

/** A document that a test changes. */
// oxlint-disable-next-line typescript/no-explicit-any
type Changeable = Record<string, any>

// The schema contains the JSON Schema that it is written in, and refers to formats that Ajv does not have.
const conforms = new Ajv({
  strict: false,
  validateFormats: false,
  meta: false,
  validateSchema: false,
}).compile(specs.schemas['3.0.0'] as unknown as object)
const document = asyncApi() as Changeable

describe('docs/asyncapi.json', () => {
  it('is what the topics and webhooks give; otherwise run npm run generate', () => {
    assert.strictEqual(
      readFileSync(new URL('../../docs/asyncapi.json', import.meta.url), 'utf8'),
      asyncApiText(),
    )
  })

  it('conforms to the schema of AsyncAPI 3', () => {
    assert.isTrue(conforms(document), JSON.stringify(conforms.errors?.slice(0, 5)))
  })

  it.each<[string, (changed: Changeable) => unknown]>([
    ['an operation without a channel', (changed) => delete changed['operations'].webhooks.channel],
    ['a channel with an unknown field', (changed) => (changed['channels'].webhooks.topic = 'x')],
    [
      'an Avro record without a name',
      (changed) => delete changed['components'].messages.MessageSent.payload.schema.name,
    ],
    [
      'an unknown cleanup policy',
      (changed) =>
        (changed['channels']['hub.messages.v1'].bindings.kafka.topicConfiguration['cleanup.policy'] = ['x']),
    ],
  ])('would not conform with %s', (_, change) => {
    const changed = structuredClone(document)
    change(changed)
    assert.isFalse(conforms(changed))
  })

  it('describes every topic and record, and an event of each type', () => {
    const topics = topicCatalogue({ prefix: '', partitions: 1, replicationFactor: 1 })
    assert.sameMembers(Object.keys(document['channels']), [...topics.map(({ topic }) => topic), 'webhooks'])
    const { messages, schemas } = document['components']
    assert.sameMembers(Object.keys(messages), [...RECORD_NAMES, 'EventBatch'])
    const events = (
      messages.EventBatch.examples as ReadonlyArray<{ payload: ReadonlyArray<JsonObject> }>
    ).map(({ payload }) => payload[0]?.['type'])
    assert.deepStrictEqual(events, [...EVENT_TYPES])
    assert.lengthOf(schemas.KnownEvent.oneOf, EVENT_TYPES.length)
  })

  it('contains no dangling reference', () => {
    const text = JSON.stringify(document)
    for (const [, path = ''] of text.matchAll(/"\$ref":"#\/([^"]+)"/gu)) {
      let found: unknown = document
      for (const step of path.split('/')) found = (found as Changeable | undefined)?.[step]
      assert.isObject(found, path)
    }
  })
})
