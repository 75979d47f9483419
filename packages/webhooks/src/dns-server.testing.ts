/** A name server on the loopback address, for tests. It may answer differently the second time. */
import { createSocket, type Socket } from 'node:dgram'
import { Effect, type Scope } from 'effect'

const TYPE_A = 1
const TYPE_AAAA = 28

/** The addresses of a name; `null`: no response. `asked` counts its queries, from 1. */
export type Answer = (name: string, family: 4 | 6, asked: number) => ReadonlyArray<string> | null

interface DnsServer {
  /** `address:port`, for the resolver. */
  readonly address: string
  /** Queries for a name, both families together. */
  readonly asked: (name: string) => number
}

const bytesOf = (address: string, family: 4 | 6): Buffer =>
  family === 4
    ? Buffer.from(address.split('.').map(Number))
    : // Callers pass the uncompressed form.
      Buffer.from(
        address
          .split(':')
          .flatMap((group) => [Number.parseInt(group, 16) >> 8, Number.parseInt(group, 16) & 255]),
      )

const respond = (query: Buffer, answer: Answer, counts: Map<string, number>): Buffer | null => {
  const labels: Array<string> = []
  let at = 12
  for (let length = query[at] ?? 0; length > 0; length = query[at] ?? 0) {
    labels.push(query.toString('latin1', at + 1, at + 1 + length))
    at += 1 + length
  }
  const name = labels.join('.').toLowerCase()
  const type = query.readUInt16BE(at + 1)
  const family = type === TYPE_A ? 4 : 6
  const key = `${name} ${family}`
  counts.set(key, (counts.get(key) ?? 0) + 1)
  const addresses = type === TYPE_A || type === TYPE_AAAA ? answer(name, family, counts.get(key)!) : []
  if (addresses === null) return null
  const header = Buffer.alloc(12)
  query.copy(header, 0, 0, 2)
  // A response, recursion available, no error.
  header.writeUInt16BE(0x8180, 2)
  header.writeUInt16BE(1, 4)
  header.writeUInt16BE(addresses.length, 6)
  const records = addresses.map((address) => {
    const data = bytesOf(address, family)
    const record = Buffer.alloc(12)
    // A pointer to the name in the question; the time to live is 0.
    record.writeUInt16BE(0xc00c, 0)
    record.writeUInt16BE(type, 2)
    record.writeUInt16BE(1, 4)
    record.writeUInt16BE(data.length, 10)
    return Buffer.concat([record, data])
  })
  return Buffer.concat([header, query.subarray(12, at + 5), ...records])
}

export const dnsServer = (answer: Answer): Effect.Effect<DnsServer, never, Scope.Scope> =>
  Effect.gen(function* () {
    const counts = new Map<string, number>()
    const socket = yield* Effect.acquireRelease(
      Effect.callback<Socket>((resume) => {
        const socket = createSocket('udp4')
        socket.on('message', (query, from) => {
          const response = respond(query, answer, counts)
          if (response !== null) socket.send(response, from.port, from.address)
        })
        socket.bind(0, '127.0.0.1', () => resume(Effect.succeed(socket)))
      }),
      (socket) => Effect.callback<void>((resume) => void socket.close(() => resume(Effect.void))),
    )
    return {
      address: `127.0.0.1:${socket.address().port}`,
      asked: (name) => (counts.get(`${name} 4`) ?? 0) + (counts.get(`${name} 6`) ?? 0),
    }
  })
