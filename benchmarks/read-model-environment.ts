/**
 * The environment of the read model benchmarks: records of delivered messages, the projector's
 * checkpoints, and the CPU time of PostgreSQL.
 */
import { randomUUID } from 'node:crypto'
import { encodeId, type LogFact } from '@hub/domain'
import { acceptedRecord, logRecord, type OutgoingRecord } from '@hub/kafka'
import { cpuWithChildrenMs, parentOf } from './process-usage.ts'
import { makeDispatchEnvironment, type Servers, submitFacts } from './dispatch-environment.ts'

/** Records of a delivered message: accepted, handover claim, sent, delivered. */
export const RECORDS_PER_MESSAGE = 4
/** A typical hub serves dozens of services, and a few of them send most messages. */
const ACCOUNTS = 8

export interface DeliveredMessage {
  readonly messageId: string
  readonly records: ReadonlyArray<OutgoingRecord>
}

export const makeReadModelEnvironment = async (servers: Servers) => {
  const environment = await makeDispatchEnvironment(servers, 6)
  const accounts = Array.from({ length: ACCOUNTS }, () => encodeId('acc', randomUUID()))
  const [backend] = await environment.sql<{ pid: number }[]>`SELECT pg_backend_pid() AS pid`
  const postmaster = parentOf(backend!.pid)
  let made = 0

  /** A message of a live key, which has a price, and its facts until delivery. */
  const delivered = (): DeliveredMessage => {
    const fact = environment.message({
      to: `+79${100_000_000 + made}`,
      class: 'service',
      mode: 'live',
      account: accounts[made % ACCOUNTS]!,
    })
    made += 1
    const { at, messageId } = fact
    const facts: ReadonlyArray<LogFact> = [
      ...submitFacts({
        messageId,
        at,
        operator: 'smpp',
        operatorIds: [randomUUID()],
        reportDeadline: at + 86_400_000,
      }),
      { type: 'MessageDelivered', messageId, at },
    ]
    return {
      messageId,
      records: [
        acceptedRecord(environment.topics, fact),
        ...facts.map((one) => logRecord(environment.topics, one, fact.recipient)),
      ],
    }
  }

  return {
    ...environment,
    delivered,
    /** Next offset to project, by topic (without prefix) and partition. */
    checkpoints: async (): Promise<ReadonlyMap<string, number>> => {
      const rows = await environment.sql<{ topic: string; partition: number; position: string }[]>`
        SELECT topic, partition, position FROM read.checkpoints WHERE projection = 'messages'`
      return new Map(rows.map((row) => [`${row.topic}/${row.partition}`, Number(row.position)]))
    },
    /** CPU time of PostgreSQL, ms. */
    postgresCpu: () => cpuWithChildrenMs(postmaster),
  }
}
export type ReadModelEnvironment = Awaited<ReturnType<typeof makeReadModelEnvironment>>
