/**
 * Fetches for one kafkajs consumer. kafkajs joins the group, sends heartbeats, and calls `fetch` again
 * and again; the request, its answer and the positions are the hub's own.
 *
 * - kafkajs 2.2.4: each fetch costs the more, the more partitions are assigned, even if none has
 *   records. A seek, a resume and a rebalance wait until the broker has answered. So the broker could
 *   wait for records for some milliseconds only, and an idle consumer fetched 20 times in a second.
 * - Why the hub needs more: an idle hub should use no processor time. Everyday rates should not pay one
 *   fetch for each record.
 */
import type { InnerGroup } from '../kafkajs-patches/internals.ts'
import { type FetchedPartition, fetchRequest } from '../wire/fetch.ts'
import { sendRequest } from '../wire/protocol.ts'
import { FetchedBatch } from './fetched-batch.ts'
import type { PartitionReader, PartitionState } from './partition-reader.ts'
import { now } from './timing.ts'

/**
 * How long the broker waits for a record. It reads each partition of a fetch twice, so an idle fetch costs the
 * more, the more partitions it has. Silent connections (`silent-connections.ts`) allow for this wait.
 */
const LONG_WAIT_MS = 2000
/**
 * The same while an interrupted fetch uses the connection for fetches. Heartbeats have to wait for it.
 * Each such wait is twice as long as the one before.
 */
const SHORT_WAIT_MS = { first: 20, longest: 160 } as const
const MAX_BYTES = 8 * 1024 * 1024
/** Between two heartbeats while the group rebalances: no fetch is sent then. */
const REBALANCING_WAIT_MS = 20
/** kafkajs sends everything but fetches over this connection. */
const REQUESTS = 0
const FETCHES = 1

export interface FetchSettings {
  readonly maxBytesPerPartition: number
  /** After an answer with records, the next fetch is this much later, ms. */
  readonly gatherMs: () => number
}

/** The partitions of an assignment, by the node id of their leader. */
type ByLeader = ReadonlyMap<string, ReadonlyArray<PartitionState>>

export class Fetcher {
  readonly #group: InnerGroup
  readonly #reader: PartitionReader
  readonly #settings: FetchSettings
  #leaders:
    | { readonly metadata: unknown; readonly assignment: number; readonly byLeader: ByLeader }
    | undefined
  /** The waits of the fetches in progress. */
  readonly #waits = new Set<() => void>()
  /** The next short wait, ms, of brokers that still have to answer an interrupted fetch. */
  readonly #busy = new Map<string, number>()
  /** When the next fetch may begin, by node id; monotonic. */
  readonly #gatheredAt = new Map<string, number>()

  constructor(group: InnerGroup, reader: PartitionReader, settings: FetchSettings) {
    this.#group = group
    this.#reader = reader
    this.#settings = settings
    group.fetch = (nodeId) => this.#fetch(nodeId)
  }

