/**
 * The partitioner of the Java client: murmur2 of the key's UTF-8 bytes. Every Kafka client then
 * finds the records of a recipient in the same partition.
 */
const SEED = 0x9747b28c
const M = 0x5bd1e995

const utf8 = new TextEncoder()

/** Java's `Utils.murmur2`, as a signed 32-bit integer. */
const murmur2 = (data: Uint8Array): number => {
  const { length } = data
  let h = SEED ^ length
  let i = 0
  for (; i + 4 <= length; i += 4) {
    let k = data[i]! | (data[i + 1]! << 8) | (data[i + 2]! << 16) | (data[i + 3]! << 24)
    k = Math.imul(k, M)
    k ^= k >>> 24
    k = Math.imul(k, M)
    h = Math.imul(h, M) ^ k
  }
  const rest = length - i
  if (rest === 3) h ^= data[i + 2]! << 16
  if (rest >= 2) h ^= data[i + 1]! << 8
  if (rest >= 1) h = Math.imul(h ^ data[i]!, M)
  h ^= h >>> 13
  h = Math.imul(h, M)
  h ^= h >>> 15
  return h | 0
}

/** The partition that the default partitioner of the Java client selects. */
export const partitionFor = (key: string, partitions: number): number =>
  (murmur2(utf8.encode(key)) & 0x7fffffff) % partitions
