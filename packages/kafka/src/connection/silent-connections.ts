/**
 * Destroys connections to brokers that do not answer any more (docs/decisions/servers.md#kafka). kafkajs ends
 * the requests at their time limit, but continues to use the connection.
 */
import type { Socket } from 'node:net'
import * as Context from 'effect/Context'
import * as Metric from 'effect/Metric'
import type { ISocketFactory } from 'kafkajs'

/**
 * The slowest ordinary request, a produce, is answered within a tenth of this time. The rest is for a slow
 * network: two seconds for a round trip.
 */
const SILENT_AFTER_MS = 2500
/**
 * The broker waits for records for up to two seconds. The heartbeats of a consumer use another connection to
 * the same broker, which shows a silent broker earlier.
 */
const FETCH_SILENT_AFTER_MS = 3500
/** JoinGroup and SyncGroup wait for the other members, which have ten seconds to rejoin. */
const GROUP_SILENT_AFTER_MS = 12_000
/** The broker may take this long to create, change or delete topics. */
const ADMIN_SILENT_AFTER_MS = 30_000
const CHECK_EVERY_MS = 500
/** A longer gap between two checks means that the process was blocked, and has not read since. */
const BLOCKED_MS = 1000

const SILENT_AFTER: ReadonlyMap<number, number> = new Map([
  // Fetch.
  [1, FETCH_SILENT_AFTER_MS],
  ...[11, 14].map((apiKey) => [apiKey, GROUP_SILENT_AFTER_MS] as const),
  // CreateTopics, DeleteTopics, DeleteRecords, AlterConfigs, CreatePartitions, DeleteGroups,
  // ElectLeaders, IncrementalAlterConfigs, AlterPartitionReassignments.
  ...[19, 20, 21, 33, 37, 42, 43, 44, 45].map((apiKey) => [apiKey, ADMIN_SILENT_AFTER_MS] as const),
])

const replaced = Metric.counter('hub_kafka_connections_replaced_total', {
  description: 'Connections to brokers that did not answer.',
  incremental: true,
})
const context = Context.empty()
replaced.updateUnsafe(0, context)

/** Calls `onFrame` for each size-prefixed frame, when its API key has arrived, too. */
const frameReader = (onFrame: (apiKey: number) => void) => {
  let rest: Buffer = Buffer.alloc(0)
  let toSkip = 0
  return (chunk: Buffer): void => {
    let at = 0
    const octets = rest.length === 0 ? chunk : Buffer.concat([rest, chunk])
    rest = Buffer.alloc(0)
    while (at < octets.length) {
      if (toSkip > 0) {
        const skipped = Math.min(toSkip, octets.length - at)
        toSkip -= skipped
        at += skipped
      } else if (octets.length - at < 6) {
        rest = Buffer.from(octets.subarray(at))
        return
      } else {
        onFrame(octets.readInt16BE(at + 4))
        toSkip = 4 + octets.readInt32BE(at)
      }
    }
  }
}

/** The requests of a connection that wait for an answer. A broker answers them in their order. */
class Requests {
  readonly #waiting: Array<{ readonly apiKey: number; readonly since: number }> = []
  #receivedAt = 0
  readonly #readSent = frameReader((apiKey) => this.#waiting.push({ apiKey, since: performance.now() }))
  readonly #readReceived = frameReader(() => void this.#waiting.shift())

  onSent(chunk: Buffer): void {
    this.#readSent(chunk)
  }

  onReceived(chunk: Buffer): void {
    this.#receivedAt = performance.now()
    this.#readReceived(chunk)
  }

  isSilent(at: number, resumedAt: number): boolean {
    const oldest = this.#waiting[0]
    if (oldest === undefined) return false
    const since = Math.max(oldest.since, this.#receivedAt, resumedAt)
    return at - since >= (SILENT_AFTER.get(oldest.apiKey) ?? SILENT_AFTER_MS)
  }
}

/** All connections of the process have one timer: each wake-up of an idle process costs about 0.2 ms. */
const watched = new Map<Socket, Requests>()
let timer: NodeJS.Timeout | null = null
let checkedAt = 0
let resumedAt = 0

const check = () => {
  const at = performance.now()
  if (at - checkedAt > BLOCKED_MS) resumedAt = at
  checkedAt = at
  for (const [socket, requests] of watched) {
    if (!requests.isSilent(at, resumedAt)) continue
    watched.delete(socket)
    replaced.updateUnsafe(1, context)
    socket.destroy(Object.assign(new Error('The broker does not answer.'), { code: 'ETIMEDOUT' }))
  }
}

/** Opens sockets that are destroyed when the broker does not answer. */
export const destroySilent =
  (open: ISocketFactory): ISocketFactory =>
  (options) => {
    const socket = open(options)
    const requests = new Requests()
    watched.set(socket, requests)
    if (timer === null) {
      checkedAt = performance.now()
      timer = setInterval(check, CHECK_EVERY_MS)
      timer.unref()
    }
    const write = socket.write
    socket.write = ((chunk: Buffer, ...rest: []) => {
      requests.onSent(chunk)
      return Reflect.apply(write, socket, [chunk, ...rest]) as boolean
    }) as typeof socket.write
    socket.on('data', (chunk: Buffer) => requests.onReceived(chunk))
    socket.once('close', () => {
      watched.delete(socket)
      if (watched.size > 0 || timer === null) return
      clearInterval(timer)
      timer = null
    })
    return socket
  }
