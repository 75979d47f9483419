/**
 * For the sections about knowing: messages with what became of them, put into lanes and log as command-api and dispatcher would have, and
 * what is needed to see how much of it is projected, and at what cost.
 */
import { randomUUID } from 'node:crypto'
import { encodeId, type LogFact } from '@hub/domain'
import { acceptedRecord, logRecord, type OutgoingRecord } from '@hub/kafka'
import { cpuMs, parentOf } from './cpu.ts'
import { makeDispatchWorld, type Servers } from './dispatch-world.ts'

/** What a message that was delivered at the first attempt leaves: its acceptance, a claim, and what the operator said, twice. */
export const RECORDS_A_MESSAGE = 4
/** A hub serves some dozens of services, a few of which send most. */
const ACCOUNTS = 8

export interface Delivered {
  readonly messageId: string
  readonly records: ReadonlyArray<OutgoingRecord>
}

export const makeKnowingWorld = async (servers: Servers) => {
  const world = await makeDispatchWorld(servers, 6)
  const accounts = Array.from({ length: ACCOUNTS }, () => encodeId('acc', randomUUID()))
  const [backend] = await world.sql<{ pid: number }[]>`SELECT pg_backend_pid() AS pid`
  const postmaster = parentOf(backend!.pid)
  let made = 0

  /** A message of a live key, which costs something, and what became of it. */
  const delivered = (): Delivered => {
    const fact = world.message({
      to: `+79${100_000_000 + made}`,
      class: 'service',
      mode: 'live',
      account: accounts[made % ACCOUNTS]!,
    })
    made += 1
    const { at, messageId } = fact
    const facts: ReadonlyArray<LogFact> = [
      { type: 'HandoverStarted', messageId, at, epoch: 1, attempt: 1, operator: 'smpp' },
      {
        type: 'MessageSent',
        messageId,
        at,
        operator: 'smpp',
        operatorIds: [randomUUID()],
        reportDeadline: at + 86_400_000,
      },
      { type: 'MessageDelivered', messageId, at },
    ]
    return {
      messageId,
      records: [
        acceptedRecord(world.topics, fact),
        ...facts.map((one) => logRecord(world.topics, one, fact.recipient)),
      ],
    }
  }

  return {
    ...world,
    delivered,
    /** Next offset to project, by topic (without prefix) and partition. */
    checkpoints: async (): Promise<ReadonlyMap<string, number>> => {
      const rows = await world.sql<{ topic: string; partition: number; position: string }[]>`
        SELECT topic, partition, position FROM read.checkpoints WHERE projection = 'messages'`
      return new Map(rows.map((row) => [`${row.topic}/${row.partition}`, Number(row.position)]))
    },
    /** CPU time of PostgreSQL, ms. */
    postgresCpu: () => cpuMs(postmaster),
  }
}
export type KnowingWorld = Awaited<ReturnType<typeof makeKnowingWorld>>
