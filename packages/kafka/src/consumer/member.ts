/**
 * Consumer groups over kafkajs, for members that must know what they own: a lease, a word before every join,
 * positions kept here rather than believed, and a consumer that is thrown away when it is stuck.
 */
import { Cause, Effect, Exit, Layer, type Scope } from 'effect'
import type { Admin, Consumer, ConsumerCrashEvent, ConsumerGroupJoinEvent, KafkaMessage } from 'kafkajs'
import { claimOf, type Holding, retainedOf, NOTHING, shardAssigner, shareOf } from './assignor.ts'
import {
  kafkaWith,
  reasonOf,
  type CuttableKafka,
  type Fork,
  type KafkaConnection,
} from '../connection/client.ts'
import { attachHooks, type InnerBatch, type InnerGroup } from '../kafkajs-patches/inner-group.ts'
import { readMember, removeMember, writeMember } from './member-file.ts'
import { beforeNewer, newerSchemaOf } from '../records/newer-schema.ts'
import { DEAD_LETTER_HEADERS } from '../records/outgoing.ts'
import {
  KafkaUnavailable,
  ConsumerGroups,
  type GroupControl,
  type GroupHandler,
  type GroupOptions,
  type IncomingRecord,
  type Position,
  type PartitionOffsets,
} from '../port.ts'

export interface ConsumerGroupsOptions {
  readonly connection: KafkaConnection
  /** When a consumer counts as stuck. The defaults are for production. */
  readonly watchdog?: {
    /** No answered fetch, or lag without progress, for so long. Default 15 s: three lag checks. */
    readonly stuckAfterMs?: number
    /** How often lag is looked at. Default 5 s: one request a topic. */
    readonly lagCheckMs?: number
  }
}

/** The broker's floor (`group.min.session.timeout.ms`): the sooner a dead member's shards move, the better. */
const SESSION_TIMEOUT_MS = 6000
/** A member hears of a rebalance by its next heartbeat, and nobody's shards work before the last has heard. */
const HEARTBEAT_MS = 300
/** What a lease gives away: a tick of a busy event loop, and clocks that run at slightly different speeds. */
const LEASE_MARGIN_MS = 1500
/** How long the group waits for its members to rejoin: the drain, and a little patience. */
const REBALANCE_TIMEOUT_MS = 10_000
/** How long `onRevoking` and running batches may take before a join. */
const REVOKE_WITHIN_MS = 2500
/** The same when the scope closes; with the leaving after it, the whole is below 3 s. */
const CLOSE_REVOKE_WITHIN_MS = 1500
const LEAVE_WITHIN_MS = 1000
/** A fetch that finds nothing waits so long at the broker. Seek, pause and resume wait for it. */
const MAX_WAIT_MS = 50
const MAX_BYTES_PER_PARTITION = 512 * 1024
const MAX_BYTES = 8 * 1024 * 1024
/** The slowest everyday answer is SyncGroup, which waits for the leader. */
const REQUEST_TIMEOUT_MS = 5000
/** A join that takes longer than waiting for the slowest member explains is stuck. */
const JOIN_WITHIN_MS = REBALANCE_TIMEOUT_MS + SESSION_TIMEOUT_MS + 4000
const STUCK_AFTER_MS = 15_000
const LAG_CHECK_MS = 5000
const WATCH_EVERY_MS = 500
/** Pause before a failed batch comes again, and before a consumer is built anew: doubled each time up to the second. */
const BACKOFF_MS = { first: 200, most: 5000 }

const now = () => performance.now()
const backoff = (failures: number) =>
  Math.min(BACKOFF_MS.most, BACKOFF_MS.first * 2 ** Math.min(10, failures - 1))
const placeOf = (topic: string, partition: number) => `${topic}/${partition}`
const noop = () => {}
/** The answer to a heartbeat when shards are about to be split anew. */
const REBALANCING = 'REBALANCE_IN_PROGRESS'
/** Ends with the promise, whatever its outcome, or after so long. */
const atMost = (ms: number, promise: Promise<unknown>): Promise<void> =>
  new Promise((resolve) => {
    const timer = setTimeout(resolve, ms)
    promise
      .catch(noop)
      .finally(() => clearTimeout(timer))
      .then(() => resolve(), noop)
  })

/** The reading of one owned partition. */
interface Place {
  readonly topic: string
  readonly partition: number
  /** The next offset to deliver; undefined until a seek or the first batch. */
  position: number | undefined
  /** Rises with every seek, so that a batch under way does not overwrite it. */
  seeks: number
  paused: boolean
  /** Waits after a failed batch. */
  waiting: NodeJS.Timeout | undefined
  failures: number
  /** When the position last moved, or reading began; monotonic. */
  progressAt: number
}

interface Running {
  readonly abort: () => void
  readonly ended: Promise<void>
}