  /** A partition was sought or resumed, or the assignment ends: a fetch must not wait any more. */
  interrupt(): void {
    for (const end of this.#waits) end()
    this.#waits.clear()
  }

  async #fetch(nodeId: string): Promise<ReadonlyArray<FetchedBatch>> {
    const { revocations } = this.#reader
    const isRevoked = () => revocations !== this.#reader.revocations
    try {
      // kafkajs sends a heartbeat after each fetch, and joins again with its answer.
      if (this.#reader.isRebalancing()) {
        await this.#sleep(REBALANCING_WAIT_MS)
        return []
      }
      await this.#sleep((this.#gatheredAt.get(nodeId) ?? 0) - now())
      await this.#group.cluster.refreshMetadataIfNecessary()
      const assigned = this.#ledBy(nodeId)
      if (assigned.some(({ position }) => position === undefined)) await this.#locate(assigned)
      const broker = await this.#group.cluster.findBroker({ nodeId })
      const shortWaitMs = this.#busy.get(nodeId)
      const connection = await broker.connectionPool.getConnection(
        shortWaitMs === undefined ? FETCHES : REQUESTS,
      )
      if (isRevoked()) return []
      // Nothing is awaited between here and the request, so it has the positions of its time.
      const readable = assigned.filter((state) => this.#reader.isReadable(state))
      let fetched: ReadonlyArray<FetchedPartition> = []
      if (readable.length === 0) await this.#sleep(LONG_WAIT_MS)
      else if (shortWaitMs === undefined) {
        const answer = sendRequest(broker, this.#requestOf(readable, LONG_WAIT_MS), connection)
        fetched = await this.#untilInterrupted(nodeId, answer)
      } else {
        if (this.#busy.has(nodeId)) this.#busy.set(nodeId, Math.min(2 * shortWaitMs, SHORT_WAIT_MS.longest))
        fetched = await sendRequest(broker, this.#requestOf(readable, shortWaitMs), connection)
      }
      this.#reader.onAnswer()
      if (isRevoked()) return []
      this.#gather(nodeId, fetched)
      return fetched.map((partition) => new FetchedBatch(partition, revocations))
    } catch (error) {
      await this.#group.recoverFromFetch(error)
      return []
    }
  }

  #requestOf(readable: ReadonlyArray<PartitionState>, maxWaitMs: number) {
    const { maxBytesPerPartition } = this.#settings
    return fetchRequest({
      partitions: inTurns(readable),
      onEnd: ({ state }, end) => {
        state.end = { offset: end, knownAt: now() }
      },
      maxWaitMs,
      maxBytes: MAX_BYTES,
      maxBytesPerPartition,
    })
  }

  /** Sleeps until it is interrupted. */
  #sleep(ms: number): Promise<void> {
    if (ms <= 0) return Promise.resolve()
    return new Promise((resolve) => {
      const end = () => {
        clearTimeout(timer)
        this.#waits.delete(end)
        resolve()
      }
      const timer = setTimeout(end, ms)
      this.#waits.add(end)
    })
  }

  /** Waits for the answer. If it is interrupted before, the records of the answer are fetched again. */
  #untilInterrupted(
    nodeId: string,
    answer: Promise<ReadonlyArray<FetchedPartition>>,
  ): Promise<ReadonlyArray<FetchedPartition>> {
    return new Promise((resolve, reject) => {
      const interrupted = () => {
        this.#busy.set(nodeId, SHORT_WAIT_MS.first)
        resolve([])
      }
      this.#waits.add(interrupted)
      answer.then(resolve, reject).finally(() => {
        this.#waits.delete(interrupted)
        this.#busy.delete(nodeId)
      })
    })
  }

  /** Delays the next fetch, unless the broker has more records already. */
  #gather(nodeId: string, fetched: ReadonlyArray<FetchedPartition>): void {
    const mayHaveMore = fetched.some(({ highWatermark, next }) => next < highWatermark)
    if (fetched.length === 0 || mayHaveMore) return
    this.#gatheredAt.set(nodeId, now() + this.#settings.gatherMs())
  }

  #ledBy(nodeId: string): ReadonlyArray<PartitionState> {
    const { metadata } = this.#group.cluster.brokerPool
    const { assignment } = this.#reader
    let leaders = this.#leaders
    if (leaders === undefined || leaders.metadata !== metadata || leaders.assignment !== assignment) {
      this.#group.checkForStaleAssignment()
      leaders = { metadata, assignment, byLeader: this.#byLeader() }
      this.#leaders = leaders
    }
    return leaders.byLeader.get(nodeId) ?? []
  }

  #byLeader(): ByLeader {
    const byLeader = new Map<string, Array<PartitionState>>()
    for (const [topic, states] of Map.groupBy(this.#reader.assigned(), (state) => state.topic)) {
      const leaders = new Map(
        this.#group.cluster
          .findTopicPartitionMetadata(topic)
          .map(({ leader, partitionId }) => [partitionId, String(leader)]),
      )
      for (const state of states) {
        const nodeId = leaders.get(state.partition)
        if (nodeId === undefined) continue
        const led = byLeader.get(nodeId)
        if (led === undefined) byLeader.set(nodeId, [state])
        else led.push(state)
      }
    }
    return byLeader
  }

  /** Partitions without a position begin at the committed offset, or at the first one. */
  async #locate(assigned: ReadonlyArray<PartitionState>): Promise<void> {
    const { offsetManager } = this.#group
    await offsetManager.resolveOffsets()
    for (const state of assigned) {
      if (state.position !== undefined || !this.#reader.isCurrent(state)) continue
      state.position = Number(offsetManager.nextOffset(state.topic, state.partition).toString())
    }
  }
}

/**
 * The partitions from a random one on. The broker fills its answer in their order, so each of them is
 * among the first ones at times (KIP-74).
 */
const inTurns = (states: ReadonlyArray<PartitionState>) => {
  const first = Math.floor(Math.random() * states.length)
  return [...states.slice(first), ...states.slice(0, first)].map((state) => ({
    topic: state.topic,
    partition: state.partition,
    position: state.position!,
    state,
  }))
}
