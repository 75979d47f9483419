/**
 * A simulated Kafka cluster: partitions, committed offsets and the group coordinator with its
 * sessions and generations. As in Kafka, nothing stops a member that lost its partitions: the
 * broker appends what it sends, and checks its commits by member and generation only.
 */
import { type AssignmentUserData, assignWithStandby } from '../../consumer/assignor.ts'
import { partitionFor } from '../../log/partitioner.ts'
import { partitionKey } from '../../partition-key.ts'
import type { IncomingRecord, OutgoingRecord, Position } from '../../port.ts'
import { NEWEST_SCHEMA } from '../../records/newer-schema.ts'
import type { SchemaVersion, SimulatedClock } from './host.ts'

export type GroupError = 'UNKNOWN_MEMBER_ID' | 'ILLEGAL_GENERATION' | 'REBALANCE_IN_PROGRESS'

interface JoinRequest {
  readonly reported: Omit<AssignmentUserData, 'memberId'>
  readonly sessionTimeoutMs: number
  readonly rebalanceTimeoutMs: number
}

interface Joined {
  readonly memberId: string
  readonly generation: number
}

interface Assigned {
  readonly shards: ReadonlyArray<number>
  readonly standby: ReadonlyArray<number>
}

interface Member {
  readonly id: string
  request: JoinRequest
  /** Answers the join that waits for the other members. */
  join: ((answer: Joined | GroupError) => void) | null
  cancelSession: () => void
}

interface Group {
  readonly members: Map<string, Member>
  readonly committed: Map<string, number>
  assigned: ReadonlyMap<string, Assigned>
  generation: number
  isRebalancing: boolean
  cancelRebalance: () => void
}

const noop = () => {}

export class SimulatedBroker {
  readonly partitions: number
  readonly #clock: SimulatedClock
  readonly #topics = new Map<string, Array<Array<IncomingRecord>>>()
  readonly #groups = new Map<string, Group>()
  readonly #watchers = new Set<(topic: string, partition: number) => void>()
  #members = 0
  /** Values of records that a process with the next version of the schemas wrote. */
  readonly #ofNextVersion = new WeakSet<Uint8Array>()

  constructor(partitions: number, clock: SimulatedClock) {
    this.partitions = partitions
    this.#clock = clock
  }

  // ---- partitions

  /** All records of a topic, for each partition. */
  topic(name: string): ReadonlyArray<ReadonlyArray<IncomingRecord>> {
    return this.#topicOf(name)
  }

  partitionOf({ key, partition }: OutgoingRecord): number {
    return partition ?? partitionFor(key, this.partitions)
  }