/** One kafkajs consumer. A member goes through several when they get stuck. */
interface Incarnation {
  readonly client: CuttableKafka
  readonly consumer: Consumer
  group: InnerGroup | undefined
  dead: boolean
  /** When SyncGroup was sent: the broker starts the session no earlier. */
  syncSentAt: number
  /** JoinGroup has been sent, SyncGroup has not. */
  awaitingSync: boolean
  /** When the heartbeat under way was asked for; the broker counts from later. */
  heartbeatSentAt: number
  heartbeatsUnder: number
  /** The group is to be joined anew, although the broker does not ask for it. */
  rejoins: boolean
}

/** Runs handler effects outside of Effect's own fibers, with the context captured in `join`. */
interface Run {
  readonly fork: Fork
  readonly exit: (
    effect: Effect.Effect<void, unknown>,
    signal: AbortSignal,
  ) => Promise<Exit.Exit<void, unknown>>
}

class Member {
  readonly #connection: KafkaConnection
  readonly #options: GroupOptions
  readonly #handler: GroupHandler
  readonly #run: Run
  readonly #session: number
  readonly #heartbeat: number
  readonly #stuckAfter: number
  readonly #lagCheck: number

  #incarnation: Incarnation | undefined
  readonly #places = new Map<string, Place>()
  readonly #running = new Map<string, Running>()
  #holding: Holding = NOTHING
  /** It can wait for its share on standby; so it is until it owns something. */
  #isNewcomer: boolean
  /** Rises with every revocation: what was fetched before belongs to nobody. */
  #epoch = 0
  #batchEpochs = new WeakMap<object, number>()
  #rebalancing = true
  #revoking: Promise<void> | undefined
  #revoked = true
  #leaseUntil = Number.NEGATIVE_INFINITY
  #rebalancingSince = now()
  #heartbeatAt = now()
  #fetchedAt = now()
  #memberId: string | undefined
  #failures = 0
  #closed = false
  #first: { readonly resolve: () => void; readonly reject: (error: KafkaUnavailable) => void } | undefined
  readonly #timers = new Set<NodeJS.Timeout>()
  #relaunch: NodeJS.Timeout | undefined
  #admin:
    | { readonly client: CuttableKafka; readonly admin: Admin; readonly connected: Promise<void> }
    | undefined
  #lagUnderWay = false

  constructor(options: ConsumerGroupsOptions, group: GroupOptions, handler: GroupHandler, run: Run) {
    this.#connection = options.connection
    this.#options = group
    this.#handler = handler
    this.#run = run
    this.#session = group.sessionTimeoutMs ?? SESSION_TIMEOUT_MS
    this.#heartbeat = group.heartbeatMs ?? HEARTBEAT_MS
    this.#stuckAfter = options.watchdog?.stuckAfterMs ?? STUCK_AFTER_MS
    this.#lagCheck = options.watchdog?.lagCheckMs ?? LAG_CHECK_MS
    this.#isNewcomer = group.standbyTopic !== undefined
    this.#memberId = this.#readMemberFile()
  }

  /** Joins for the first time; one attempt, so that whoever starts hears of a bus that is down. */
  async start(): Promise<void> {
    const joined = new Promise<void>((resolve, reject) => {
      this.#first = { resolve, reject }
    })
    const limit = setTimeout(
      () => this.#first?.reject(new KafkaUnavailable({ reason: 'timeout', detail: 'joining the group' })),
      JOIN_WITHIN_MS,
    )
    this.#every(this.#heartbeat, () => this.#beat())
    this.#every(WATCH_EVERY_MS, () => this.#watch())
    this.#every(this.#lagCheck, () => void this.#watchLag())
    this.#launch()
    try {
      await joined
    } catch (error) {
      await this.close()
      throw error
    } finally {
      clearTimeout(limit)
      this.#first = undefined
    }
  }

