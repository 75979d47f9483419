/**
 * Which faults a run has. The seed selects the kinds and how often they occur, so some runs have
 * many faults of one kind and others few of each. Each fault has a number, by which it can be left
 * out when a failing run is made smaller.
 */
import { SeededRandom } from './random.ts'

const CALL_FAULTS = ['failBefore', 'failAfter', 'lost', 'late', 'twice', 'slow', 'partial'] as const
export type CallFault = (typeof CALL_FAULTS)[number]

/**
 * `isolate`: the process does not reach the coordinator of its group, but the rest of Kafka.
 * `pauseSoon`: it stands still in the middle of its work, and is isolated when it continues.
 */
const PROCESS_FAULTS = ['kill', 'killSoon', 'pause', 'pauseSoon', 'isolate', 'move', 'stop'] as const

const SERVER_FAULTS = ['refusing', 'hanging', 'sluggish'] as const

export const FAULT_KINDS = [...CALL_FAULTS, ...PROCESS_FAULTS, ...SERVER_FAULTS] as const
export type FaultKind = (typeof FAULT_KINDS)[number]

/** Leaves faults out of a run. */
export interface FaultPlan {
  /** Only faults with a lower number occur. */
  readonly limit: number
  readonly without: ReadonlySet<number>
  /** Only faults of these kinds occur; `null`: the seed selects the kinds. */
  readonly kinds: ReadonlySet<FaultKind> | null
}

const CALL_RATES = [0, 0.002, 0.01, 0.03, 0.1]

export class Faults {
  readonly #random: SeededRandom
  readonly #plan: FaultPlan
  readonly #kinds = new Set<FaultKind>()
  readonly #rates = new Map<string, number>()
  #count = 0
  #isOver = false
  /** The faults that occurred, by number. */
  readonly occurred = new Map<number, string>()

  constructor(seed: number, services: ReadonlyArray<string>, plan: FaultPlan) {
    this.#random = new SeededRandom(seed, 'faults')
    this.#plan = plan
    for (const kind of FAULT_KINDS) {
      const isSelected = this.#random.chance(0.6)
      if (plan.kinds?.has(kind) ?? isSelected) this.#kinds.add(kind)
    }
    for (const service of services) this.#rates.set(service, this.#random.pick(CALL_RATES))
  }

  /** From now on nothing fails. */
  end(): void {
    this.#isOver = true
  }

  get isOver(): boolean {
    return this.#isOver
  }

  /** The fault of a call to a service, if any. */
  ofCall(service: string, describe: () => string, possible: ReadonlyArray<CallFault>): CallFault | null {
    if (this.#isOver || !this.#random.chance(this.#rates.get(service) ?? 0)) return null
    const kinds = possible.filter((kind) => this.#kinds.has(kind))
    if (kinds.length === 0) return null
    const kind = this.#random.pick(kinds)
    return this.#occurs(() => `${kind}: ${service} ${describe()}`) ? kind : null
  }

  /** Whether a fault that the schedule of the run contains occurs. */
  occurs(kind: FaultKind, describe: () => string): boolean {
    if (this.#isOver || !this.#kinds.has(kind)) return false
    return this.#occurs(() => `${kind}: ${describe()}`)
  }

  #occurs(describe: () => string): boolean {
    const number = this.#count++
    if (number >= this.#plan.limit || this.#plan.without.has(number)) return false
    this.occurred.set(number, describe())
    return true
  }
}