  append(
    records: ReadonlyArray<OutgoingRecord>,
    version: SchemaVersion = 'current',
  ): ReadonlyArray<Position> {
    const appendedAt = this.#clock.now()
    const positions = records.map((record) => {
      const partition = this.partitionOf(record)
      const log = this.#topicOf(record.topic)[partition]!
      const { headers, id, key, occurredAt, topic, traceparent, type } = record
      const { tracestate, ...further } = headers ?? {}
      const value = version === 'next' ? Uint8Array.from(record.value) : record.value
      if (version === 'next') this.#ofNextVersion.add(value)
      const offset = log.length
      log.push({
        topic,
        partition,
        offset,
        key,
        type,
        id,
        occurredAt,
        traceparent: traceparent ?? null,
        appendedAt,
        ...(tracestate === undefined ? {} : { tracestate }),
        ...(Object.keys(further).length === 0 ? {} : { headers: further }),
        value,
      })
      return { topic, partition, offset }
    })
    for (const { partition, topic } of positions) {
      for (const watcher of this.#watchers) watcher(topic, partition)
    }
    return positions
  }

  /** The offset of the next record. */
  end(topic: string, partition: number): number {
    return this.#topicOf(topic)[partition]?.length ?? 0
  }

  /** A reader with the current version sees the schema ids of the next version, which it does not know. */
  fetch(
    topic: string,
    partition: number,
    from: number,
    limit: number,
    version: SchemaVersion = 'next',
  ): ReadonlyArray<IncomingRecord> {
    const records = this.#topicOf(topic)[partition]!.slice(from, from + limit)
    if (version === 'next') return records
    return records.map((record) =>
      this.#ofNextVersion.has(record.value) ? { ...record, value: withNewerSchema(record.value) } : record,
    )
  }

  /** Calls `watcher` for each partition that gets records. Returns a function that ends it. */
  watch(watcher: (topic: string, partition: number) => void): () => void {
    this.#watchers.add(watcher)
    return () => this.#watchers.delete(watcher)
  }

  // ---- groups

  committed(groupId: string, topic: string, partition: number): number {
    return this.#groupOf(groupId).committed.get(partitionKey(topic, partition)) ?? -1
  }

  /** Answers when all members have joined, or the slow ones are removed. */
  join(
    groupId: string,
    memberId: string | null,
    request: JoinRequest,
    answer: (value: Joined | GroupError) => void,
  ): void {
    const group = this.#groupOf(groupId)
    const known = memberId === null ? undefined : group.members.get(memberId)
    if (memberId !== null && known === undefined) return answer('UNKNOWN_MEMBER_ID')
    const member: Member = known ?? {
      id: `member-${String(this.#members++).padStart(6, '0')}`,
      request,
      join: null,
      cancelSession: noop,
    }
    member.request = request
    member.join?.('UNKNOWN_MEMBER_ID')
    member.join = answer
    member.cancelSession()
    group.members.set(member.id, member)
    this.#rebalance(group)
  }

  sync(groupId: string, memberId: string, generation: number): Assigned | GroupError {
    const group = this.#groupOf(groupId)
    const error = this.#errorOf(group, memberId, generation)
    if (error !== null) return error
    this.#startSession(group, group.members.get(memberId)!)
    return group.isRebalancing ? 'REBALANCE_IN_PROGRESS' : group.assigned.get(memberId)!
  }

  heartbeat(groupId: string, memberId: string, generation: number): 'ok' | GroupError {
    const group = this.#groupOf(groupId)
    const error = this.#errorOf(group, memberId, generation)
    if (error !== null) return error
    this.#startSession(group, group.members.get(memberId)!)
    return group.isRebalancing ? 'REBALANCE_IN_PROGRESS' : 'ok'
  }

  leave(groupId: string, memberId: string): void {
    const group = this.#groupOf(groupId)
    const member = group.members.get(memberId)
    if (member !== undefined) this.#remove(group, member)
  }

  commit(
    groupId: string,
    memberId: string,
    generation: number,
    positions: ReadonlyArray<Position>,
  ): 'ok' | GroupError {
    const group = this.#groupOf(groupId)
    const error = this.#errorOf(group, memberId, generation)
    if (error !== null) return error
    for (const { offset, partition, topic } of positions) {
      group.committed.set(partitionKey(topic, partition), offset)
    }
    return 'ok'
  }

  #errorOf(group: Group, memberId: string, generation: number): GroupError | null {
    if (!group.members.has(memberId)) return 'UNKNOWN_MEMBER_ID'
    return generation === group.generation ? null : 'ILLEGAL_GENERATION'
  }

  #startSession(group: Group, member: Member): void {
    member.cancelSession()
    // A member that waits for the others has no session: the rebalance timeout ends its wait.
    if (member.join !== null) return
    member.cancelSession = this.#clock.after(member.request.sessionTimeoutMs, () =>
      this.#remove(group, member),
    )
  }

  #remove(group: Group, member: Member): void {
    member.cancelSession()
    if (!group.members.delete(member.id)) return
    member.join?.('UNKNOWN_MEMBER_ID')
    this.#rebalance(group)
  }

  #rebalance(group: Group): void {
    const members = [...group.members.values()]
    if (members.every(({ join }) => join !== null)) return this.#complete(group)
    if (group.isRebalancing) return
    group.isRebalancing = true
    const timeout = Math.max(...members.map(({ request }) => request.rebalanceTimeoutMs))
    group.cancelRebalance = this.#clock.after(timeout, () => this.#complete(group))
  }

  #complete(group: Group): void {
    group.cancelRebalance()
    group.cancelRebalance = noop
    group.isRebalancing = false
    for (const member of group.members.values()) {
      if (member.join !== null) continue
      member.cancelSession()
      group.members.delete(member.id)
    }
    group.generation++
    const members = [...group.members.values()]
    group.assigned =
      members.length === 0
        ? new Map()
        : assignWithStandby(
            members.map(({ id, request }) => ({ memberId: id, ...request.reported })),
            this.partitions,
          )
    for (const member of members) {
      const answer = member.join!
      member.join = null
      this.#startSession(group, member)
      answer({ memberId: member.id, generation: group.generation })
    }
  }

  #topicOf(name: string): Array<Array<IncomingRecord>> {
    let topic = this.#topics.get(name)
    if (topic === undefined) {
      topic = Array.from({ length: this.partitions }, () => [])
      this.#topics.set(name, topic)
    }
    return topic
  }

  #groupOf(id: string): Group {
    let group = this.#groups.get(id)
    if (group === undefined) {
      group = {
        members: new Map(),
        committed: new Map(),
        assigned: new Map(),
        generation: 0,
        isRebalancing: false,
        cancelRebalance: noop,
      }
      this.#groups.set(id, group)
    }
    return group
  }
}

/** The record as a version with one more schema writes it. */
const withNewerSchema = (value: Uint8Array): Uint8Array => {
  const bytes = Uint8Array.from(value)
  new DataView(bytes.buffer).setInt32(1, NEWEST_SCHEMA + 1)
  return bytes
}
