/** The violations of a run: the name of the guarantee that does not hold, and where. */
import type { World } from './world.ts'

const MAX = 20

export class Violations {
  readonly all: Array<string> = []
  readonly #world: World

  constructor(world: World) {
    this.#world = world
  }

  add(name: string, detail: string): void {
    this.#world.note('VIOLATION', () => `${name}: ${detail}`)
    if (this.all.length < MAX) this.all.push(`${name}: ${detail}`)
  }
}

/** The name of the guarantee in a violation. */
export const nameOf = (violation: string): string => violation.slice(0, violation.indexOf(':'))
