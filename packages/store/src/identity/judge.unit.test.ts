/** Which processes belong to a hub, in every order of a rotation of the master key. */
import { assert, describe, it } from 'vitest'
import { kafkaToWrite, type KnownIdentity, masterKeysToWrite, mismatches, type OwnIdentity } from './judge.ts'

const KAFKA = { cluster: 'MkU3OEVBNTcwNTJENDM2Qk', prefix: '', partitions: 48 }
const CONNECTED = { ...KAFKA, database: '7571234567890123456/16384' }
const empty: KnownIdentity = {
  masterKeys: new Map(),
  numberHashSecret: null,
  kafka: null,
  database: CONNECTED.database,
  processes: [],
}
const hub: KnownIdentity = {
  masterKeys: new Map([['old', true]]),
  numberHashSecret: 'hash',
  kafka: KAFKA,
  database: CONNECTED.database,
  processes: [],
}
const own: OwnIdentity = { masterKeys: ['old'], numberHashSecret: 'hash', partitions: 48, kafka: CONNECTED }
const variables = (process: Partial<OwnIdentity>, known: Partial<KnownIdentity> = {}) =>
  mismatches({ ...own, ...process }, { ...hub, ...known }).map(({ variable }) => variable)

describe('a process', () => {
  it('of the hub has no mismatch, and neither has the first process of a new hub', () => {
    assert.deepStrictEqual(variables({}), [])
    assert.deepStrictEqual(mismatches(own, empty), [])
    assert.deepStrictEqual(variables({ masterKeys: null, numberHashSecret: null, kafka: null }), [])
  })

  it('with one other value is told the setting', () => {
    assert.deepStrictEqual(variables({ masterKeys: ['other'] }), ['HUB_MASTER_KEY'])
    assert.deepStrictEqual(variables({ numberHashSecret: 'other' }), ['HUB_NUMBER_HASH_SECRET'])
    assert.deepStrictEqual(variables({ kafka: { ...CONNECTED, cluster: 'other' } }), ['HUB_KAFKA_BROKERS'])
    assert.deepStrictEqual(variables({ kafka: { ...CONNECTED, prefix: 'other.' } }), ['HUB_TOPIC_PREFIX'])
  })

  it('with another database is told so, also if the database is empty', () => {
    assert.deepStrictEqual(variables({}, { database: '7571234567890123456/16999' }), ['HUB_DATABASE_URL'])
    assert.deepStrictEqual(
      mismatches(own, { ...empty, database: '7579999999999999999/16384' }).map(({ variable }) => variable),
      ['HUB_DATABASE_URL'],
    )
    assert.deepStrictEqual(variables({ kafka: { ...CONNECTED, database: null } }), [], 'of a new hub')
    assert.deepStrictEqual(variables({}, { database: null }), [], 'which its role may not read')
  })

  it('with another number of partitions is told so, also while Kafka is away', () => {
    assert.deepStrictEqual(variables({ partitions: 24 }), ['HUB_PARTITIONS'])
    assert.deepStrictEqual(variables({ partitions: 96, kafka: null }), ['HUB_PARTITIONS'])
    const [found] = mismatches({ ...own, partitions: 24 }, hub)
    assert.include(found?.sentence, 'is 24, and the topics of this hub have 48 partitions. Set it to 48')
  })

  it('of a hub of an earlier version, which did not record its partitions, is compared with the topics', () => {
    const before = { kafka: { ...KAFKA, partitions: null } }
    assert.deepStrictEqual(variables({ partitions: 24 }, before), ['HUB_PARTITIONS'])
    assert.deepStrictEqual(variables({ partitions: 24, kafka: null }, before), [])
    assert.deepStrictEqual(variables({}, before), [])
    assert.deepStrictEqual(kafkaToWrite(CONNECTED, before.kafka), CONNECTED)
    assert.isNull(kafkaToWrite({ ...CONNECTED, partitions: null }, before.kafka))
  })

  it('continues when someone adds partitions to the topics: records go where they went before', () => {
    assert.deepStrictEqual(variables({ kafka: { ...CONNECTED, partitions: 96 } }), [])
    assert.isNull(kafkaToWrite({ ...CONNECTED, partitions: 96 }, KAFKA))
  })

  it('with another Kafka cluster is told that only, whatever database that cluster names', () => {
    assert.deepStrictEqual(variables({ kafka: { ...CONNECTED, cluster: 'other', database: 'other/1' } }), [
      'HUB_KAFKA_BROKERS',
    ])
  })

  it('of which several values differ has the database of another hub', () => {
    assert.deepStrictEqual(variables({ masterKeys: ['other'], numberHashSecret: 'other' }), [
      'HUB_DATABASE_URL',
    ])
    const [found] = mismatches(
      { masterKeys: ['a'], numberHashSecret: 'b', partitions: 48, kafka: CONNECTED },
      hub,
    )
    assert.include(found?.sentence, 'HUB_MASTER_KEY, HUB_NUMBER_HASH_SECRET')
  })
})

