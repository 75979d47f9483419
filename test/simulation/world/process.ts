/**
 * A simulated operating-system process. It runs its tasks one after the other, in their order, like
 * the event loop of Node. It can die between any two tasks, stand still, and have a wrong clock.
 */
import type { SchemaVersion } from '@hub/kafka/testing'
import { Clock, Context, Effect, Logger, Random, References, type Scheduler } from 'effect'
import { clockOf } from './clock.ts'
import type { SeededRandom } from './random.ts'

const MAX_OPERATIONS = 2048

/** What a process needs of its world. */
interface ProcessWorld {
  readonly now: () => number
  readonly after: (ms: number, act: () => void) => () => void
  readonly note: (who: string, what: () => string) => void
  /** The process may have a task to run. */
  readonly onReady: (process: SimulatedProcess) => void
  readonly onErrorLogged: (who: string, text: string) => void
  readonly onWarningLogged: (who: string, text: string) => void
}

export class SimulatedProcess {
  readonly world: ProcessWorld
  readonly name: string
  /** Milliseconds that its wall clock is ahead. */
  readonly clockSkewMs: number
  readonly schemaVersion: SchemaVersion
  readonly #onEnd: Array<() => void> = []
  #tasks: Array<() => void> = []
  #nextTask = 0
  #isAlive = true
  #pausedUntil = 0
  /** What happens to it when it has run this many more tasks. */
  #interruption: { tasks: number; readonly act: () => void } | null = null
  /** Services for the fibers of the process: its clock, its scheduler and its random numbers. */
  readonly context: Context.Context<never>

  constructor(
    world: ProcessWorld,
    name: string,
    clockSkewMs: number,
    schemaVersion: SchemaVersion,
    random: SeededRandom,
  ) {
    this.world = world
    this.name = name
    this.clockSkewMs = clockSkewMs
    this.schemaVersion = schemaVersion
    const clock = clockOf(
      () => this.wallClock(),
      () => world.now(),
      (ms, act) => this.after(ms, act),
    )
    const scheduler: Scheduler.Scheduler = {
      executionMode: 'async',
      shouldYield: (fiber) => fiber.currentOpCount >= MAX_OPERATIONS,
      makeDispatcher: () => ({ scheduleTask: (task) => this.post(task), flush: () => {} }),
    }
    const logger = Logger.make(({ logLevel, message }) => {
      if (logLevel === 'Debug' || logLevel === 'Trace') return
      const parts = [message].flat()
      // The text of a stack is expensive, and most are never read.
      const text = () => parts.map(textOf).join(' ')
      world.note(this.name, () => `logs ${logLevel}: ${text()}`)
      if (logLevel === 'Error' || logLevel === 'Fatal') world.onErrorLogged(this.name, text())
      else if (logLevel === 'Warn') world.onWarningLogged(this.name, String(parts[0]))
    })
    this.context = Context.empty().pipe(
      Context.add(Clock.Clock, clock),
      Context.add(References.Scheduler, scheduler),
      Context.add(References.CurrentLoggers, new Set([logger])),
      Context.add(Random.Random, {
        nextDoubleUnsafe: () => random.next(),
        nextIntUnsafe: () => Math.floor((random.next() * 2 - 1) * Number.MAX_SAFE_INTEGER),
      }),
    ) as Context.Context<never>
  }

  get isAlive(): boolean {
    return this.#isAlive
  }

  get isPaused(): boolean {
    return this.#pausedUntil > this.world.now()
  }

  /** Whether it has tasks to run now. */
  get isReady(): boolean {
    return this.#isAlive && this.#nextTask < this.#tasks.length && !this.isPaused
  }

  /** Milliseconds since the epoch, by the clock of the process. */
  wallClock(): number {
    return this.world.now() + this.clockSkewMs
  }

  /** Starts a fiber. */
  run(effect: Effect.Effect<void>): void {
    this.post(() => void Effect.runForkWith(this.context)(effect))
  }

  /** Adds a task. A dead process ignores it. */
  post(task: () => void): void {
    if (!this.#isAlive) return
    this.#tasks.push(task)
    if (this.#tasks.length - this.#nextTask === 1) this.world.onReady(this)
  }

  after(ms: number, act: () => void): () => void {
    return this.world.after(ms, () => this.post(act))
  }

  /** Runs its next task. */
  step(): void {
    const interruption = this.#interruption
    if (interruption !== null && --interruption.tasks < 0) {
      this.#interruption = null
      interruption.act()
      if (!this.isReady) return
    }
    const task = this.#tasks[this.#nextTask]!
    this.#nextTask++
    if (this.#nextTask > 1000) {
      this.#tasks = this.#tasks.slice(this.#nextTask)
      this.#nextTask = 0
    }
    task()
  }

  /** Ends it without any clean-up. What it has sent may still arrive. */
  kill(): void {
    if (!this.#isAlive) return
    this.#isAlive = false
    this.#tasks = []
    this.#nextTask = 0
    this.world.note(this.name, () => 'is killed')
    for (const onEnd of this.#onEnd) onEnd()
  }

  /** Kills it after this number of further tasks: in the middle of its work. */
  killAfter(tasks: number): void {
    this.interruptAfter(tasks, () => this.kill())
  }

  /** Does something to it after this number of further tasks, unless something else is to happen sooner. */
  interruptAfter(tasks: number, act: () => void): void {
    if (tasks < (this.#interruption?.tasks ?? Number.POSITIVE_INFINITY)) this.#interruption = { tasks, act }
  }

  /** It runs nothing for this time. Timers and answers wait, and it notices nothing. */
  pause(ms: number): void {
    if (!this.#isAlive) return
    this.#pausedUntil = Math.max(this.#pausedUntil, this.world.now() + ms)
    this.world.note(this.name, () => `stands still for ${ms} ms`)
    this.world.after(ms, () => this.world.onReady(this))
  }

  onEnd(act: () => void): void {
    this.#onEnd.push(act)
  }
}

const textOf = (part: unknown): string =>
  typeof part === 'string'
    ? part
    : part instanceof Error
      ? `${part.name}: ${part.message} ${part.stack ?? ''}`
      : typeof part === 'object' && part !== null && '_tag' in part
        ? JSON.stringify(part)
        : String(part)
