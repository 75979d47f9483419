/** Finds free ports for the servers and apps of tests, and used ones. */
import { once } from 'node:events'
import { type AddressInfo, connect, createServer } from 'node:net'

/** Returns a TCP port that is free on the loopback address now. Another process may still take it. */
export const freePort = async (): Promise<number> => {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
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