  isHealthy(): boolean {
    if (this.#closed) return false
    return this.#rebalancing
      ? now() - this.#rebalancingSince < JOIN_WITHIN_MS && this.#failures < 3
      : now() - this.#heartbeatAt < this.#session
  }

  /** Hands over what is in flight and leaves. Below 3 s, whatever the broker does. */
  async close(): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    for (const timer of this.#timers) clearInterval(timer)
    clearTimeout(this.#relaunch)
    const incarnation = this.#incarnation
    await this.#revoke(CLOSE_REVOKE_WITHIN_MS)
    for (const place of this.#places.values()) clearTimeout(place.waiting)
    if (incarnation !== undefined && !incarnation.dead) {
      incarnation.dead = true
      await atMost(LEAVE_WITHIN_MS, incarnation.consumer.disconnect())
      incarnation.client.destroy()
      // kafkajs forgets the id when the broker has confirmed the leaving; otherwise the next start leaves for it.
      if (incarnation.group?.memberId === null) this.#removeMemberFile()
    }
    this.#holding = NOTHING
    this.#dropAdmin()
  }

  // ---- the consumer's life

  #every(ms: number, what: () => void): void {
    this.#timers.add(setInterval(what, ms))
  }

  #launch(): void {
    const incarnation = this.#build()
    this.#incarnation = incarnation
    this.#rebalancingSince = now()
    const { consumer } = incarnation
    const consume = async () => {
      await consumer.connect()
      await consumer.subscribe({ topics: [...this.#options.topics], fromBeginning: true })
      await consumer.run({
        autoCommit: false,
        eachBatchAutoResolve: false,
        partitionsConsumedConcurrently: this.#options.concurrency ?? 1,
        eachBatch: ({ batch, isStale }) => this.#onBatch(incarnation, batch as InnerBatch, isStale),
      })
    }
    consume().catch((error: unknown) => this.#replace(incarnation, 'failed', reasonOf(error)))
  }

  #build(): Incarnation {
    const client = kafkaWith(
      this.#connection,
      {
        requestTimeoutMs: REQUEST_TIMEOUT_MS,
        retry: { retries: 5, initialRetryTime: 100, maxRetryTime: 1000 },
        startAt: this.#failures,
      },
      this.#run.fork,
    )
    const hooks = { beforeJoin: (group: InnerGroup) => this.#beforeJoin(incarnation, group) }
    const consumer = client.kafka.consumer({
      groupId: this.#options.group,
      sessionTimeout: this.#session,
      heartbeatInterval: this.#heartbeat,
      rebalanceTimeout: REBALANCE_TIMEOUT_MS,
      maxWaitTimeInMs: MAX_WAIT_MS,
      minBytes: 1,
      maxBytes: MAX_BYTES,
      maxBytesPerPartition: this.#options.maxBytesPerPartition ?? MAX_BYTES_PER_PARTITION,
      allowAutoTopicCreation: false,
      partitionAssigners: [
        shardAssigner(
          () => claimOf(this.#holding, this.#isNewcomer),
          this.#options.standbyTopic,
          (assigner) => attachHooks(assigner, hooks),
        ),
      ],
      // A crashed consumer is built anew here; kafkajs' own restart comes late or never (its issues 659, 1593).
      retry: {
        retries: 5,
        initialRetryTime: 100,
        maxRetryTime: 1000,
        restartOnFailure: () => Promise.resolve(false),
      },
    })
    const incarnation: Incarnation = {
      client,
      consumer,
      group: undefined,
      dead: false,
      syncSentAt: Number.NEGATIVE_INFINITY,
      awaitingSync: false,
      heartbeatSentAt: Number.NEGATIVE_INFINITY,
      heartbeatsUnder: 0,
      rejoins: false,
    }
    consumer.on(consumer.events.GROUP_JOIN, (event) => this.#joined(incarnation, event))
    consumer.on(consumer.events.HEARTBEAT, ({ payload }) => {
      if (incarnation.dead || payload.groupGenerationId !== this.#holding.generation) return
      this.#heartbeatAt = now()
      this.#leaseUntil = Math.max(
        this.#leaseUntil,
        incarnation.heartbeatSentAt + this.#session - LEASE_MARGIN_MS,
      )
    })
    consumer.on(consumer.events.CRASH, (event: ConsumerCrashEvent) =>
      this.#replace(incarnation, 'crashed', reasonOf(event.payload.error)),
    )
    return incarnation
  }

  /** Gives a consumer up and builds another after a pause. */
  #replace(
    incarnation: Incarnation,
    why: string,
    { reason, detail }: { reason: KafkaUnavailable['reason']; detail: string },
  ) {
    if (incarnation.dead || this.#closed) return
    incarnation.dead = true
    this.#epoch++
    this.#leaseUntil = Number.NEGATIVE_INFINITY
    this.#rebalancingSince = this.#rebalancing ? this.#rebalancingSince : now()
    this.#rebalancing = true
    // What waits for a hung broker must not wait for the next consumer too; that one leaves for this one.
    incarnation.client.destroy()
    incarnation.consumer.disconnect().catch(noop)
    if (this.#first !== undefined) return this.#first.reject(new KafkaUnavailable({ reason, detail }))
    this.#failures++
    this.#log('the consumer is built anew', { why, detail, failures: this.#failures })
    this.#relaunch = setTimeout(() => {
      if (!this.#closed) this.#launch()
    }, backoff(this.#failures))
  }

  // ---- joining

  async #beforeJoin(incarnation: Incarnation, group: InnerGroup): Promise<void> {
    // An error that kafkajs does not try again.
    if (incarnation.dead || this.#closed) throw Object.assign(new Error('given up'), { retriable: false })
    if (incarnation.group === undefined) {
      incarnation.group = group
      this.#instrument(incarnation, group)
      await this.#leaveEarlier(group)
    }
    await this.#revoke(REVOKE_WITHIN_MS)
    incarnation.rejoins = false
    incarnation.awaitingSync = true
  }

  #takeOver(): void {
    if (!this.#isNewcomer || this.#holding.standby.size === 0) return
    this.#isNewcomer = false
    if (this.#incarnation !== undefined) this.#incarnation.rejoins = true
  }

  /** Watches the inner group's own calls; see inner-group.ts. */
  #instrument(incarnation: Incarnation, group: InnerGroup): void {
    const heartbeat = group.heartbeat.bind(group)
    group.heartbeat = async (options) => {
      if (incarnation.heartbeatsUnder++ === 0) incarnation.heartbeatSentAt = now()
      try {
        // As if the broker had said so: kafkajs joins anew, and the broker, which is told another claim, has everybody do so.
        if (incarnation.rejoins) throw Object.assign(new Error('joins anew'), { type: REBALANCING })
        await heartbeat(options)
      } catch (error) {
        this.#heartbeatFailed(incarnation, error)
        throw error
      } finally {
        incarnation.heartbeatsUnder--
      }
    }
    const generate = group.generatePartitionsPerSubscribedTopic.bind(group)
    group.generatePartitionsPerSubscribedTopic = () => {
      if (incarnation.awaitingSync) {
        incarnation.awaitingSync = false
        incarnation.syncSentAt = now()
      }
      return generate()
    }
    const fetch = group.fetch.bind(group)
    group.fetch = async (nodeId) => {
      const epoch = this.#epoch
      const batches = await fetch(nodeId)
      this.#fetchedAt = now()
      if (epoch !== this.#epoch) return []
      for (const batch of batches) {
        this.#batchEpochs.set(batch, epoch)
        if (batch.isEmptyDueToFiltering()) this.#passEmpty(batch)
      }
      return batches
    }
    group.recoverFromOffsetOutOfRange = ({ topic, partition }) => this.#outOfRange(group, topic, partition)
  }

  /** Ends the session of this member's earlier life, for which the group would wait otherwise. */
  async #leaveEarlier(group: InnerGroup): Promise<void> {
    const memberId = this.#memberId
    if (memberId === undefined) return
    const leave = async () => {
      const { groupId } = group
      const coordinator = await group.cluster.findGroupCoordinator({ groupId })
      await coordinator.leaveGroup({ groupId, memberId })
    }
    // Usually the broker has forgotten it already, which it answers with an error.
    await atMost(LEAVE_WITHIN_MS, leave())
  }

  /**
   * Takes the shards out of the handler's hands: nothing is delivered from here on, running batches and `onRevoking`
   * have so long to end. Done once between two joins.
   */
  #revoke(withinMs: number): Promise<void> {
    if (this.#revoking !== undefined) return this.#revoking
    if (this.#revoked) return Promise.resolve()
    this.#epoch++
    if (!this.#rebalancing) this.#rebalancingSince = now()
    this.#rebalancing = true
    this.#revoking = this.#drain(withinMs).finally(() => {
      this.#revoked = true
      this.#revoking = undefined
    })
    return this.#revoking
  }

  async #drain(withinMs: number): Promise<void> {
    const abort = new AbortController()
    const revoking = this.#run.exit(this.#handler.onRevoking, abort.signal)
    const running = [...this.#running.values()]
    await atMost(withinMs, Promise.all([revoking, ...running.map(({ ended }) => ended)]))
    abort.abort()
    for (const batch of running) batch.abort()
  }

  #joined(incarnation: Incarnation, { payload }: ConsumerGroupJoinEvent): void {
    const { group } = incarnation
    if (incarnation.dead || group === undefined) return
    const generation = group.generationId ?? -1
    const { shards, standby } = shareOf(payload.memberAssignment, this.#options.standbyTopic)
    const holding = { generation, shards, standby }
    const retained = retainedOf(this.#holding, holding)
    this.#holding = holding
    if (shards.size > 0) this.#isNewcomer = false
    this.#memberId = payload.memberId
    this.#writeMemberFile(payload.memberId)
    // A seek on a partition that was lost stays queued until it comes back.
    group.seekOffset.clear()
    this.#takePlaces(group, payload.memberAssignment, retained)
    this.#heartbeatAt = this.#fetchedAt = now()
    this.#leaseUntil = incarnation.syncSentAt + this.#session - LEASE_MARGIN_MS
    this.#revoked = false
    this.#rebalancing = false
    this.#failures = 0
    try {
      const [owned, ahead] = [shards, standby].map((set) => [...set].sort((a, b) => a - b))
      this.#handler.onAssigned({ generation, shards: owned!, standby: ahead!, retained }, this.control)
    } catch (error) {
      const name = error instanceof Error ? error.name : typeof error
      return this.#replace(incarnation, 'onAssigned failed', { reason: 'rejected', detail: name })
    }
    this.#first?.resolve()
  }

  /** Kept shards read on where they were, paused as they were; others begin with nothing known. */
  #takePlaces(
    group: InnerGroup,
    assignment: Readonly<Record<string, ReadonlyArray<number>>>,
    retained: ReadonlySet<number>,
  ): void {
    const earlier = new Map(this.#places)
    this.#places.clear()
    for (const place of earlier.values()) {
      clearTimeout(place.waiting)
      place.waiting = undefined
    }
    for (const [topic, partitions] of Object.entries(assignment)) {
      for (const partition of partitions) {
        const known = retained.has(partition) ? earlier.get(placeOf(topic, partition)) : undefined
        const place = known ?? {
          topic,
          partition,
          position: undefined,
          seeks: 0,
          paused: false,
          waiting: undefined,
          failures: 0,
          progressAt: now(),
        }
        place.progressAt = now()
        this.#places.set(placeOf(topic, partition), place)
        if (place.position !== undefined) this.#seekTo(group, place, place.position)
        this.#applyPause(group, place)
      }
    }
  }

  // ---- heartbeats and the lease

  /** Heartbeats go on while a batch is handled; kafkajs sends them between batches only. */
  #beat(): void {
    const group = this.#incarnation?.group
    if (group === undefined || this.#rebalancing || this.#incarnation?.dead === true) return
    // Slightly less than the interval, or a timer that is a millisecond early skips a beat.
    group.heartbeat({ interval: 0.8 * this.#heartbeat }).catch(noop)
  }

  #heartbeatFailed(incarnation: Incarnation, error: unknown): void {
    if (incarnation.dead) return
    const type = (error as { readonly type?: string }).type
    if (type === 'UNKNOWN_MEMBER_ID' || type === 'ILLEGAL_GENERATION') {
      // Expelled: somebody else may own the shards already.
      this.#leaseUntil = Number.NEGATIVE_INFINITY
    } else if (type !== REBALANCING) return
    // kafkajs rejoins when its own next heartbeat hears the same, after the batch; the batch should end soon.
    this.#revoke(REVOKE_WITHIN_MS).catch(noop)
  }

  // ---- delivering

  async #onBatch(incarnation: Incarnation, batch: InnerBatch, isStale: () => boolean): Promise<void> {
    const { group } = incarnation
    const { topic, partition } = batch
    const key = placeOf(topic, partition)
    const place = this.#places.get(key)
    const epoch = this.#epoch
    if (group === undefined || place === undefined || incarnation.dead || this.#rebalancing) return
    if (this.#batchEpochs.get(batch) !== epoch || isStale()) return
    if (place.paused || place.waiting !== undefined || this.#running.has(key)) return
    const asked = Number(batch.fetchedOffset)
    const from = place.position ?? asked
    // Read from beyond the position: what lies between would be lost. Missing records after `asked` are no gap.
    if (asked > from) return this.#seekTo(group, place, from)
    place.position = from
    const records: Array<IncomingRecord> = []
    for (const message of batch.messages) {
      if (Number(message.offset) >= from) records.push(incoming(topic, partition, message))
    }
    const last = batch.lastOffset()
    const next = Math.max(from, Number(last) + 1)
    const readable = beforeNewer(records)
    if (readable.length > 0) {
      const seeks = place.seeks
      const exit = await this.#handle(key, topic, partition, readable)
      if (incarnation.dead || epoch !== this.#epoch) return
      if (exit === undefined || Exit.isFailure(exit)) return this.#failed(group, place, exit)
      place.failures = 0
      place.progressAt = now()
      if (place.seeks !== seeks) return
    }
    const newer = records[readable.length]
    if (newer !== undefined) return this.#outpaced(group, place, newer)
    place.position = next
    group.resolveOffset({ topic, partition, offset: String(next - 1) })
  }

  /** Runs the handler; undefined when it was cut off by a revocation. */
  async #handle(
    key: string,
    topic: string,
    partition: number,
    records: ReadonlyArray<IncomingRecord>,
  ): Promise<Exit.Exit<void, unknown> | undefined> {
    const controller = new AbortController()
    const aborted = new Promise<undefined>((resolve) => {
      controller.signal.addEventListener('abort', () => resolve(undefined), { once: true })
    })
    const done = this.#run.exit(this.#handler.onBatch(topic, partition, records), controller.signal)
    // A handler that cannot be interrupted keeps its partition until it ends: two at once would break the order.
    const ended = done.then(() => {
      this.#running.delete(key)
    })
    this.#running.set(key, { abort: () => controller.abort(), ended })
    return await Promise.race([done, aborted])
  }

  #failed(group: InnerGroup, place: Place, exit: Exit.Exit<void, unknown> | undefined): void {
    const error = exit !== undefined && Exit.isFailure(exit) ? Cause.squash(exit.cause) : undefined
    // The name only: a message may quote a record.
    const { _tag, name } = (error ?? {}) as { readonly _tag?: string; readonly name?: string }
    this.#comeAgain(group, place, 'a batch failed and comes again', { error: _tag ?? name ?? null })
  }

  /**
   * Reading goes no further than this record until a newer version reads in this one's place: set aside as unreadable, it would be missing
   * from whatever is made of the topic.
   */
  #outpaced(group: InnerGroup, place: Place, { offset, value }: IncomingRecord): void {
    place.position = offset
    this.#comeAgain(
      group,
      place,
      'a newer version of the hub has written here; its readers go on, this one waits to be replaced',
      { offset, schema: newerSchemaOf(value) },
    )
  }

  /** Reads on from the position after a pause. */
  #comeAgain(
    group: InnerGroup,
    place: Place,
    why: string,
    fields: Readonly<Record<string, string | number | null>>,
  ): void {
    place.failures++
    // It was fetched: whatever is wrong, the consumer is not.
    place.progressAt = now()
    const { topic, partition, failures } = place
    const delay = backoff(failures)
    this.#log(why, { topic, partition, failures, delay, ...fields })
    this.#seekTo(group, place, place.position ?? 0)
    place.waiting = setTimeout(() => {
      place.waiting = undefined
      if (this.#places.get(placeOf(topic, partition)) === place)
        this.#withGroup((g) => this.#applyPause(g, place))
    }, delay)
    this.#applyPause(group, place)
  }

  /** A batch of which nothing is ours (control records): the position passes it. */
  #passEmpty(batch: InnerBatch): void {
    const place = this.#places.get(placeOf(batch.topic, batch.partition))
    if (place?.position === undefined || Number(batch.fetchedOffset) > place.position) return
    place.position = Math.max(place.position, Number(batch.lastOffset()) + 1)
  }

  /**
   * The position is not in the log any more (retention took it) or not yet (the topic was made anew): reading goes on at
   * the beginning, since failing twice is allowed and losing is not. kafkajs would commit an offset here.
   */
  async #outOfRange(group: InnerGroup, topic: string, partition: number): Promise<void> {
    const [low] = await group.cluster.fetchTopicsOffset([
      { topic, fromBeginning: true, partitions: [{ partition }] },
    ])
    const place = this.#places.get(placeOf(topic, partition))
    const offset = Number(
      low?.partitions.find((found) => found.partition === partition)?.offset ?? Number.NaN,
    )
    if (place === undefined || !Number.isSafeInteger(offset)) return
    this.#log('the position is not in the log, reading from its beginning', {
      topic,
      partition,
      position: place.position ?? null,
      low: offset,
    })
    place.position = offset
    this.#seekTo(group, place, offset)
  }

  #seekTo(group: InnerGroup, { topic, partition }: Place, offset: number): void {
    group.seek({ topic, partition, offset: String(offset) })
  }

  #applyPause(group: InnerGroup, place: Place): void {
    const places = [{ topic: place.topic, partitions: [place.partition] }]
    if (place.paused || place.waiting !== undefined) group.pause(places)
    else group.resume(places)
  }

  #withGroup(use: (group: InnerGroup) => void): void {
    const incarnation = this.#incarnation
    if (incarnation?.group !== undefined && !incarnation.dead) use(incarnation.group)
  }

  // ---- the watchdog

  #watch(): void {
    const incarnation = this.#incarnation
    if (incarnation === undefined || incarnation.dead || this.#closed) return
    const stuck = (why: string) => this.#replace(incarnation, why, { reason: 'timeout', detail: 'stuck' })
    if (this.#rebalancing) {
      if (now() - this.#rebalancingSince > JOIN_WITHIN_MS) stuck('joining takes too long')
      return
    }
    if (now() - this.#heartbeatAt > 2 * this.#session) return stuck('no heartbeat is answered')
    if (this.#running.size === 0 && now() - this.#fetchedAt > this.#stuckAfter) stuck('no fetch is answered')
  }

  /** A consumer may fetch happily and yet never see one partition: only the log's end tells. */
  async #watchLag(): Promise<void> {
    const incarnation = this.#incarnation
    if (incarnation === undefined || incarnation.dead || this.#rebalancing || this.#lagUnderWay) return
    const suspects = [...this.#places.values()].filter((place) => this.#suspect(place))
    if (suspects.length === 0) return
    this.#lagUnderWay = true
    try {
      for (const topic of new Set(suspects.map((place) => place.topic))) {
        const ends = new Map(
          (await this.#offsetRanges(topic)).map(({ partition, high }) => [partition, high]),
        )
        for (const place of suspects) {
          if (place.topic !== topic || !this.#suspect(place)) continue
          // Read at the end: it has nothing to progress with until now.
          if ((ends.get(place.partition) ?? 0) <= (place.position ?? 0)) place.progressAt = now()
          else if (this.#places.get(placeOf(topic, place.partition)) === place) {
            return this.#replace(incarnation, 'lag without progress', { reason: 'timeout', detail: 'stuck' })
          }
        }
      }
    } catch {
      // No answer says nothing about the consumer; heartbeats are watched for that.
    } finally {
      this.#lagUnderWay = false
    }
  }

  #suspect(place: Place): boolean {
    return (
      place.position !== undefined &&
      !place.paused &&
      place.waiting === undefined &&
      !this.#running.has(placeOf(place.topic, place.partition)) &&
      now() - place.progressAt > this.#stuckAfter
    )
  }

  // ---- what the handler may do

  readonly control: GroupControl = {
    seek: ({ topic, partition, offset }) => {
      const place = this.#places.get(placeOf(topic, partition))
      if (place === undefined) return
      place.seeks++
      place.position = Math.max(0, offset)
      place.progressAt = now()
      this.#withGroup((group) => this.#seekTo(group, place, place.position!))
    },
    pause: (topic, partition) => this.#setPaused(topic, partition, true),
    resume: (topic, partition) => this.#setPaused(topic, partition, false),
    owns: (shard) => this.#holding.shards.has(shard),
    takeOver: () => this.#takeOver(),
    hasLease: () => !this.#rebalancing && now() < this.#leaseUntil,
    commit: (positions) => Effect.suspend(() => this.#commit(positions)),
    offsets: (shards) => this.#asked(() => this.#offsets(shards)),
    offsetRanges: (topic) => this.#asked(() => this.#offsetRanges(topic)),
  }

  #setPaused(topic: string, partition: number, paused: boolean): void {
    const place = this.#places.get(placeOf(topic, partition))
    if (place === undefined || place.paused === paused) return
    place.paused = paused
    place.progressAt = now()
    this.#withGroup((group) => this.#applyPause(group, place))
  }

  #commit(positions: ReadonlyArray<Position>): Effect.Effect<void, KafkaUnavailable> {
    const owned = positions.filter(
      ({ topic, partition }) =>
        this.#holding.shards.has(partition) && this.#places.has(placeOf(topic, partition)),
    )
    if (owned.length === 0) return Effect.void
    const incarnation = this.#incarnation
    const group = incarnation?.group
    // The broker takes commits from a member that it has expelled, so this is the place that refuses them.
    if (group === undefined || incarnation?.dead !== false || now() >= this.#leaseUntil) {
      return Effect.fail(new KafkaUnavailable({ reason: 'refused', detail: 'the lease is over' }))
    }
    const topics = [...Map.groupBy(owned, ({ topic }) => topic)].map(([topic, places]) => ({
      topic,
      partitions: places.map(({ partition, offset }) => ({ partition, offset: String(offset) })),
    }))
    return this.#asked(() => group.commitOffsets({ topics }))
  }

  #asked<A>(request: () => Promise<A>): Effect.Effect<A, KafkaUnavailable> {
    return Effect.tryPromise({
      try: request,
      catch: (error) => {
        const { reason, detail } = reasonOf(error)
        return new KafkaUnavailable({ reason, detail })
      },
    }).pipe(
      Effect.timeoutOrElse({
        duration: REQUEST_TIMEOUT_MS,
        orElse: () => Effect.fail(new KafkaUnavailable({ reason: 'timeout', detail: 'no answer' })),
      }),
    )
  }

  /** Three requests, whatever the number of topics and shards. */
  async #offsets(shards: ReadonlyArray<number>): Promise<ReadonlyArray<PartitionOffsets>> {
    const group = this.#incarnation?.group
    const coordinator = group?.coordinator
    if (group === undefined || coordinator === null || coordinator === undefined)
      throw new Error('not joined')
    const { groupId, cluster } = group
    const partitions = shards.map((partition) => ({ partition }))
    const topics = this.#options.topics.map((topic) => ({ topic, partitions }))
    const edges = (fromBeginning: boolean) =>
      cluster.fetchTopicsOffset(topics.map((topic) => ({ ...topic, fromBeginning })))
    const asked = Promise.all([coordinator.offsetFetch({ groupId, topics }), edges(true), edges(false)])
    const [{ responses }, lows, highs] = await asked.catch(async (error: unknown) => {
      // A leader that has moved: the next try should know.
      await cluster.refreshMetadata().catch(noop)
      throw error
    })
    const [committed, low, high] = [responses, lows, highs].map(offsetsByPlace) as [Offsets, Offsets, Offsets]
    return topics.flatMap(({ topic }) =>
      shards.map((partition) => {
        const place = placeOf(topic, partition)
        const first = low.get(place)
        const next = high.get(place)
        if (first === undefined || next === undefined) throw new Error('an answer without the partition')
        return { topic, partition, committed: committed.get(place) ?? -1, low: first, high: next }
      }),
    )
  }

  async #offsetRanges(topic: string) {
    const offsets = await this.#withAdmin((admin) => admin.fetchTopicOffsets(topic))
    return offsets
      .map(({ partition, low, high }) => ({ partition, low: Number(low), high: Number(high) }))
      .sort((a, b) => a.partition - b.partition)
  }

  async #withAdmin<A>(use: (admin: Admin) => Promise<A>): Promise<A> {
    if (this.#admin === undefined) {
      const client = kafkaWith(
        this.#connection,
        {
          requestTimeoutMs: REQUEST_TIMEOUT_MS,
          retry: { retries: 2, initialRetryTime: 50, maxRetryTime: 200 },
        },
        this.#run.fork,
      )
      const admin = client.kafka.admin()
      this.#admin = { client, admin, connected: admin.connect() }
    }
    const { admin, connected } = this.#admin
    try {
      await connected
      return await use(admin)
    } catch (error) {
      this.#dropAdmin()
      throw error
    }
  }

  #dropAdmin(): void {
    const admin = this.#admin
    this.#admin = undefined
    admin?.client.destroy()
  }

  // ---- the member file

  #readMemberFile(): string | undefined {
    const { memberFile, group } = this.#options
    const saved = memberFile === undefined ? undefined : readMember(memberFile)
    return saved?.group === group ? saved.memberId : undefined
  }

  #writeMemberFile(memberId: string): void {
    const { memberFile, group } = this.#options
    if (memberFile === undefined) return
    try {
      writeMember(memberFile, { group, memberId })
    } catch {
      this.#log('the member file cannot be written; a restart will wait for the old session', { memberFile })
    }
  }

