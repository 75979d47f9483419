/**
 * Replaces the sources of time, randomness and timers of Node while a world runs. So the code of
 * the hub cannot make a run irreproducible by its use of the real ones. A run is synchronous, so no
 * other code sees the replacements.
 */
import crypto from 'node:crypto'
import { syncBuiltinESMExports } from 'node:module'
import net from 'node:net'
import { SeededRandom } from './random.ts'
import type { World } from './world.ts'

const forbidden = (name: string) => (): never => {
  throw new Error(`${name} is not available in a simulation: it belongs behind a port`)
}

/** Runs a simulation with the replacements, and restores the originals. */
export const withSimulatedGlobals = <A>(world: World, run: () => A): A => {
  // Caches outlive a run and are refilled with other sizes, so each size has its own stream.
  const streams = new Map<number, SeededRandom>()
  const streamOf = (size: number) => {
    let stream = streams.get(size)
    if (stream === undefined) streams.set(size, (stream = new SeededRandom(world.seed, `bytes ${size}`)))
    return stream
  }
  const uuids = new SeededRandom(world.seed, 'uuids')
  const doubles = new SeededRandom(world.seed, 'doubles')
  const bytesOf = (size: number) => {
    const bytes = Buffer.alloc(size)
    streamOf(size).fill(bytes)
    return bytes
  }
  const uuid = () => {
    const bytes = Buffer.alloc(16)
    uuids.fill(bytes)
    bytes[6] = (bytes[6]! & 0x0f) | 0x40
    bytes[8] = (bytes[8]! & 0x3f) | 0x80
    const text = bytes.toString('hex')
    return `${text.slice(0, 8)}-${text.slice(8, 12)}-${text.slice(12, 16)}-${text.slice(16, 20)}-${text.slice(20)}`
  }
  const wallClock = () => world.current?.wallClock() ?? world.now()

  const replaced: Array<() => void> = []
  const replace = <T extends object, K extends keyof T>(target: T, key: K, value: unknown) => {
    const original = Object.getOwnPropertyDescriptor(target, key)
    Object.defineProperty(target, key, { configurable: true, writable: true, enumerable: true, value })
    replaced.push(() => {
      if (original === undefined) delete target[key]
      else Object.defineProperty(target, key, original)
    })
  }
  replace(Date, 'now', wallClock)
  replace(performance, 'now', () => world.now())
  replace(Math, 'random', () => doubles.next())
  // The timers of a process run in virtual time and end with it.
  const inProcess = (name: string) => world.current ?? forbidden(`${name} outside of a process`)()
  const handleOf = (cancel: () => void) => {
    const handle = { cancel, ref: () => handle, unref: () => handle }
    return handle
  }
  replace(globalThis, 'setTimeout', (act: () => void, ms = 1) =>
    handleOf(inProcess('setTimeout').after(Math.max(1, ms), act)),
  )
  replace(globalThis, 'setImmediate', (act: () => void) => {
    let isCancelled = false
    inProcess('setImmediate').post(() => (isCancelled ? undefined : act()))
    return handleOf(() => {
      isCancelled = true
    })
  })
  for (const name of ['clearTimeout', 'clearImmediate'] as const) {
    replace(globalThis, name, (handle?: { readonly cancel: () => void }) => handle?.cancel())
  }
  for (const name of ['setInterval', 'queueMicrotask', 'fetch'] as const) {
    replace(globalThis, name, forbidden(name))
  }
  replace(net.Socket.prototype, 'connect', forbidden('a connection'))
  replace(crypto, 'randomBytes', bytesOf)
  replace(crypto, 'randomFillSync', (buffer: Uint8Array) => {
    streamOf(buffer.length).fill(buffer)
    return buffer
  })
  replace(crypto, 'randomUUID', uuid)
  syncBuiltinESMExports()
  try {
    return run()
  } finally {
    for (const restore of replaced.reverse()) restore()
    syncBuiltinESMExports()
  }
}
