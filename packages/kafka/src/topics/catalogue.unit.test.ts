import { assert, describe, it } from '@effect/vitest'
import { LONGEST_LIFETIME_SECONDS } from '@hub/config'
import { partitionFor } from '../log/partitioner.ts'
import { PAYLOAD_KEY_PERIODS, payloadKeyGoneAt } from '../payload-keys/periods.ts'
import { deadLetterTopic, shardedTopics, topicCatalogue, topicNames } from './catalogue.ts'

const DAY = 86_400_000
const HOUR = 3_600_000

describe('topicCatalogue', () => {
  const production = topicCatalogue({ prefix: '', partitions: 48, replicationFactor: 3 })

  it('contains every topic, and the dead-letter topics of the topics that shards read', () => {
    const { database, erasures, otpKeys, outcomes, serviceKeys } = topicNames()
    const names = shardedTopics(topicNames())
    assert.sameMembers(Object.values(topicNames()), [
      ...names,
      database,
      erasures,
      otpKeys,
      outcomes,
      serviceKeys,
    ])
    const partitions = Object.fromEntries(production.map((spec) => [spec.topic, spec.partitions]))
    assert.deepStrictEqual(partitions, {
      ...Object.fromEntries([...names, ...names.map(deadLetterTopic)].map((name) => [name, 48])),
      [otpKeys]: 1,
      [serviceKeys]: 1,
      [erasures]: 1,
      [database]: 1,
      [outcomes]: 48,
    })
  })

  it('lets Kafka delete payload keys on time: whole segments, by the clock of the broker', () => {
    const { otpKeys, serviceKeys } = topicNames()
    const configOf = (name: string) => {
      const config = production.find(({ topic }) => topic === name)?.config ?? {}
      return [
        config['cleanup.policy'],
        Number(config['retention.ms']) / HOUR,
        Number(config['segment.ms']) / HOUR,
        config['file.delete.delay.ms'],
        config['message.timestamp.type'],
      ]
    }
    assert.deepStrictEqual(configOf(otpKeys), ['delete', 1, 1 / 6, '60000', 'LogAppendTime'])
    assert.deepStrictEqual(configOf(serviceKeys), ['delete', 48, 1, '60000', 'LogAppendTime'])
    assert.strictEqual(payloadKeyGoneAt('otp', 0), 76 * 60_000)
    assert.strictEqual(payloadKeyGoneAt('service', 0), 49 * HOUR + 6 * 60_000)
  })

  it('keeps the last erasure of each recipient, and the database of the hub, for ever', () => {
    const { database, erasures } = topicNames()
    for (const name of [database, erasures]) {
      const config = production.find(({ topic }) => topic === name)?.config
      assert.deepInclude(config, { 'cleanup.policy': 'compact', 'retention.ms': '-1' })
    }
  })

  // Source: docs/security.md, Retention: analytics detail is kept for 13 months. The calendar says
  // how many days that is.
  it('keeps what happened for 13 months, counted from any day, and for no day more than necessary', () => {
    const { acceptedOtp, acceptedService, messages } = topicNames()
    let longest = 0
    for (let day = Date.UTC(2026, 0, 1); day < Date.UTC(2034, 0, 1); day += DAY) {
      const from = new Date(day)
      const lastOfMonth = new Date(Date.UTC(from.getUTCFullYear(), from.getUTCMonth() + 14, 0)).getUTCDate()
      const to = Date.UTC(
        from.getUTCFullYear(),
        from.getUTCMonth() + 13,
        Math.min(from.getUTCDate(), lastOfMonth),
      )
      longest = Math.max(longest, (to - day) / DAY)
    }
    for (const topic of [acceptedOtp, acceptedService, messages]) {
      const config = production.find((spec) => spec.topic === topic)?.config
      assert.strictEqual(Number(config?.['retention.ms']) / DAY, longest)
    }
  })

  it('keeps the last outcome of each message for as long as the log', () => {
    const configOf = (topic: string) => production.find((spec) => spec.topic === topic)?.config
    assert.deepStrictEqual(configOf(topicNames().outcomes), {
      ...configOf(topicNames().messages),
      'cleanup.policy': 'compact,delete',
    })
  })

  it('keeps a payload key for the lifetime of the last message under it', () => {
    for (const messageClass of ['otp', 'service'] as const) {
      const { retentionMs, usedAtMostMs } = PAYLOAD_KEY_PERIODS[messageClass]
      assert.isAtLeast(retentionMs - usedAtMostMs, LONGEST_LIFETIME_SECONDS[messageClass] * 1000)
    }
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