  #removeMemberFile(): void {
    if (this.#options.memberFile !== undefined) removeMember(this.#options.memberFile)
  }

  #log(message: string, fields: Readonly<Record<string, unknown>>): void {
    this.#run.fork(
      Effect.logWarning(message).pipe(Effect.annotateLogs({ group: this.#options.group, ...fields })),
    )
  }
}

const text = (value: Buffer | string | ReadonlyArray<Buffer | string> | undefined): string | null => {
  const one = Array.isArray(value)
    ? (value[0] as Buffer | string | undefined)
    : (value as Buffer | string | undefined)
  return one === undefined ? null : one.toString()
}

type Offsets = ReadonlyMap<string, number>

/** Offsets as the broker answers them, by topic and partition. */
const offsetsByPlace = (
  answer: ReadonlyArray<{
    readonly topic: string
    readonly partitions: ReadonlyArray<{ readonly partition: number; readonly offset: string }>
  }>,
): Offsets =>
  new Map(
    answer.flatMap(({ topic, partitions }) =>
      partitions.map(({ partition, offset }) => [placeOf(topic, partition), Number(offset)] as const),
    ),
  )

/** Headers that have no field of their own. */
const furtherOf = (headers: NonNullable<KafkaMessage['headers']>): Readonly<Record<string, string>> =>
  Object.fromEntries(
    Object.entries(headers).flatMap(([name, value]) => {
      const written = OWN_HEADERS.has(name) ? null : text(value)
      return written === null ? [] : [[name, written] as const]
    }),
  )
const OWN_HEADERS: ReadonlySet<string> = new Set(['type', 'id', 'occurred_at', 'traceparent'])

/** A record of another producer may lack our headers: it has no type, and a reader will not know it. */
const incoming = (topic: string, partition: number, message: KafkaMessage): IncomingRecord => {
  const { headers } = message
  const appendedAt = Number(message.timestamp)
  const occurredAt = Number(text(headers?.['occurred_at']) ?? Number.NaN)
  const further = headers?.[DEAD_LETTER_HEADERS.reason] === undefined ? undefined : furtherOf(headers)
  return {
    topic,
    partition,
    offset: Number(message.offset),
    key: message.key?.toString() ?? '',
    type: text(headers?.['type']) ?? '',
    id: text(headers?.['id']) ?? '',
    occurredAt: Number.isSafeInteger(occurredAt) ? occurredAt : appendedAt,
    traceparent: text(headers?.['traceparent']),
    appendedAt,
    ...(further === undefined ? undefined : { headers: further }),
    value: message.value ?? new Uint8Array(),
  }
}

const join = Effect.fnUntraced(function* (
  options: ConsumerGroupsOptions,
  group: GroupOptions,
  handler: GroupHandler,
): Effect.fn.Return<{ readonly isHealthy: Effect.Effect<boolean> }, KafkaUnavailable, Scope.Scope> {
  const context = yield* Effect.context<never>()
  const exit = Effect.runPromiseExitWith(context)
  const member = new Member(options, group, handler, {
    fork: Effect.runForkWith(context),
    exit: (effect, signal) => exit(effect, { signal }),
  })
  yield* Effect.addFinalizer(() => Effect.promise(() => member.close()))
  yield* Effect.tryPromise({
    try: () => member.start(),
    catch: (error) =>
      error instanceof KafkaUnavailable
        ? error
        : new KafkaUnavailable({ reason: 'rejected', detail: reasonOf(error).detail }),
  })
  return { isHealthy: Effect.sync(() => member.isHealthy()) }
})

/** Consumer groups on a cluster. Nothing is connected before `join`. */
export const layerConsumerGroups = (options: ConsumerGroupsOptions): Layer.Layer<ConsumerGroups> =>
  Layer.succeed(ConsumerGroups, { join: (group, handler) => join(options, group, handler) })
