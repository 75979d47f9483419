/** Finds free ports for the servers and apps of tests, and used ones. */
import { createSocket } from 'node:dgram'
import { connect, createServer } from 'node:net'

/** Whether this process can listen on a TCP port of the loopback interface. */
export const isFree = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const server = createServer()
    server.once('error', () => resolve(false))
    server.listen({ port, host: '127.0.0.1', exclusive: true }, () => server.close(() => resolve(true)))
  })

/**
 * Reserves a TCP port until this process ends: a program that starts for seconds finds it free, although other tests look
 * for ports meanwhile. Who reserves a port listens on the UDP port of the same number. False: another process has it.
 */
export const reservePort = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = createSocket('udp4').unref()
    socket.once('error', () => resolve(false))
    socket.bind({ port, address: '127.0.0.1', exclusive: true }, () => resolve(true))
  })

/** Below the ports of test hubs and the ephemeral ports, which the system gives to any connection. */
const RANGE = { from: 10_000, to: 20_000 }
/** So many attempts fail only if nearly the whole range is in use. */
const ATTEMPTS = 50

/** Returns a free TCP port of the loopback address. It belongs to this process until it ends. */
export const freePort = async (): Promise<number> => {
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    const port = RANGE.from + Math.floor(Math.random() * (RANGE.to - RANGE.from))
    if ((await isFree(port)) && (await reservePort(port))) return port
  }
  throw new Error(`there is no free port from ${RANGE.from} to ${RANGE.to}`)
}

/** Whether a program accepts connections there. */
export const accepts = (port: number, host = '127.0.0.1'): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect({ host, port }, () => {
      socket.destroy()
      resolve(true)
    })
    socket.once('error', () => resolve(false))
  })
