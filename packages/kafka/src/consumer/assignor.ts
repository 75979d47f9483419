/**
 * Who owns which shard. Partition *p* of every subscribed topic goes to the same member, shards stay where they
 * are as far as an even split allows, and every leader comes to the same answer. Members that come anew may wait on standby.
 */
import kafkajs, { type Assigner, type Cluster, type PartitionAssigner } from 'kafkajs'

const { AssignerProtocol } = kafkajs

/** What a member says of itself when it joins. */
export interface Claim {
  readonly memberId: string
  /** The generation in which it owned `shards`; -1 when it comes without any, `NEWCOMER` when it can wait for its share. */
  readonly generation: number
  readonly shards: ReadonlyArray<number>
}

/** The generation of a member that comes to others and may be given its share on standby first. */
export const NEWCOMER = -2

/** What a member gets. */
export interface Share {
  readonly shards: ReadonlyArray<number>
  /** Owned by others, and this member's when it asks. */
  readonly standby: ReadonlyArray<number>
}

/** What a member has by the newest generation that it took part in. */
export interface Holding {
  /** -1 before the first one. */
  readonly generation: number
  readonly shards: ReadonlySet<number>
  readonly standby: ReadonlySet<number>
}

/** What a member says of itself when it joins. */
export const claimOf = (
  { generation, shards, standby }: Holding,
  isNewcomer: boolean,
): { readonly generation: number; readonly shards: ReadonlySet<number> } => {
  if (isNewcomer) return { generation: NEWCOMER, shards: new Set() }
  // As from a later generation than any: the owners have to give up just these.
  if (standby.size > 0) return { generation: generation + 1, shards: standby }
  return { generation, shards }
}

/** Shards of which nobody else can have become the owner between two generations, or which were and are but read ahead. */
export const retainedOf = (before: Holding, now: Holding): ReadonlySet<number> =>
  before.generation >= 0 && now.generation === before.generation + 1
    ? now.shards
        .intersection(before.shards.union(before.standby))
        .union(now.standby.intersection(before.standby))
    : new Set()

/**
 * Splits shards `0 … count − 1` among members: evenly (no two differ by more than one), and each keeps what it has up
 * to its share. Two that claim the same shard: the later generation is right, the other lost it without knowing.
 */
export const assignShards = (
  claims: ReadonlyArray<Claim>,
  count: number,
): ReadonlyMap<string, ReadonlyArray<number>> => {
  const members = [...claims].sort(
    (a, b) => b.generation - a.generation || (a.memberId < b.memberId ? -1 : a.memberId > b.memberId ? 1 : 0),
  )
  const owned = new Map<string, Array<number>>(members.map(({ memberId }) => [memberId, []]))
  if (members.length === 0) return owned
  const share = Math.floor(count / members.length)
  let larger = count % members.length
  const free = new Set(Array.from({ length: count }, (_, shard) => shard))
  for (const { memberId, shards } of members) {
    const mine = owned.get(memberId)!
    for (const shard of shards) {
      if (mine.length > share || (mine.length === share && larger === 0)) break
      if (!free.delete(shard)) continue
      mine.push(shard)
      if (mine.length === share + 1) larger--
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
 * Splits shards as `assignShards` does, but newcomers get their share on standby as long as there is anybody else, among whom all shards
 * are split meanwhile.
 */
export const shareOut = (claims: ReadonlyArray<Claim>, count: number): ReadonlyMap<string, Share> => {
  const shares = assignShards(claims, count)
  const settled = claims.filter(({ generation }) => generation !== NEWCOMER)
  const owned = settled.length === 0 ? shares : assignShards(settled, count)
  return new Map(
    claims.map(({ memberId }) => {
      const shards = owned.get(memberId)
      return [memberId, { shards: shards ?? [], standby: shards === undefined ? shares.get(memberId)! : [] }]
    }),
  )
}

/** Of a member that takes part in no generation. */
export const NOTHING: Holding = { generation: -1, shards: new Set(), standby: new Set() }

/** Name of the protocol; members of a group must agree on it, so a change of its meaning is a change of its name. */
const NAME = 'hub-shards'

const readClaim = (memberId: string, metadata: Buffer): Claim => {
  const userData = AssignerProtocol.MemberMetadata.decode(metadata)?.userData
  if (userData === undefined || userData === null || userData.length < 4) {
    return { memberId, generation: -1, shards: [] }
  }
  const shards: Array<number> = []
  for (let at = 4; at + 4 <= userData.length; at += 4) shards.push(userData.readInt32BE(at))
  return { memberId, generation: userData.readInt32BE(0), shards }
}

const userDataOf = (held: { readonly generation: number; readonly shards: Iterable<number> }): Buffer => {
  const numbers = [held.generation, ...held.shards]
  const data = Buffer.alloc(4 * numbers.length)
  numbers.forEach((number, index) => data.writeInt32BE(number, 4 * index))
  return data
}

/**
 * The assigner for kafkajs. `held` is asked at every join; `made` hands over the assigner, by which the consumer
 * group that kafkajs keeps to itself is known again. Of shards on standby a member is given the partitions of `standbyTopic` alone, by
 * which it knows them (`shareOf`); without one it is given its share at once.
 */
export const shardAssigner =
  (
    held: () => { readonly generation: number; readonly shards: Iterable<number> },
    standbyTopic: string | undefined,
    made: (assigner: Assigner) => void,
  ): PartitionAssigner =>
  ({ cluster }: { cluster: Cluster }) => {
    const assigner: Assigner = {
      name: NAME,
      version: 0,
      protocol: ({ topics }) => ({
        name: NAME,
        metadata: AssignerProtocol.MemberMetadata.encode({
          version: 0,
          topics,
          userData: userDataOf(held()),
        }),
      }),
      assign: async ({ members, topics }) => {
        const partitions = new Map(
          topics.map((topic) => [topic, cluster.findTopicPartitionMetadata(topic).length] as const),
        )
        const shares = shareOut(
          members.map(({ memberId, memberMetadata }) => readClaim(memberId, memberMetadata)),
          Math.max(0, ...partitions.values()),
        )
        return members.map(({ memberId }) => ({
          memberId,
          memberAssignment: AssignerProtocol.MemberAssignment.encode({
            version: 0,
            userData: Buffer.alloc(0),
            assignment: Object.fromEntries(
              [...partitions].map(([topic, count]) => {
                const { shards, standby } = shares.get(memberId)!
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
    made(assigner)
    return assigner
  }

/** What a member was given: shards of which it has nothing but the partition of `standbyTopic` are on standby. */
export const shareOf = (
  assignment: Readonly<Record<string, ReadonlyArray<number>>>,
  standbyTopic: string | undefined,
): { readonly shards: ReadonlySet<number>; readonly standby: ReadonlySet<number> } => {
  const of = (isWanted: (topic: string) => boolean) =>
    new Set(Object.entries(assignment).flatMap(([topic, partitions]) => (isWanted(topic) ? partitions : [])))
  const shards = of((topic) => topic !== standbyTopic)
  return { shards, standby: of((topic) => topic === standbyTopic).difference(shards) }
}
