/** `npm run chaos`: runs the cells of the crash matrix. `--help` lists the options. */
import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { CRASH_POINTS } from '@hub/crash-points'
import { WrongOptions } from '../../support/command-line.ts'
import { type Cell, commandOf, HELP, nameOf, readOptions, wavesOf } from './cells.ts'
import { CELLS_AT_ONCE, runWave } from './run-wave.ts'
import { SCENARIOS } from './scenarios.ts'
import { startWorld, type World } from './world.ts'

/** Everything that a run writes is in one folder, which disappears with the process. */
const useOwnFolder = (): void => {
  const folder = mkdtempSync(join(tmpdir(), 'sms-delivery-hub-chaos-'))
  // If the tests run as root, PostgreSQL runs as another user.
  chmodSync(folder, 0o755)
  process.env['HUB_TEST_DIR'] = folder
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }))
}

const run = async (cells: ReadonlyArray<Cell>): Promise<number> => {
  let world: World | null = null
  let isInterrupted = false
  const interrupt = (): void => {
    if (isInterrupted) return
    isInterrupted = true
    console.log('Interrupted. The hub stops.')
    // If the hub is still starting, the end of this process stops it.
    void Promise.resolve(world?.stop()).finally(() => process.exit(130))
  }
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, interrupt)
  process.once('disconnect', interrupt)
  process.channel?.unref()

  useOwnFolder()
  const began = performance.now()
  const seconds = () => Math.round((performance.now() - began) / 1000)
  console.log(`${cells.length} cells. A hub with two processes of each app starts.`)
  world = await startWorld()
  console.log(`${String(seconds()).padStart(5)} s  The hub is ready.`)
  const failed = new Map<Cell, string>()
  let done = 0
  try {
    for (const wave of wavesOf(cells, CELLS_AT_ONCE, ({ point }) => SCENARIOS[point].isAlone === true)) {
      const results = await runWave(world, wave, (cell, violation) => {
        if (isInterrupted) return
        console.log(
          `${String(seconds()).padStart(5)} s  ${violation === null ? 'passed' : 'FAILED'}  ${nameOf(cell)}`,
        )
        if (violation !== null) console.log(`         ${violation}`)
      })
      if (isInterrupted) return await new Promise<never>(() => {})
      done += wave.length
      for (const [cell, violation] of results) if (violation !== null) failed.set(cell, violation)
      console.log(
        `${String(seconds()).padStart(5)} s  ${done} of ${cells.length} cells, ${failed.size} failed`,
      )
    }
  } finally {
    if (!isInterrupted) await world.stop()
  }
  if (failed.size > 0) {
    console.log('\nFailed:')
    for (const [cell, violation] of failed)
      console.log(`  ${nameOf(cell)}: ${violation}\n    ${commandOf(cell)}`)
  }
  console.log(`\n${cells.length - failed.size} passed, ${failed.size} failed`)
  return failed.size === 0 ? 0 : 1
}

try {
  const options = readOptions(process.argv.slice(2))
  if (options.command === 'run') process.exit(await run(options.cells))
  if (options.command === 'help') console.log(HELP)
  else for (const [point, sentence] of Object.entries(CRASH_POINTS)) console.log(`${point}\n  ${sentence}`)
} catch (error) {
  if (!(error instanceof WrongOptions)) throw error
  console.error(`${error.message} See npm run chaos -- --help.`)
  process.exitCode = 2
}
