/** Runs the cells of a wave at the same time on one hub, and checks each of them and the hub. */
import { inspect } from 'node:util'
import { setTimeout as delay } from 'node:timers/promises'
import { eventually } from '@hub/testkit'
import type { ArmedPoint } from './armed-points.ts'
import type { Cell } from './cells.ts'
import type { ProcessHandle } from '../../support/hub.ts'
import { STOPPED_MS } from './processes.ts'
import { SCENARIOS } from './scenarios.ts'
import { startTraffic, type Subscriptions, type Traffic } from './traffic.ts'
import { verifyCell, verifyHub } from './verify.ts'
import type { World } from './world.ts'

/** Cells of a wave: on two cores, more would wait for the processor. */
export const CELLS_AT_ONCE = 8

/** Only ends a cell whose point is never reached: the slowest one waits for three turns of the reconciler. */
const REACHED_WITHIN_MS = 400_000
/** Accepted sends before the point is armed: the hub and the subscription work. */
const SENDS_BEFORE = 8
/** The traffic continues so long after the fault. */
const AFTERWARDS_MS = 2000

const subscribe = async (world: World, request: Traffic['request'], path: string): Promise<Subscriptions> => {
  const create = async (mode: 'live' | 'test') => {
    const { body, status, text } = await request(mode, 'POST', '/v1/webhook_endpoints', {
      url: world.receiver.url(path),
    })
    if (status !== 201) throw new Error(`a subscription was not created: ${status} ${text}`)
    return body.id as string
  }
  return { live: await create('live'), test: await create('test') }
}

/** Waits until the fault has had its effect, and the process works again. */
const recover = async (world: World, pid: number, fault: Cell['fault']): Promise<void> => {
  const process: ProcessHandle | null = world.processes.find(pid)
  if (fault === 'kill' && process !== null) await world.processes.startKilled(process)
  if (fault === 'stop') await world.processes.continueStopped(pid, process)
}

/** Runs a cell without the checks of the whole hub. Throws with the first violation. */
const runCell = async (world: World, { fault, point }: Cell): Promise<void> => {
  const number = world.nextCell()
  const path = `/cell-${number}`
  const traffic = await startTraffic(world, number, (request) => subscribe(world, request, path))
  const prepared: Array<Promise<void>> = []
  let armed: ArmedPoint | null = null
  try {
    await eventually(
      () => [...traffic.sends.values()].filter(({ ids }) => ids.size > 0).length >= SENDS_BEFORE,
      { withinMs: REACHED_WITHIN_MS },
    )
    const own = await world.points.arm(point, fault)
    armed = own
    const deadline = performance.now() + REACHED_WITHIN_MS
    let isOver = false
    const acting = SCENARIOS[point].act({
      world,
      traffic,
      path,
      isReached: () => isOver || own.reachedBy() !== null,
      prepare: async (other, otherFault, alongside = async () => {}) => {
        const preparing = await world.points.arm(other, otherFault)
        try {
          const [pid] = await Promise.all([preparing.reached(deadline - performance.now()), alongside()])
          if (pid !== null) prepared.push(recover(world, pid, otherFault))
        } finally {
          preparing.release()
        }
      },
    })
    acting.catch(() => {})
    const pid = await Promise.race([
      own.reached(REACHED_WITHIN_MS),
      // A scenario that fails cannot reach the point.
      acting.then(
        () => own.reached(deadline - performance.now()),
        (error: unknown) => Promise.reject(error),
      ),
    ])
    isOver = true
    if (pid === null) throw new Error('the point was not reached')
    // The scenarios of other cells may need the point.
    own.release()
    armed = null
    if (fault === 'stop') traffic.slow()
    await recover(world, pid, fault)
    const check = await acting
    await Promise.all(prepared)
    await delay(AFTERWARDS_MS)
    await traffic.stop()
    await world.processes.waitReady()
    await check?.()
    await verifyCell(world, traffic, path)
  } finally {
    armed?.release()
    // After a violation, too: the next wave needs a hub without this traffic.
    await traffic.stop().catch(() => {})
  }
}

/** The violation of each cell; `null`: it passed. */
export type Results = ReadonlyMap<Cell, string | null>

/** The errors of unavailable servers have no message, but fields that say why. */
const messageOf = (error: unknown): string =>
  error instanceof Error && error.message !== '' ? error.message : inspect(error)

/** `onDone` is called when a cell has passed its own checks or failed. */
export const runWave = async (
  world: World,
  cells: ReadonlyArray<Cell>,
  onDone: (cell: Cell, violation: string | null) => void = () => {},
): Promise<Results> => {
  const results = new Map<Cell, string | null>()
  await Promise.all(
    cells.map(async (cell) => {
      let violation: string | null = null
      try {
        await runCell(world, cell)
      } catch (error) {
        violation = messageOf(error)
      }
      results.set(cell, violation)
      onDone(cell, violation)
    }),
  )
  try {
    await verifyHub(world)
  } catch (error) {
    for (const cell of cells) {
      const violation = `after the wave of ${cells.length} cells: ${messageOf(error)}`
      if (results.get(cell) === null) results.set(cell, violation)
      onDone(cell, violation)
    }
  }
  return results
}

/** A wave takes at most this long, ms: every wait in it is bounded. */
export const WAVE_WITHIN_MS = 3 * REACHED_WITHIN_MS + STOPPED_MS
