/** A data folder belongs to one supervisor at a time. */
import { beganAt, claimPidFile, isAlive, type PidFile, readPidFile, removePidFile } from './pidfile.ts'
import { endLeftovers } from './processes.ts'
import { Problem } from './problem.ts'
import type { Settings } from './settings.ts'
import { keepTogether, prepareDataDir, type Report, runDir } from './stack.ts'

const SUPERVISOR = 'supervisor'

/** Leftovers get the time that an orderly end takes; see the services' own bounds. */
const LEFTOVER_GRACE_MS = 15_000

const refusal = (dataDir: string, holder: PidFile): Problem =>
  new Problem(
    `A hub is running on ${dataDir} already (process ${holder.pid}): end it with \`npm stop\`, or start another beside it with HUB_DATA_DIR and HUB_PORT_BASE.`,
  )

/** Fails with a `Problem` where a supervisor holds a data folder. */
export const refuseSecond = async (dataDir: string): Promise<void> => {
  const holder = readPidFile(runDir(dataDir), SUPERVISOR)
  if (holder !== null && (await isAlive(holder))) throw refusal(dataDir, holder)
}

/**
 * Takes the data folder for this process and ends what a supervisor that was killed left running on it. Fails with a
 * `Problem` while another one runs. Answers how to give it back.
 */
export const claimDataDir = async (
  settings: Pick<Settings, 'dataDir' | 'databaseUrl'>,
  report: Report,
): Promise<() => void> => {
  const { dataDir } = settings
  prepareDataDir(dataDir)
  const began = await beganAt(process.pid)
  if (began === null) throw new Error('this process does not find itself')
  const run = runDir(dataDir)
  const holder = await claimPidFile(run, { name: SUPERVISOR, pid: process.pid, began, stopSignal: 'SIGTERM' })
  if (holder !== null) throw refusal(dataDir, holder)
  const ended = await endLeftovers(run, LEFTOVER_GRACE_MS, (name) => name !== SUPERVISOR)
  if (ended.length > 0) report(`ended what an interrupted start left running: ${ended.join(', ')}`)
  if (settings.databaseUrl === undefined) keepTogether(dataDir, report)
  return () => removePidFile(run, SUPERVISOR)
}

/**
 * Ends everything that runs on a data folder: its supervisor, which ends the rest, then what is left of it. Answers
 * the names of what ran.
 */
export const releaseDataDir = async (dataDir: string, graceMs: number): Promise<ReadonlyArray<string>> => {
  const run = runDir(dataDir)
  const supervisor = await endLeftovers(run, graceMs, (name) => name === SUPERVISOR)
  return [...supervisor, ...(await endLeftovers(run, LEFTOVER_GRACE_MS))]
}
