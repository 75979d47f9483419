/**
 * The versions of the record schemas in the processes of a run. In some runs, processes that restart
 * have the next version; in others, either one. All have the next version after the faults.
 */
import type { SchemaVersion } from '@hub/kafka/testing'
import type { SeededRandom } from './random.ts'
import type { World } from './world.ts'

const BEGINS_WITHIN_MS = 25_000

export class Upgrade {
  readonly #random: SeededRandom
  readonly #world: World
  readonly #kind: 'none' | 'rolling' | 'mixed'
  readonly #beginsAt: number
  readonly #onEnd: Array<() => void> = []
  #isOver = false

  constructor(random: SeededRandom, world: World) {
    this.#random = random
    this.#world = world
    this.#kind = random.pick(['none', 'none', 'none', 'none', 'rolling', 'rolling', 'mixed'])
    this.#beginsAt = world.now() + random.between(0, BEGINS_WITHIN_MS)
  }

  /** The version of a process that starts now. */
  versionNow(): SchemaVersion {
    if (this.#kind === 'none' || this.#world.now() < this.#beginsAt) return 'current'
    if (this.#isOver || this.#kind === 'rolling') return 'next'
    return this.#random.pick(['current', 'next'])
  }

  onEnd(restart: () => void): void {
    this.#onEnd.push(restart)
  }

  end(): void {
    this.#isOver = true
    if (this.#kind !== 'none') for (const restart of this.#onEnd) restart()
  }
}
