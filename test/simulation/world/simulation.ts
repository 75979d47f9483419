/** One run: a world with its servers and faults, and the result of a scenario in it. */
import { SimulatedBroker } from '@hub/kafka/testing'
import { Clock, Context } from 'effect'
import { Violations } from './checks.ts'
import { clockOf } from './clock.ts'
import { Faults } from './faults.ts'
import { withSimulatedGlobals } from './globals.ts'
import { Network } from './network.ts'
import { SeededRandom } from './random.ts'
import { Upgrade } from './upgrade.ts'
import type { Plan, RunOptions, RunResult } from './run.ts'
import { World } from './world.ts'

const PARTITIONS = 2

export interface Simulation {
  readonly plan: Plan
  readonly world: World
  readonly faults: Faults
  readonly network: Network
  readonly broker: SimulatedBroker
  readonly violations: Violations
  readonly servers: ReadonlyArray<string>
  /** The clock of a server: without skew. */
  readonly serverClock: Context.Context<never>
  /** Ends all faults: no call, process or server fails any more. */
  readonly endFaults: () => void
  /** Called when the upgrade of all processes ends, if there is one: those with old schemas restart. */
  readonly onUpgraded: (restart: () => void) => void
  /** The random numbers of one purpose. */
  readonly random: (purpose: string) => SeededRandom
}

interface Scenario {
  /** The servers that can fail. */
  readonly servers: ReadonlyArray<string>
  /** Errors that the hub logs because a server is unavailable. All others are violations. */
  readonly expectedErrors?: RegExp
  /** Runs it, and returns the number of messages or events. */
  readonly run: (simulation: Simulation) => number
}

export const runScenario = (
  { expectedErrors, run, servers }: Scenario,
  plan: Plan,
  options: RunOptions,
): RunResult => {
  const world = new World(plan.seed, { keepTimeline: options.keepTimeline ?? false })
  return withSimulatedGlobals(world, () => {
    const startedAt = world.now()
    const faults = new Faults(plan.seed, servers, plan.faults)
    const network = new Network(world, faults)
    const now = () => world.now()
    const after = (ms: number, act: () => void) => world.after(ms, act)
    const violations = new Violations(world)
    const upgrade = new Upgrade(new SeededRandom(plan.seed, 'upgrade'), world)
    world.schemaVersion = () => upgrade.versionNow()
    const size = run({
      plan,
      world,
      faults,
      network,
      broker: new SimulatedBroker(PARTITIONS, { now, after }),
      violations,
      servers,
      serverClock: Context.make(Clock.Clock, clockOf(now, now, after)) as Context.Context<never>,
      endFaults: () => {
        faults.end()
        upgrade.end()
        for (const server of servers) network.set(server, 'up')
        world.note('world', () => 'has no more faults')
      },
      onUpgraded: (restart) => upgrade.onEnd(restart),
      random: (purpose) => new SeededRandom(plan.seed, purpose),
    })
    for (const error of world.errors) {
      if (expectedErrors?.test(error) !== true) violations.add('an error is logged', error)
    }
    return {
      plan,
      violations: violations.all,
      faults: faults.occurred,
      size,
      tasks: world.tasks,
      virtualMs: world.now() - startedAt,
      digest: world.digest,
      timeline: world.timeline,
    }
  })
}
