/** Starts two Kafka brokers that replicate each other. The second one can stand still. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ensureJars, findJava, newKafkaId, readSettings, STACK_JARS, startKafka } from '@hub/local-stack'
import { eventually, freePort } from '@hub/testkit'
import kafkajs from 'kafkajs'

export interface TwoBrokers {
  /** The address of the first broker. */
  readonly brokers: ReadonlyArray<string>
  /** Creates a topic with one partition. Its leader is the first broker. Both brokers know it, and are in sync. */
  readonly createTopic: (topic: string) => Promise<void>
  /** Commits an offset of the partition of a topic for a group without members. */
  readonly commit: (groupId: string, topic: string, offset: number) => Promise<void>
  /** Makes the second broker the leader of the partition of a topic. */
  readonly moveLeader: (topic: string) => Promise<void>
  /**
   * The second broker stands still. It stays in sync for Kafka, because the controllers have no majority
   * without it, so no record is on all replicas in sync any more.
   */
  readonly stopSecond: () => void
  readonly continueSecond: () => void
  /** Stops both brokers and removes their data. */
  readonly end: () => Promise<void>
}

/** These limits only end a start or stop that hangs. */
const READY_WITHIN = { everyMs: 100 } as const
const END_WITHIN_MS = 10_000
/** The test runner has already downloaded the files for its own broker. */
const JARS_WITHIN_MS = 60_000
const FIRST = 1
const SECOND = 2

export const startTwoBrokers = async (): Promise<TwoBrokers> => {
  const dir = mkdtempSync(join(process.env['HUB_TEST_DIR'] ?? tmpdir(), 'two-brokers-'))
  const { cacheDir } = readSettings(process.env)
  const java = await findJava(process.env)
  const jars = await ensureJars(
    STACK_JARS,
    cacheDir,
    process.env,
    () => {},
    AbortSignal.timeout(JARS_WITHIN_MS),
  )
  const nodes = await Promise.all(
    [FIRST, SECOND].map(async (id) => ({ id, port: await freePort(), controllerPort: await freePort() })),
  )
  const voters = nodes.map(({ controllerPort, id }) => `${id}@127.0.0.1:${controllerPort}`).join(',')
  const clusterId = newKafkaId()
  const running = await Promise.all(
    nodes.map(({ controllerPort, id, port }) =>
      startKafka({
        java,
        jars,
        dir: join(dir, `kafka-${id}`),
        port,
        controllerPort,
        log: join(dir, `kafka-${id}.log`),
        runDir: join(dir, 'run'),
        cluster: { id, voters, clusterId, listeners: [] },
      }),
    ),
  )
  const brokers = nodes.map(({ port }) => `127.0.0.1:${port}`)
  const adminOf = (broker: string) =>
    new kafkajs.Kafka({
      clientId: 'two-brokers',
      brokers: [broker],
      logLevel: kafkajs.logLevel.NOTHING,
    }).admin()
  const admin = adminOf(brokers[0]!)
  const signalSecond = (signal: NodeJS.Signals): void => void process.kill(running[1]!.pid, signal)
  const end = async (): Promise<void> => {
    signalSecond('SIGCONT')
    await admin.disconnect()
    await Promise.all(running.map((node) => node.end(END_WITHIN_MS)))
    rmSync(dir, { recursive: true, force: true })
  }
  try {
    await eventually(async () => {
      await admin.connect()
      return (await admin.describeCluster()).brokers.length === nodes.length
    }, READY_WITHIN)
  } catch (error) {
    await end()
    throw error
  }
  const partitionOf = async (topic: string) => {
    const { topics } = await admin.fetchTopicMetadata({ topics: [topic] })
    return topics[0]!.partitions[0]!
  }
  /** Throws if this broker does not know the topic yet. A new client asks only the broker that it was given. */
  const expectKnown = async (broker: string, topic: string): Promise<void> => {
    const client = adminOf(broker)
    try {
      await client.connect()
      await client.fetchTopicMetadata({ topics: [topic] })
    } finally {
      await client.disconnect()
    }
  }
  return {
    brokers: [brokers[0]!],
    createTopic: async (topic) => {
      // A busy broker may create the topic and answer too late. Creating it again then changes nothing.
      await eventually(async () => {
        await admin.createTopics({
          topics: [{ topic, replicaAssignment: [{ partition: 0, replicas: [FIRST, SECOND] }] }],
          waitForLeaders: false,
        })
        return (await partitionOf(topic)).isr.length === nodes.length
      }, READY_WITHIN)
      // A broker learns of a topic a moment later than the controllers, and each broker may answer a client.
      await eventually(async () => {
        for (const broker of brokers) await expectKnown(broker, topic)
        return true
      }, READY_WITHIN)
    },
    commit: (groupId, topic, offset) =>
      admin.setOffsets({ groupId, topic, partitions: [{ partition: 0, offset: String(offset) }] }),
    moveLeader: async (topic) => {
      await admin.alterPartitionReassignments({
        topics: [{ topic, partitionAssignment: [{ partition: 0, replicas: [SECOND] }] }],
      })
      await eventually(async () => (await partitionOf(topic)).leader === SECOND, READY_WITHIN)
    },
    stopSecond: () => signalSecond('SIGSTOP'),
    continueSecond: () => signalSecond('SIGCONT'),
    end,
  }
}
