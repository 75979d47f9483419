/**
 * A part of the crash matrix, another one each day. `HUB_CRASH_PART` selects one, and `npm run
 * chaos` runs all cells or one of them: see README.md.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { cellsOfPart, commandOf, nameOf, partOf, PARTS, wavesOf } from './cells.ts'
import { CELLS_AT_ONCE, type Results, runWave, WAVE_WITHIN_MS } from './run-wave.ts'
import { SCENARIOS } from './scenarios.ts'
import { startWorld, type World } from './world.ts'

const part = partOf(process.env['HUB_CRASH_PART'], Date.now())
const cells = cellsOfPart(part)

let world: World
beforeAll(async () => {
  console.log(
    `crash matrix: part ${part} of 0 to ${PARTS - 1}, ${cells.length} cells. ` +
      `Repeat it with HUB_CRASH_PART=${part} npm run test:e2e -- crash-matrix`,
  )
  world = await startWorld()
})
afterAll(() => world?.stop())

describe.each(wavesOf(cells, CELLS_AT_ONCE, ({ point }) => SCENARIOS[point].isAlone === true))(
  'crash points and faults that occur at the same time',
  (...wave) => {
    let running: Promise<Results> | null = null
    it.each(wave.map((cell) => [nameOf(cell), cell] as const))(
      '%s violates no guarantee',
      async (_name, cell) => {
        const results = await (running ??= runWave(world, wave))
        expect(results.get(cell), `run the cell alone with: ${commandOf(cell)}`).toBeNull()
      },
      WAVE_WITHIN_MS,
    )
  },
)
