/** The limit of connections for one address, on a real listener. */
import { once } from 'node:events'
import { createServer } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import { limitConnections } from './connection-limit.ts'

const open: Array<Socket> = []
const closers: Array<() => void> = []
afterEach(() => {
  for (const socket of open.splice(0)) socket.destroy()
  for (const close of closers.splice(0)) close()
})

const listen = async (isProxy: (address: string) => boolean = () => false): Promise<number> => {
  const server = createServer((_request, response) => response.end('ok'))
  limitConnections(server, { all: 10, perAddress: 3 }, isProxy)
  closers.push(() => server.close())
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return (server.address() as AddressInfo).port
}

/** Sends a request over a new connection. Returns whether it got an answer. */
const isServed = async (port: number, localAddress: string): Promise<boolean> => {
  const socket = connect({ port, host: '127.0.0.1', localAddress })
  open.push(socket)
  socket.on('error', () => undefined)
  const ended = new Promise<boolean>((resolve) => {
    socket.once('data', () => resolve(true))
    socket.once('close', () => resolve(false))
  })
  socket.write('GET / HTTP/1.1\r\nHost: hub\r\n\r\n')
  return ended
}

/** Opens connections one after the other. */
const serve = async (port: number, localAddress: string, times: number): Promise<ReadonlyArray<boolean>> => {
  const served: Array<boolean> = []
  for (let i = 0; i < times; i++) served.push(await isServed(port, localAddress))
  return served
}

describe('the connections of one address', () => {
  it('are limited, and leave room for other addresses', async () => {
    const port = await listen()
    expect(await serve(port, '127.0.0.1', 5)).toEqual([true, true, true, false, false])
    expect(await serve(port, '127.0.0.2', 1)).toEqual([true])
  })

  it('have room again when one of them has closed', async () => {
    const port = await listen()
    await serve(port, '127.0.0.1', 3)
    const [first] = open
    first!.end()
    await once(first!, 'close')
    expect(await serve(port, '127.0.0.1', 1)).toEqual([true])
  })

  it('are not limited for a trusted proxy', async () => {
    const port = await listen((address) => address === '127.0.0.1')
    expect(await serve(port, '127.0.0.1', 5)).toEqual([true, true, true, true, true])
  })
})
