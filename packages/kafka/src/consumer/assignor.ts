/**
 * Assigns shards to the members of a group. Partition *p* of every topic goes to the same member,
 * and a shard stays with its owner as far as an even distribution allows. Every leader computes the
 * same result. New members may first get their shards on standby. The functions are pure, except
 * for `shardAssignor`, which connects them with kafkajs.
 */
import kafkajs, { type Assigner, type Cluster, type PartitionAssigner } from 'kafkajs'

const { AssignerProtocol } = kafkajs

/** What a member reports in JoinGroup (the user data of the consumer protocol). */
export interface AssignmentUserData {
  readonly memberId: string
  /** The generation in which it owned `shards`; -1 without shards; or `NEW_MEMBER`. */
  readonly generation: number
  readonly shards: ReadonlyArray<number>
}

/** The `generation` of a new member that may get its shards on standby first. */
export const NEW_MEMBER = -2

/** The shards that a rebalance gives to a member. */
interface AssignedShards {
  readonly shards: ReadonlyArray<number>
  /** Owned by other members, until this member takes them over. */
  readonly standby: ReadonlyArray<number>
}

/** The shards of a member in the newest generation that it took part in. */
export interface CurrentAssignment {
  readonly generation: number
  readonly shards: ReadonlySet<number>
  readonly standby: ReadonlySet<number>
}

export const NO_ASSIGNMENT: CurrentAssignment = { generation: -1, shards: new Set(), standby: new Set() }

type ReportedShards = Pick<CurrentAssignment, 'generation' | 'shards'>

/** The shards that a member reports when it joins. */
export const reportedShards = (
  { generation, shards, standby }: CurrentAssignment,
  isNewMember: boolean,
): ReportedShards => {
  if (isNewMember) return { generation: NEW_MEMBER, shards: new Set() }
  // A generation above all others: the owners lose exactly the shards that this member takes over.
  if (standby.size > 0) return { generation: generation + 1, shards: standby }
  return { generation, shards }
}

/** Shards that no other member owned between two generations, or that were and are on standby. */
export const retainedShards = (before: CurrentAssignment, now: CurrentAssignment): ReadonlySet<number> =>
  before.generation >= 0 && now.generation === before.generation + 1
    ? now.shards
        .intersection(before.shards.union(before.standby))
        .union(now.standby.intersection(before.standby))
    : new Set()

/**
 * Distributes the shards `0 … count − 1` evenly (the numbers of shards differ by at most one). Each
 * member keeps its shards up to its quota. Where two members report the same shard, the later
 * generation wins: the other member lost the shard without noticing it.
 */
export const assignShards = (
  userData: ReadonlyArray<AssignmentUserData>,
  count: number,
): ReadonlyMap<string, ReadonlyArray<number>> => {
  const members = [...userData].sort(
    (a, b) => b.generation - a.generation || (a.memberId < b.memberId ? -1 : a.memberId > b.memberId ? 1 : 0),
  )
  const owned = new Map<string, Array<number>>(members.map(({ memberId }) => [memberId, []]))
  if (members.length === 0) return owned
  const quota = Math.floor(count / members.length)
  let membersAboveQuota = count % members.length
  const free = new Set(Array.from({ length: count }, (_, shard) => shard))
  for (const { memberId, shards } of members) {
    const mine = owned.get(memberId)!
    for (const shard of shards) {
      if (mine.length > quota || (mine.length === quota && membersAboveQuota === 0)) break
      if (!free.delete(shard)) continue
      mine.push(shard)
      if (mine.length === quota + 1) membersAboveQuota--
    }
  }
  for (const shard of free) {
    let least: Array<number> | undefined
    for (const mine of owned.values()) if (least === undefined || mine.length < least.length) least = mine
    least!.push(shard)
  }
  for (const mine of owned.values()) mine.sort((a, b) => a - b)
  return owned
}

/**
 * As `assignShards`, but new members get their shards on standby as long as there are other
 * members. All shards are distributed among these meanwhile.
 */
