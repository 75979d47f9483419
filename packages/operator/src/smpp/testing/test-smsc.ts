/** A small SMSC for tests. It uses real sockets, and a test can replace every answer. */
import { createServer, type Server, type Socket } from 'node:net'
import { createServer as createTlsServer } from 'node:tls'
import { Effect, type Scope } from 'effect'
import { decodePdu, encodePdu, type Fields, makeFrames, type Pdu } from '../pdu/index.ts'

export interface Connection {
  readonly socket: Socket
  /** Sends a request to the client. Its answer is added to `received`. */
  readonly send: (command: 'deliver_sm' | 'data_sm' | 'enquire_link' | 'unbind', fields?: Fields) => number
  readonly answer: (pdu: Pdu, status?: number, fields?: Fields) => void
  readonly received: Array<Pdu>
}

export interface TestSmsc {
  readonly port: number
  readonly connections: Array<Connection>
  /** All requests of all clients, in order. */
  readonly requests: Array<{ readonly connection: Connection; readonly pdu: Pdu }>
  readonly submits: () => ReadonlyArray<{ readonly connection: Connection; readonly pdu: Pdu }>
}

export type Handler = (connection: Connection, pdu: Pdu, smsc: TestSmsc) => void

/** Handlers by command. Default: binds succeed, and submissions are accepted with ids 1, 2, … */
export type Handlers = Partial<Record<string, Handler>>

export const makeTestSmsc = (
  handlers: Handlers = {},
  tls?: { readonly key: string; readonly cert: string },
): Effect.Effect<TestSmsc, never, Scope.Scope> =>
  Effect.gen(function* () {
    const connections: Array<Connection> = []
    const requests: TestSmsc['requests'] = []
    let lastId = 0
    const defaults: Handlers = {
      submit_sm: (connection, pdu) => connection.answer(pdu, 0, { message_id: String(++lastId) }),
      enquire_link: (connection, pdu) => connection.answer(pdu),
      unbind: (connection, pdu) => connection.answer(pdu),
    }
    const onSocket = (socket: Socket) => {
      const frames = makeFrames()
      let sequence = 0
      const connection: Connection = {
        socket,
        received: [],
        send: (command, fields = {}) => {
          socket.write(encodePdu(command, ++sequence, fields))
          return sequence
        },
        answer: (pdu, status = 0, fields = {}) => {
          socket.write(encodePdu(`${pdu.command}_resp` as 'submit_sm_resp', pdu.sequence, fields, status))
        },
      }
      connections.push(connection)
      socket.setNoDelay(true)
      socket.on('error', () => {})
      socket.on('data', (chunk: Buffer) => {
        frames.push(chunk)
        for (;;) {
          const frame = frames.next()
          if (!Buffer.isBuffer(frame)) return
          const pdu = decodePdu(frame)
          if (pdu.rest.length > 0) throw new Error('the client sent octets that are no valid PDU')
          if (pdu.isResponse) {
            connection.received.push(pdu)
            continue
          }
          requests.push({ connection, pdu })
          const handler =
            handlers[pdu.command] ??
            defaults[pdu.command] ??
            (pdu.command.startsWith('bind_')
              ? (connected: Connection, bind: Pdu) => connected.answer(bind, 0, { system_id: 'smsc' })
              : () => {})
          handler(connection, pdu, smsc)
        }
      })
    }
    const server = yield* Effect.acquireRelease(
      Effect.callback<Server>((resume) => {
        const listening = tls === undefined ? createServer(onSocket) : createTlsServer(tls, onSocket)
        listening.on('tlsClientError', () => {})
        listening.listen(0, '127.0.0.1', () => resume(Effect.succeed(listening)))
      }),
      (listening) =>
        Effect.callback<void>((resume) => {
          listening.close(() => resume(Effect.void))
          for (const { socket } of connections) socket.destroy()
        }),
    )
    const address = server.address()
    const smsc: TestSmsc = {
      port: typeof address === 'object' && address !== null ? address.port : 0,
      connections,
      requests,
      submits: () => requests.filter(({ pdu }) => pdu.command === 'submit_sm'),
    }
    return smsc
  })

/** The fields of a textual receipt. */
export const receiptOf = (
  id: string,
  more: { readonly stat?: string; readonly err?: string } = {},
): Fields => ({
  source_addr_ton: 1,
  source_addr_npi: 1,
  source_addr: '79001234567',
  destination_addr: 'HUB',
  esm_class: 0x04,
  short_message: Buffer.from(
    `id:${id} sub:001 dlvrd:001 submit date:2611211300 done date:2611211301 stat:${more.stat ?? 'DELIVRD'} err:${more.err ?? '000'} text:Code 12`,
  ),
})