// The steps are those of docs/operating.md, Changing secrets.
describe('a rotation of the master key', () => {
  const announced = new Map([
    ['old', true],
    ['new', false],
  ])
  const both = new Map([
    ['old', true],
    ['new', true],
  ])
  const running = (...masterKeys: ReadonlyArray<ReadonlyArray<string>>) => ({
    processes: masterKeys.map((keys) => ({ app: 'dispatcher', masterKeys: keys })),
  })

  it('works in the documented order', () => {
    // 1. The new key becomes a previous key, one process after the other.
    assert.deepStrictEqual(variables({ masterKeys: ['old', 'new'] }, running(['old'])), [])
    assert.deepStrictEqual([...masterKeysToWrite(['old', 'new'], hub.masterKeys)], [['new', false]])
    // 2. The two are exchanged, one process after the other.
    const first = { masterKeys: announced, ...running(['old', 'new'], ['old', 'new']) }
    assert.deepStrictEqual(variables({ masterKeys: ['new', 'old'] }, first), [])
    assert.deepStrictEqual([...masterKeysToWrite(['new', 'old'], announced)], [['new', true]])
    const mixed = { masterKeys: both, ...running(['new', 'old'], ['old', 'new']) }
    assert.deepStrictEqual(variables({ masterKeys: ['new', 'old'] }, mixed), [])
    assert.deepStrictEqual(variables({ masterKeys: ['old', 'new'] }, mixed), [])
    // 3. The old key is removed when nothing needs it.
    assert.deepStrictEqual(variables({ masterKeys: ['new'] }, { masterKeys: new Map([['new', true]]) }), [])
  })

  it('works into a transit engine and back, and names the setting of a wrong order', () => {
    const transit = 'transit:a'
    const inEngine = (inUse: boolean) => ({
      masterKeys: new Map([
        ['old', true],
        [transit, inUse],
      ]),
    })
    assert.deepStrictEqual(variables({ masterKeys: [transit, 'old'] }), ['HUB_TRANSIT_KEY_NAME'])
    assert.deepStrictEqual(variables({ masterKeys: ['old', transit] }), [])
    assert.deepStrictEqual(
      variables({ masterKeys: [transit, 'old'] }, { ...inEngine(false), ...running(['old']) }),
      ['HUB_KEY_PROVIDER'],
    )
    assert.deepStrictEqual(
      variables({ masterKeys: [transit, 'old'] }, { ...inEngine(false), ...running(['old', transit]) }),
      [],
    )
    assert.deepStrictEqual(variables({ masterKeys: [transit] }, inEngine(true)), ['HUB_PREVIOUS_MASTER_KEYS'])
    assert.deepStrictEqual(variables({ masterKeys: ['old'] }, inEngine(true)), ['HUB_TRANSIT_URL'])
  })

  it('is refused when a process uses a key that was not announced', () => {
    assert.deepStrictEqual(variables({ masterKeys: ['new', 'old'] }), ['HUB_MASTER_KEY'])
    assert.deepStrictEqual(variables({ masterKeys: ['new'] }), ['HUB_MASTER_KEY'])
  })

  it('is refused when a process uses a key that another running process does not have yet', () => {
    const known = { masterKeys: announced, ...running(['old', 'new'], ['old']) }
    const [found] = mismatches({ ...own, masterKeys: ['new', 'old'] }, { ...hub, ...known })
    assert.strictEqual(found?.variable, 'HUB_MASTER_KEY')
    assert.include(found?.sentence, '1 running processes do not have (dispatcher)')
  })

  it('is refused when a process lacks a key in use: the new one, or the old one too early', () => {
    assert.deepStrictEqual(variables({ masterKeys: ['old'] }, { masterKeys: both }), [
      'HUB_PREVIOUS_MASTER_KEYS',
    ])
    assert.deepStrictEqual(variables({ masterKeys: ['new'] }, { masterKeys: both }), [
      'HUB_PREVIOUS_MASTER_KEYS',
    ])
    const tooEarly = { masterKeys: announced, ...running(['old', 'new']) }
    assert.deepStrictEqual(variables({ masterKeys: ['new'] }, tooEarly), ['HUB_PREVIOUS_MASTER_KEYS'])
  })

  it('is over for processes with the old key', () => {
    assert.deepStrictEqual(variables({ masterKeys: ['old'] }, { masterKeys: new Map([['new', true]]) }), [
      'HUB_MASTER_KEY',
    ])
  })
})
