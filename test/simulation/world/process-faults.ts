/** Faults of processes and servers that begin at times that the seed determines. */
import type { Faults } from './faults.ts'
import type { Network } from './network.ts'
import type { SimulatedProcess } from './process.ts'
import type { SeededRandom } from './random.ts'
import type { Simulation } from './simulation.ts'
import type { World } from './world.ts'

const RESTART_WITHIN_MS = 12_000
const MOST_PROCESSES = 3
/** The time between two faults, at least and at most. */
const FAULTS_EVERY_MS = [300, 6000] as const

/** A process that has just started reads its partitions and takes them over within so many tasks. */
const STARTING_TASKS = 60
const PAUSED_WHILE_STARTING = 0.25
/** Longer than a session, so that another process takes its partitions over. */
const PAUSED_SOON_MS = [5000, 15_000] as const
const ISOLATED_AFTER_PAUSE_MS = 10_000

/** Keeps some processes of an app running, and ends, pauses and restarts them. */
export class ProcessFaults {
  readonly #world: World
  readonly #faults: Faults
  readonly #network: Network
  readonly #random: SeededRandom
  readonly #start: (number: number) => SimulatedProcess
  readonly #servers: ReadonlyArray<string>
  readonly #stops = new Map<SimulatedProcess, () => void>()
  readonly #app: string
  readonly #running = new Set<SimulatedProcess>()
  readonly #everyMs: readonly [number, number]
  #started = 0
  #wanted: number
  /** How often a process was ended or paused. */
  interruptions = 0
  readonly #interrupted = new Set<SimulatedProcess>()

  /** `start` starts a process of the app, whose number is new. */
  constructor(
    { faults, network, onUpgraded, random, servers, world }: Simulation,
    app: string,
    start: (number: number) => SimulatedProcess,
    everyMs: readonly [number, number] = FAULTS_EVERY_MS,
  ) {
    this.#app = app
    this.#everyMs = everyMs
    this.#world = world
    this.#faults = faults
    this.#network = network
    this.#servers = servers
    this.#start = start
    this.#random = random(`schedule of ${app}`)
    this.#wanted = this.#random.between(1, MOST_PROCESSES)
    onUpgraded(() => {
      for (const process of this.#running) {
        if (process.schemaVersion === 'current') this.#restart(process)
      }
    })
    for (let i = 0; i < this.#wanted; i++) this.#startLater(3000)
    this.#world.after(500 + this.#random.between(...everyMs), () => this.#causeFault())
  }

  /** How to end a process in an orderly way. */
  onStop(process: SimulatedProcess, stop: () => void): void {
    this.#stops.set(process, stop)
  }

  /** Ends all processes, and starts others after this time. */
  stopFor(ms: number): void {
    this.#world.note('world', () => `has no ${this.#app} for ${Math.round(ms / 1000)} s`)
    this.#world.quietUntil = this.#world.now() + ms
    for (const process of this.#running) process.kill()
  }

  /** Whether the process was never ended or paused. */
  isUnharmed(process: SimulatedProcess): boolean {
    return !this.#interrupted.has(process)
  }

  #startLater(withinMs: number): void {
    this.#world.afterQuiet(this.#random.between(0, withinMs), () => {
      // Faults of the quiet time are over.
      if (this.#world.now() < this.#world.quietUntil) return this.#startLater(withinMs)
      if (this.#running.size >= this.#wanted) return
      const process = this.#start(++this.#started)
      this.#running.add(process)
      if (this.#random.chance(PAUSED_WHILE_STARTING))
        this.#pauseSoon(process, this.#random.below(STARTING_TASKS))
      process.onEnd(() => {
        this.#running.delete(process)
        this.#stops.delete(process)
        this.#startLater(RESTART_WITHIN_MS)
      })
    })
  }

  #restart(process: SimulatedProcess): void {
    this.interruptions++
    this.#interrupted.add(process)
    const stop = this.#stops.get(process)
    if (stop === undefined) process.kill()
    else stop()
  }

  #pauseSoon(process: SimulatedProcess, tasks: number): void {
    const ms = this.#random.between(...PAUSED_SOON_MS)
    const isolatedMs = this.#random.between(0, ISOLATED_AFTER_PAUSE_MS)
    if (!this.#faults.occurs('pauseSoon', () => `${process.name} (${ms} ms, ${tasks} tasks)`)) return
    this.interruptions++
    this.#interrupted.add(process)
    process.interruptAfter(tasks, () => {
      process.pause(ms)
      this.#network.isolate(process, ms + isolatedMs)
    })
  }

  #causeFault(): void {
    if (this.#faults.isOver) return
    const random = this.#random
    const kind = random.pick([
      'kill',
      'killSoon',
      'pause',
      'pause',
      'pauseSoon',
      'isolate',
      'stop',
      'move',
      'refusing',
      'hanging',
      'sluggish',
    ] as const)
    const ms = random.between(1000, random.pick([3000, 8000, 20_000]))
    const tasks = random.below(300)
    const server = random.pick(this.#servers)
    const processes = [...this.#running]
    const process = processes.length === 0 ? null : processes[random.below(processes.length)]!
    if (kind === 'refusing' || kind === 'hanging' || kind === 'sluggish') {
      if (this.#faults.occurs(kind, () => `${server} for ${ms} ms`)) {
        // Sometimes the network is slow, not a server.
        const slow = kind === 'sluggish' && random.chance(0.3) ? this.#servers : [server]
        for (const one of slow) {
          this.#network.set(one, kind)
          this.#world.after(ms, () => this.#network.set(one, 'up'))
        }
      }
    } else if (kind === 'move') {
      if (this.#faults.occurs(kind, () => `one ${this.#app} more or less`)) {
        this.#wanted = this.#wanted === MOST_PROCESSES ? MOST_PROCESSES - 1 : this.#wanted + 1
        this.#startLater(1000)
      }
    } else if (kind === 'pauseSoon') {
      if (process !== null) this.#pauseSoon(process, tasks)
    } else if (
      process !== null &&
      this.#faults.occurs(kind, () => `${process.name} (${ms} ms, ${tasks} tasks)`)
    ) {
      this.interruptions++
      this.#interrupted.add(process)
      if (kind === 'kill') process.kill()
      else if (kind === 'killSoon') process.killAfter(tasks)
      else if (kind === 'pause') process.pause(ms)
      else if (kind === 'isolate') this.#network.isolate(process, ms)
      else this.#stops.get(process)?.()
    }
    this.#world.afterQuiet(random.between(...this.#everyMs), () => this.#causeFault())
  }
}
