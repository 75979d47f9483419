import { randomUUID } from 'node:crypto'
import type { RunResult } from '@hub/command-line/testing'
import { encodeId } from '@hub/domain'
import { messageAccepted } from '@hub/domain/testing'
import {
  acceptedRecord,
  createTopics,
  deadLetterTopic,
  deadLetterRecord,
  EventLog,
  eventRecordedRecord,
  type IncomingRecord,
  layerEventLog,
  logRecord,
  type OutgoingRecord,
  topicCatalogue,
  topicLogEnds,
  topicNames,
} from '@hub/kafka'
import { ANSWERED_WITHIN_MS, freshDatabase, testBrokers, topicPrefix } from '@hub/testkit'
import { Effect } from 'effect'
import { afterAll, assert, beforeAll, describe, it } from 'vitest'
import { runHubctl } from '../testing/run-hubctl.ts'

const PARTITIONS = 3
const prefix = topicPrefix()
const topics = topicNames(prefix)
const connection = { brokers: testBrokers(), clientId: 'dead-letters-test' }
const NUMBER = '+79001234567'

interface Letter {
  readonly id: string
  readonly reason: string | null
  readonly type: string
  readonly source: string | null
  readonly handled: { readonly outcome: string } | null
}
interface List {
  readonly data: ReadonlyArray<Letter>
}

const append = (records: ReadonlyArray<OutgoingRecord>) =>
  Effect.runPromise(
    Effect.flatMap(EventLog, (log) => log.append(records, { deadlineMs: ANSWERED_WITHIN_MS })).pipe(
      Effect.provide(layerEventLog({ connection, partitions: PARTITIONS })),
    ),
  )

/**
 * Appends a record and, like a consumer, its dead letter. Returns the position of the dead letter.
 */
const setAside = async (record: OutgoingRecord, reason: string): Promise<string> => {
  const [source] = await append([record])
  const incoming: IncomingRecord = {
    ...record,
    ...source!,
    traceparent: null,
    appendedAt: Date.now(),
  }
  const [letter] = await append([deadLetterRecord(incoming, reason)])
  return `${letter!.topic}/${letter!.partition}/${letter!.offset}`
}

const sent = (): OutgoingRecord =>
  logRecord(
    topics,
    { type: 'MessageDelivered', messageId: encodeId('msg', randomUUID()), at: Date.now() },
    'a'.repeat(64),
  )
const event = (body: string): OutgoingRecord =>
  eventRecordedRecord(topics, {
    type: 'EventRecorded',
    event: encodeId('evt', randomUUID()),
    account: encodeId('acc', randomUUID()),
    mode: 'test',
    sequence: 1,
    eventType: 'message.sent',
    createdAt: Date.now(),
    body,
  })

const endsOf = (topic: string) => Effect.runPromise(topicLogEnds(connection, topic))
const sum = (numbers: ReadonlyArray<number>): number => numbers.reduce((all, one) => all + one, 0)

let database: Awaited<ReturnType<typeof freshDatabase>>
beforeAll(async () => {
  const catalogue = topicCatalogue({ prefix, partitions: PARTITIONS, replicationFactor: 1 })
  ;[database] = await Promise.all([freshDatabase(), Effect.runPromise(createTopics(connection, catalogue))])
}, 60_000)
afterAll(() => database?.drop())

const run = (...args: ReadonlyArray<string>): Promise<RunResult> =>
  runHubctl(
    {
      HUB_DATABASE_URL: database.url,
      HUB_KAFKA_BROKERS: testBrokers().join(','),
      HUB_TOPIC_PREFIX: prefix,
      HUB_PARTITIONS: String(PARTITIONS),
      HUBCTL_ACTOR: 'a test',
    },
    ['dead-letters', ...args],
  )
const succeed = async <A>(...args: ReadonlyArray<string>): Promise<A> => {
  const ran = await run(...args, '--json')
  assert.strictEqual(ran.code, 0, ran.err)
  return ran.json<A>()
}
const refusal = async (...args: ReadonlyArray<string>): Promise<string> => {
  const ran = await run(...args, '--json')
  assert.notStrictEqual(ran.code, 0, ran.out)
  const { error } = JSON.parse(ran.err.slice(ran.err.indexOf('{'))) as {
    readonly error: { readonly code: string }
  }
  return error.code
}

const listed = async (...more: ReadonlyArray<string>): Promise<ReadonlyArray<Letter>> =>
  (await succeed<List>('list', ...more)).data

