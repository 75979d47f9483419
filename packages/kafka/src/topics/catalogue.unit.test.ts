import { assert, describe, it } from '@effect/vitest'
import { partitionFor } from '../log/partitioner.ts'
import { deadLetterTopic, topicCatalogue, topicNames } from './catalogue.ts'

const DAY = 86_400_000

describe('topicCatalogue', () => {
  const production = topicCatalogue({ prefix: '', partitions: 48, replicationFactor: 3 })

  it('contains every topic and its dead-letter topic, with one number of partitions', () => {
    const names = Object.values(topicNames())
    assert.sameMembers(
      production.map(({ topic }) => topic),
      [...names, ...names.map(deadLetterTopic)],
    )
    assert.deepStrictEqual([...new Set(production.map(({ partitions }) => partitions))], [48])
  })

  it('has the retention of the architecture', () => {
    const days = (topic: string) =>
      Number(production.find((spec) => spec.topic === topic)!.config['retention.ms']) / DAY
    assert.isAtLeast(days('hub.accepted.otp.v1'), 395)
    assert.isAtLeast(days('hub.messages.v1'), 395)
    assert.strictEqual(days('hub.operator-reports.v1'), 90)
    assert.strictEqual(days('hub.webhooks.v1'), 30)
    assert.strictEqual(days('hub.webhooks.v1.dead-letter'), 90)
  })

  it('requires two of three replicas, and works with a single broker', () => {
    assert.strictEqual(production[0]!.config['min.insync.replicas'], '2')
    const local = topicCatalogue({ prefix: 'x.', partitions: 6, replicationFactor: 1 })
    assert.strictEqual(local[0]!.config['min.insync.replicas'], '1')
    assert.isTrue(local.every(({ topic }) => topic.startsWith('x.hub.')))
  })
})

describe('partitionFor', () => {
  it('selects the same partition as the Java client', () => {
    // murmur2 vectors of Kafka's UtilsTest, for 1,000 partitions.
    const hashes = {
      '21': -973932308,
      foobar: -790332482,
      'a-little-bit-long-string': -985981536,
      'a-little-bit-longer-string': -1486304829,
      lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8: -58897971,
      abc: 479470107,
    }
    for (const [key, hash] of Object.entries(hashes)) {
      assert.strictEqual(partitionFor(key, 1000), (hash & 0x7fffffff) % 1000, key)
    }
  })
})
