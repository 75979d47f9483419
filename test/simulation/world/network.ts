/**
 * Requests between processes and servers. A request can fail before it has an effect, have its
 * effect and fail, get no answer, be executed late or twice, or in part.
 */
import type { SimulatedHost, SimulatedRequest } from '@hub/kafka/testing'
import type { CallFault, Faults } from './faults.ts'
import type { SimulatedProcess } from './process.ts'
import { SeededRandom } from './random.ts'
import type { World } from './world.ts'

export type Request<A> = Omit<SimulatedRequest<A>, 'name'> & {
  readonly name: string
  /** The faults that the transport can have. Default: all. */
  readonly faults?: ReadonlyArray<CallFault>
}

/** `sluggish`: it needs up to a second and a half for each request. */
type ServerState = 'up' | 'refusing' | 'hanging' | 'sluggish'

const SLUGGISH_MS = [300, 1500] as const

const ALL: ReadonlyArray<CallFault> = ['failBefore', 'failAfter', 'lost', 'late', 'twice', 'slow', 'partial']
/** A repeated request of the coordinator is another one. */
const OF_GROUPS: ReadonlyArray<CallFault> = ['failBefore', 'failAfter', 'lost', 'slow']
const GROUP_REQUESTS = new Set(['join', 'sync', 'heartbeat', 'leave', 'fetch'])
/** One broker of a cluster is the coordinator of a group. The others have the partitions. */
const COORDINATOR_REQUESTS = new Set(['join', 'sync', 'heartbeat', 'leave', 'commit'])

export class Network {
  readonly #world: World
  readonly #faults: Faults
  readonly #random: SeededRandom
  readonly #states = new Map<string, ServerState>()
  readonly #arrivals = new Map<string, number>()
  /** When processes reach their coordinator again. */
  readonly #isolatedUntil = new Map<SimulatedProcess, number>()

  constructor(world: World, faults: Faults) {
    this.#world = world
    this.#faults = faults
    this.#random = new SeededRandom(world.seed, 'network')
  }

  set(server: string, state: ServerState): void {
    this.#world.note(server, () => `is ${state}`)
    this.#states.set(server, state)
  }

  /** For this time the process gets no answer from the coordinator of its group. */
  isolate(process: SimulatedProcess, ms: number): void {
    this.#world.note(process.name, () => `does not reach its coordinator for ${ms} ms`)
    this.#isolatedUntil.set(process, this.#world.now() + ms)
  }

  #isIsolated(process: SimulatedProcess, server: string, request: string): boolean {
    return (
      server === 'kafka' &&
      COORDINATOR_REQUESTS.has(request) &&
      (this.#isolatedUntil.get(process) ?? 0) > this.#world.now()
    )
  }

  #latency(state: ServerState = 'up'): number {
    if (state === 'sluggish') return this.#random.between(...SLUGGISH_MS)
    return this.#random.chance(0.95) ? this.#random.between(1, 4) : this.#random.between(5, 400)
  }

  /** The requests of a process to Kafka. */
  kafkaHost(process: SimulatedProcess): SimulatedHost {
    return {
      schemaVersion: process.schemaVersion,
      after: (ms, act) => process.after(ms, act),
      wake: (act) => void this.#world.after(this.#random.between(0, 3), () => process.post(act)),
      choose: (below) => this.#random.below(below),
      request: (request) => this.request(process, 'kafka', request),
    }
  }

  request<A>(process: SimulatedProcess, server: string, request: Request<A>): void {
    const world = this.#world
    const { describe, name, onAnswer, onFailure, order, parts = 1, serve, timeoutMs } = request
    const note = (what: string) =>
      world.note(process.name, () => `${server} ${name}: ${what} — ${describe()}`)
    const state = this.#isIsolated(process, server, name) ? 'hanging' : (this.#states.get(server) ?? 'up')
    const fault =
      state === 'up' || state === 'sluggish'
        ? this.#faults.ofCall(
            server,
            () => `${name} of ${process.name} (${describe()})`,
            request.faults ?? (GROUP_REQUESTS.has(name) ? OF_GROUPS : ALL),
          )
        : null
    let isOver = false
    const end = (act: () => void) => {
      if (isOver) return
      isOver = true
      cancelTimeout()
      act()
    }
    const fail = (reason: 'refused' | 'timeout', isExecuted: boolean) =>
      end(() => {
        note(`fails (${reason})`)
        onFailure(reason, isExecuted)
      })
    // The process itself measures the time, so that it notices nothing while it stands still.
    const cancelTimeout = process.after(timeoutMs, () => fail('timeout', true))
    const refuse = (isExecuted: boolean) =>
      world.after(this.#latency(), () => process.post(() => fail('refused', isExecuted)))
    if (state === 'refusing' || fault === 'failBefore') return void refuse(false)
    if (state === 'hanging' || fault === 'lost') return

    const execute = (isAnswered: boolean, isIncluded: (part: number) => boolean = () => true) => {
      if (fault !== null) note(`is executed (${fault})`)
      serve((value) => {
        if (!isAnswered) return
        world.after(this.#latency(), () => process.post(() => end(() => onAnswer(value))))
      }, isIncluded)
    }
    if (fault === 'late') {
      return void world.after(timeoutMs + this.#random.between(1, 8000), () => execute(false))
    }
    const delay =
      fault === 'slow' ? this.#random.between(100, Math.max(200, timeoutMs)) : this.#latency(state)
    const key = order === undefined ? null : `${process.name} ${order}`
    const arrivesAt = Math.max(world.now() + delay, key === null ? 0 : (this.#arrivals.get(key) ?? 0))
    if (key !== null && fault !== 'slow') this.#arrivals.set(key, arrivesAt)
    world.after(arrivesAt - world.now(), () => {
      switch (fault) {
        case 'failAfter':
          execute(false)
          return void refuse(true)
        case 'partial': {
          const included = Array.from({ length: parts }, () => this.#random.chance(0.5))
          execute(false, (part) => included[part] ?? false)
          return void refuse(true)
        }
        case 'twice':
          execute(true)
          return void world.after(this.#random.between(0, 2000), () => execute(false))
        default:
          return execute(true)
      }
    })
  }
}
