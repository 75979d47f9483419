/**
 * The network between the apps and their servers: a proxy for each server and zone. The proxies run
 * in a thread, so that the load does not delay them.
 */
import { Worker } from 'node:worker_threads'

export type Command =
  | { readonly do: 'open'; readonly name: string; readonly url: string }
  | { readonly do: 'retarget'; readonly name: string; readonly url: string }
  | { readonly do: 'reset'; readonly name: string }
  | { readonly do: 'drop'; readonly name: string; readonly direction: 'to server' | 'to client' | 'both' }
  | { readonly do: 'delay'; readonly name: string; readonly ms: number }
  | { readonly do: 'hold'; readonly name: string }
  | { readonly do: 'release'; readonly name: string }
  | { readonly do: 'close' }

export interface Opened {
  readonly port: number
}

export interface Network {
  /** Opens a proxy to the server at a URL and returns its port. */
  readonly open: (name: string, url: string) => Promise<number>
  readonly run: (command: Command) => Promise<void>
  /** CPU time of the thread so far, ms. */
  readonly cpuMs: () => Promise<number>
  readonly close: () => Promise<void>
}

interface Reply {
  readonly id: number
  readonly answer?: Opened | null
  readonly error?: string
}

export const startNetwork = (): Network => {
  const worker = new Worker(new URL('./network-worker.ts', import.meta.url))
  const waiting = new Map<
    number,
    { readonly resolve: (answer: Opened | null) => void; readonly reject: (error: Error) => void }
  >()
  let ids = 0
  worker.on('message', ({ answer, error, id }: Reply) => {
    const waiter = waiting.get(id)
    waiting.delete(id)
    if (error === undefined) waiter?.resolve(answer ?? null)
    else waiter?.reject(new Error(error))
  })
  worker.on('error', (error) => {
    for (const { reject } of waiting.values()) reject(error as Error)
    waiting.clear()
  })
  const ask = (command: Command): Promise<Opened | null> =>
    new Promise((resolve, reject) => {
      const id = ids++
      waiting.set(id, { resolve, reject })
      worker.postMessage({ id, command })
    })
  return {
    open: async (name, url) => {
      const opened = await ask({ do: 'open', name, url })
      if (opened === null) throw new Error(`The proxy ${name} has no port.`)
      return opened.port
    },
    run: async (command) => {
      await ask(command)
    },
    cpuMs: async () => {
      const { system, user } = await worker.cpuUsage()
      return (system + user) / 1000
    },
    close: async () => {
      await ask({ do: 'close' })
      await worker.terminate()
    },
  }
}
