/**
 * The connections of a group member for other requests than those of its consumer. They are opened at
 * the first request, and replaced after a failure.
 */
import type { Admin } from 'kafkajs'
import { makeKafka, type Fork, type KafkaClient, type KafkaConnection } from '../connection/client.ts'
import type { InnerCluster } from '../kafkajs-patches/internals.ts'
import { createCluster } from '../kafkajs-patches/leave-group-for.ts'
import type { OffsetRange } from '../port.ts'
import { fetchOffsetRangesOf } from '../topics/offset-ranges.ts'
import { REQUEST_TIMEOUT_MS } from './consumer-instance.ts'

/** A client with what it has connected. */
interface Open<C> {
  readonly client: KafkaClient
  readonly connection: C
  readonly connected: Promise<void>
}

/** A connection that is opened at the first request, and replaced after a failure. */
class LazyConnection<C extends { connect(): Promise<void> }> {
  readonly #create: () => { readonly client: KafkaClient; readonly connection: C }
  #open: Open<C> | undefined

  constructor(create: () => { readonly client: KafkaClient; readonly connection: C }) {
    this.#create = create
  }

  async request<A>(send: (connection: C) => Promise<A>): Promise<A> {
    if (this.#open === undefined) {
      const created = this.#create()
      this.#open = { ...created, connected: created.connection.connect() }
    }
    const { connected, connection } = this.#open
    try {
      await connected
      return await send(connection)
    } catch (error) {
      this.close()
      throw error
    }
  }

  close(): void {
    const open = this.#open
    this.#open = undefined
    open?.client.destroy()
  }
}

/** The topics whose ranges were asked for in a turn of the event loop. */
interface WantedRanges {
  readonly topics: Set<string>
  readonly ranges: Promise<ReadonlyMap<string, ReadonlyArray<OffsetRange>>>
}

export class AdminConnection {
  readonly #admin: LazyConnection<Admin>
  readonly #cluster: LazyConnection<InnerCluster>
  #wanted: WantedRanges | undefined

  constructor(connection: KafkaConnection, fork: Fork) {
    const makeClient = () => {
      const retry = { retries: 2, initialRetryTime: 50, maxRetryTime: 200 }
      return makeKafka(connection, { requestTimeoutMs: REQUEST_TIMEOUT_MS, retry }, fork)
    }
    this.#admin = new LazyConnection(() => {
      const client = makeClient()
      return { client, connection: client.kafka.admin() }
    })
    this.#cluster = new LazyConnection(() => {
      const client = makeClient()
      return { client, connection: createCluster(client.kafka) }
    })
  }

  /**
   * The committed offsets of a group, of all its topics. For given topics, kafkajs first loads the metadata of
   * each, concurrently. With several brokers, one answer can remove another topic, whose offsets are then missing.
   */
  committedOffsets(groupId: string): Promise<Awaited<ReturnType<Admin['fetchOffsets']>>> {
    return this.#admin.request((admin) => admin.fetchOffsets({ groupId }))
  }

  /** The ranges of a topic. The calls of one turn of the event loop share their requests. */
  async offsetRanges(topic: string): Promise<ReadonlyArray<OffsetRange>> {
    const wanted = (this.#wanted ??= this.#fetchWanted())
    wanted.topics.add(topic)
    return (await wanted.ranges).get(topic) ?? []
  }

  close(): void {
    this.#admin.close()
    this.#cluster.close()
  }

  #fetchWanted(): WantedRanges {
    const topics = new Set<string>()
    const ranges = new Promise<void>((resolve) => setImmediate(resolve)).then(() => {
      this.#wanted = undefined
      const fetch = () => this.#cluster.request((cluster) => fetchOffsetRangesOf(cluster, [...topics]))
      // A partition may have another leader than the metadata says. A new connection loads it again.
      return fetch().catch(fetch)
    })
    return { topics, ranges }
  }
}
