/**
 * The simulated world: virtual time, and processes that run one task at a time. A run is
 * synchronous, so that nothing outside of the world can take part in it. The seed determines which
 * process runs next.
 */
import type { SchemaVersion } from '@hub/kafka/testing'
import { SimulatedProcess } from './process.ts'
import { SeededRandom } from './random.ts'
import { Timers } from './timers.ts'

export interface TimelineEntry {
  /** Milliseconds since the start of the world. */
  readonly at: number
  readonly who: string
  readonly what: string
}

/** Monday, 2026-11-02 08:00 UTC. */
export const STARTED_AT = Date.UTC(2026, 10, 2, 8)

/** A world that runs more tasks than this has an endless loop. */
const MAX_TASKS = 3_000_000
const CHECK_EVERY_MS = 500

export class World {
  readonly seed: number
  readonly #random: SeededRandom
  readonly #timers = new Timers()
  readonly #timeline: Array<TimelineEntry> | null
  #ready: Array<SimulatedProcess> = []
  #now = STARTED_AT
  #tasks = 0
  #digest = 0x811c9dc5
  readonly errors: Array<string> = []
  /** What processes have logged as a warning, by process. */
  readonly warnings = new Map<string, Array<string>>()
  /** The version of the record schemas in a process that starts now. */
  schemaVersion: () => SchemaVersion = () => 'current'
  /** Until then nothing happens: all processes are stopped, and nobody waits for them. */
  quietUntil = 0
  /** The process whose task runs now. */
  current: SimulatedProcess | null = null

  constructor(seed: number, options: { readonly keepTimeline: boolean }) {
    this.seed = seed
    this.#random = new SeededRandom(seed, 'interleaving')
    this.#timeline = options.keepTimeline ? [] : null
  }

  /** Milliseconds since the epoch. */
  now(): number {
    return this.#now
  }

  get tasks(): number {
    return this.#tasks
  }

  /** Equal for two runs only if their tasks ran at the same times in the same processes. */
  get digest(): number {
    return this.#digest >>> 0
  }

  get timeline(): ReadonlyArray<TimelineEntry> {
    return this.#timeline ?? []
  }

  note(who: string, what: () => string): void {
    this.#timeline?.push({ at: this.#now - STARTED_AT, who, what: what() })
  }

  onErrorLogged(who: string, text: string): void {
    this.errors.push(`${who}: ${text}`)
  }

  onWarningLogged(who: string, text: string): void {
    const own = this.warnings.get(who)
    if (own === undefined) this.warnings.set(who, [text])
    else own.push(text)
  }

  after(ms: number, act: () => void): () => void {
    return this.#timers.add(this.#now + Math.max(0, ms), act)
  }

  /** As `after`, but not while all processes are stopped. */
  afterQuiet(ms: number, act: () => void): () => void {
    return this.after(Math.max(ms, this.quietUntil - this.#now), act)
  }

  startProcess(name: string, clockSkewMs: number): SimulatedProcess {
    const process = new SimulatedProcess(
      this,
      name,
      clockSkewMs,
      this.schemaVersion(),
      new SeededRandom(this.seed, `process ${name}`),
    )
    this.note(
      name,
      () =>
        `starts with ${process.schemaVersion} schemas${clockSkewMs === 0 ? '' : ` with a clock that is wrong by ${clockSkewMs} ms`}`,
    )
    return process
  }

  onReady(process: SimulatedProcess): void {
    if (!this.#ready.includes(process)) this.#ready.push(process)
  }

  /** Runs until the condition holds, at most for this time. Returns whether it holds. */
  runUntil(isDone: () => boolean, withinMs: number): boolean {
    const limit = this.#now + withinMs
    for (;;) {
      if (isDone()) return true
      if (!this.#step(limit)) return false
    }
  }

  /** As `runUntil`, for a condition that is expensive to check. */
  runUntilSometimes(isDone: () => boolean, withinMs: number): boolean {
    let checkedAt = Number.NEGATIVE_INFINITY
    return this.runUntil(() => {
      if (this.#now < checkedAt + CHECK_EVERY_MS) return false
      checkedAt = this.#now
      return isDone()
    }, withinMs)
  }

  runFor(ms: number): void {
    const limit = this.#now + ms
    while (this.#step(limit));
  }

  /** Runs one task, or else moves the clock to the next timer. False at the limit. */
  #step(limit: number): boolean {
    const ready = this.#ready
    while (ready.length > 0) {
      const index = ready.length === 1 ? 0 : this.#random.below(ready.length)
      const process = ready[index]!
      if (!process.isReady) {
        ready[index] = ready.at(-1)!
        ready.pop()
        continue
      }
      this.#runTask(process)
      return true
    }
    const nextAt = this.#timers.nextAt()
    if (nextAt === null || nextAt > limit) {
      this.#now = limit
      return false
    }
    this.#now = Math.max(this.#now, nextAt)
    this.#timers.take()()
    return true
  }

  #runTask(process: SimulatedProcess): void {
    if (++this.#tasks > MAX_TASKS) throw new Error('the simulated world does not come to rest')
    this.#digest = Math.imul(this.#digest ^ (this.#now % 0x7fffffff), 0x01000193)
    this.#digest = Math.imul(this.#digest ^ process.name.length, 0x01000193)
    this.current = process
    try {
      process.step()
    } finally {
      this.current = null
    }
  }
}