describe('hubctl dead-letters', { timeout: 120_000 }, () => {
  it('lists dead letters of one or all topics, newest first or from a position on', async () => {
    const first = await setAside(sent(), 'unknown_schema')
    const second = await setAside(sent(), 'invalid_at')
    const third = await setAside(event('{}'), 'invalid_id')
    const all = await listed('--limit', '3')
    assert.deepStrictEqual(
      all.map(({ id, reason, type }) => [id, reason, type]),
      [
        [third, 'invalid_id', 'EventRecorded'],
        [second, 'invalid_at', 'MessageDelivered'],
        [first, 'unknown_schema', 'MessageDelivered'],
      ],
    )
    const ofLog = await listed('--topic', topics.messages, '--limit', '1')
    assert.deepStrictEqual(
      ofLog.map(({ id }) => id),
      [second],
    )
    // Both records have the same key, so they are in the same partition.
    const onwards = await listed('--from', first)
    assert.deepStrictEqual(
      onwards.map(({ id }) => id),
      [first, second],
    )
    assert.match((await run('list')).out, /LETTER +SET ASIDE +REASON +TYPE +HANDLED\n/u)
  })

  it('lists what nobody has handled, also if all newer dead letters are handled', async () => {
    const open = await setAside(sent(), 'unknown_schema')
    for (let i = 0; i < 3; i++) {
      await succeed('drop', await setAside(sent(), 'unknown_schema'), '--yes')
    }
    assert.deepStrictEqual(
      (await listed('--topic', topics.messages, '--limit', '1')).map(({ id }) => id),
      [open],
    )
  })

  it('shows decoded fields, and no bytes that cannot be decoded', async () => {
    const record = sent()
    const place = await setAside(record, 'invalid_at')
    const known = await succeed<Record<string, unknown>>('show', place)
    assert.deepInclude(known, {
      id: place,
      reason: 'invalid_at',
      key: record.key,
      record: record.id,
      bytes: record.value.length,
      undecodable: null,
    })
    assert.strictEqual((known['content'] as Record<string, unknown>)['type'], 'MessageDelivered')

    const garbage = await setAside(
      { ...record, key: NUMBER, id: NUMBER, type: NUMBER, value: Buffer.from(`not Avro ${NUMBER}`) },
      'not_wire_format',
    )
    for (const more of [['--json'], []]) {
      const { code, out } = await run('show', garbage, ...more)
      assert.strictEqual(code, 0)
      assert.include(out, 'not_wire_format')
      assert.notInclude(out, NUMBER.slice(1))
      assert.notInclude(out, 'Avro')
    }
    assert.notInclude((await run('list')).out, NUMBER.slice(1))
  })

  it('does not decrypt payloads', async () => {
    const ciphertext = Buffer.from('the encrypted words of somebody')
    const record = acceptedRecord(topics, messageAccepted({ at: Date.now(), ciphertext }))
    const place = await setAside(record, 'invalid_price')
    const { content } = await succeed<{ readonly content: Record<string, unknown> }>('show', place)
    assert.deepStrictEqual(content['sealed'], { sealed_bytes: ciphertext.length })
  })

  it('appends a record to its source partition again, once', async () => {
    const record = sent()
    const place = await setAside(record, 'storage_rejected_23514')
    const before = sum(await endsOf(topics.messages))
    assert.strictEqual(await refusal('retry', place), 'confirmation_required')
    assert.strictEqual(sum(await endsOf(topics.messages)), before)

    const { produced } = await succeed<{ readonly produced: string }>('retry', place, '--yes')
    assert.strictEqual(sum(await endsOf(topics.messages)), before + 1)
    const [, partition] = place.split('/')
    assert.isTrue(produced.startsWith(`${topics.messages}/${partition}/`), produced)

    assert.strictEqual(await refusal('retry', place, '--yes'), 'dead_letter_handled')
    assert.strictEqual(await refusal('drop', place, '--yes'), 'dead_letter_handled')
    assert.strictEqual(sum(await endsOf(topics.messages)), before + 1)
    assert.notInclude(
      (await listed()).map(({ id }) => id),
      place,
    )
    const all = await listed('--all')
    assert.strictEqual(all.find(({ id }) => id === place)?.handled?.outcome, 'retried')

    await succeed('retry', place, '--again', '--yes')
    assert.strictEqual(sum(await endsOf(topics.messages)), before + 2)
  })

  it('treats dead letters of one record from two consumers as one', async () => {
    const record = sent()
    const [source] = await append([record])
    const incoming = { ...record, ...source!, traceparent: null, appendedAt: Date.now() }
    const [one, two] = await append([
      deadLetterRecord(incoming, 'invalid_at'),
      deadLetterRecord(incoming, 'malformed'),
    ])
    const idOf = (at: typeof one) => `${at!.topic}/${at!.partition}/${at!.offset}`
    await succeed('drop', idOf(one), '--yes')
    assert.strictEqual(await refusal('retry', idOf(two), '--yes'), 'dead_letter_handled')
  })

  it('refuses positions without a dead letter, and dead letters without a source', async () => {
    const topic = deadLetterTopic(topics.messages)
    assert.strictEqual(await refusal('show', `${topic}/0/999999`), 'dead_letter_not_found')
    assert.strictEqual(await refusal('retry', `${topics.messages}/0/0`, '--yes'), 'topic_not_found')
    assert.strictEqual(await refusal('list', '--topic', 'another'), 'topic_not_found')
    assert.strictEqual(await refusal('show', 'nowhere'), 'usage')
    // A foreign source would allow an append to any topic.
    const [placed] = await append([
      {
        ...sent(),
        topic,
        headers: {
          source_topic: 'elsewhere',
          source_partition: '0',
          source_offset: '1',
          dead_letter_reason: 'x',
        },
      },
    ])
    assert.strictEqual(
      await refusal('retry', `${topic}/${placed!.partition}/${placed!.offset}`, '--yes'),
      'source_unknown',
    )
  })
})