export const assignWithStandby = (
  userData: ReadonlyArray<AssignmentUserData>,
  count: number,
): ReadonlyMap<string, AssignedShards> => {
  const target = assignShards(userData, count)
  const established = userData.filter(({ generation }) => generation !== NEW_MEMBER)
  const owned = established.length === 0 ? target : assignShards(established, count)
  return new Map(
    userData.map(({ memberId }) => {
      const shards = owned.get(memberId)
      return [memberId, { shards: shards ?? [], standby: shards === undefined ? target.get(memberId)! : [] }]
    }),
  )
}

/** The name of the assignment protocol. A change of user data or rules requires a new name. */
const PROTOCOL = 'hub-shards'

const decodeUserData = (memberId: string, metadata: Buffer): AssignmentUserData => {
  const userData = AssignerProtocol.MemberMetadata.decode(metadata)?.userData
  if (userData === undefined || userData === null || userData.length < 4) {
    return { memberId, generation: -1, shards: [] }
  }
  const shards: Array<number> = []
  for (let at = 4; at + 4 <= userData.length; at += 4) shards.push(userData.readInt32BE(at))
  return { memberId, generation: userData.readInt32BE(0), shards }
}

const encodeUserData = ({ generation, shards }: ReportedShards): Buffer => {
  const numbers = [generation, ...shards]
  const data = Buffer.alloc(4 * numbers.length)
  numbers.forEach((number, index) => data.writeInt32BE(number, 4 * index))
  return data
}

/**
 * The assignor for kafkajs, which asks `reported` at every join. `before-join-hook.ts` recognizes
 * the group by the object of `onCreated`. For a shard on standby a member gets only the partition
 * of `standbyTopic`. Without `standbyTopic` shards are owned at once.
 */
export const shardAssignor =
  (
    reported: () => ReportedShards,
    standbyTopic: string | undefined,
    onCreated: (assignor: Assigner) => void,
  ): PartitionAssigner =>
  ({ cluster }: { cluster: Cluster }) => {
    const assignor: Assigner = {
      name: PROTOCOL,
      version: 0,
      protocol: ({ topics }) => ({
        name: PROTOCOL,
        metadata: AssignerProtocol.MemberMetadata.encode({
          version: 0,
          topics,
          userData: encodeUserData(reported()),
        }),
      }),
      assign: async ({ members, topics }) => {
        const partitions = new Map(
          topics.map((topic) => [topic, cluster.findTopicPartitionMetadata(topic).length] as const),
        )
        const assigned = assignWithStandby(
          members.map(({ memberId, memberMetadata }) => decodeUserData(memberId, memberMetadata)),
          Math.max(0, ...partitions.values()),
        )
        return members.map(({ memberId }) => ({
          memberId,
          memberAssignment: AssignerProtocol.MemberAssignment.encode({
            version: 0,
            userData: Buffer.alloc(0),
            assignment: Object.fromEntries(
              [...partitions].map(([topic, count]) => {
                const { shards, standby } = assigned.get(memberId)!
                return [
                  topic,
                  [...shards, ...(topic === standbyTopic ? standby : [])].filter((p) => p < count),
                ]
              }),
            ),
          }),
        }))
      },
    }
    onCreated(assignor)
    return assignor
  }

/** The shards of an assignment. A shard with only its partition of `standbyTopic` is on standby. */
export const shardsOf = (
  assignment: Readonly<Record<string, ReadonlyArray<number>>>,
  standbyTopic: string | undefined,
): Pick<CurrentAssignment, 'shards' | 'standby'> => {
  const partitionsOf = (isIncluded: (topic: string) => boolean) =>
    new Set(
      Object.entries(assignment).flatMap(([topic, partitions]) => (isIncluded(topic) ? partitions : [])),
    )
  const shards = partitionsOf((topic) => topic !== standbyTopic)
  return { shards, standby: partitionsOf((topic) => topic === standbyTopic).difference(shards) }
}
