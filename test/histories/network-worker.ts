/** The proxies of a run, in a thread of their own. `network.ts` starts it and sends the commands. */
import { parentPort } from 'node:worker_threads'
import { type FaultProxy, faultProxy } from '@hub/testkit'
import { Effect, Exit, Scope } from 'effect'
import type { Command, Opened } from './network.ts'

if (parentPort === null) throw new Error('This module is for a worker thread.')
const port = parentPort
const proxies = new Map<string, FaultProxy>()
const scope = Effect.runSync(Scope.make())

const run = async (command: Command): Promise<Opened | null> => {
  if (command.do === 'open') {
    const proxy = await Effect.runPromise(Scope.provide(faultProxy(command.url), scope))
    proxies.set(command.name, proxy)
    return { port: proxy.port }
  }
  if (command.do === 'close') {
    await Effect.runPromise(Scope.close(scope, Exit.void))
    return null
  }
  const proxy = proxies.get(command.name)
  if (proxy === undefined) throw new Error(`There is no proxy ${command.name}.`)
  switch (command.do) {
    case 'retarget':
      proxy.retarget(command.url)
      proxy.reset()
      break
    case 'reset':
      proxy.reset()
      break
    case 'drop':
      proxy.drop(command.direction)
      break
    case 'delay':
      proxy.delay(command.ms)
      break
    case 'hold':
      proxy.hold()
      proxy.drop('both')
      break
    case 'release':
      proxy.release()
      // The held connections have no connection to the server.
      proxy.reset()
  }
  return null
}

port.on('message', ({ command, id }: { readonly command: Command; readonly id: number }) => {
  run(command).then(
    (answer) => port.postMessage({ id, answer }),
    (error: unknown) => port.postMessage({ id, error: String(error) }),
  )
})
