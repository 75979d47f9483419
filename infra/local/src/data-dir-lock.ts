/** A data folder belongs to one supervisor at a time. */
import {
  processStartTime,
  lockPidFile,
  isAlive,
  type PidFile,
  readPidFile,
  removePidFile,
} from './pidfile.ts'
import { stopLeftoverProcesses } from './processes.ts'
import { UserError } from './user-error.ts'
import type { Settings } from './settings.ts'
import { discardUnmatchedData, prepareDataDir, type ReportProgress, runDir } from './stack.ts'

const SUPERVISOR = 'supervisor'

/** Leftovers get the time that an orderly end takes; see the services' own bounds. */
const LEFTOVER_STOP_MS = 15_000

const refusal = (dataDir: string, holder: PidFile): UserError =>
  new UserError(
    `A hub is running on ${dataDir} already (process ${holder.pid}): end it with \`npm stop\`, or start another beside it with HUB_DATA_DIR and HUB_PORT_BASE.`,
  )

/** Fails with a `UserError` where a supervisor holds a data folder. */
export const refuseIfRunning = async (dataDir: string): Promise<void> => {
  const holder = readPidFile(runDir(dataDir), SUPERVISOR)
  if (holder !== null && (await isAlive(holder))) throw refusal(dataDir, holder)
}

/**
 * Takes the data folder for this process and ends what a supervisor that was killed left running on it. Fails with a
 * `UserError` while another one runs. Answers how to give it back.
 */
export const lockDataDir = async (
  settings: Pick<Settings, 'dataDir' | 'databaseUrl'>,
  report: ReportProgress,
): Promise<() => void> => {
  const { dataDir } = settings
  prepareDataDir(dataDir)
  const began = await processStartTime(process.pid)
  if (began === null) throw new Error('this process does not find itself')
  const run = runDir(dataDir)
  const holder = await lockPidFile(run, { name: SUPERVISOR, pid: process.pid, began, stopSignal: 'SIGTERM' })
  if (holder !== null) throw refusal(dataDir, holder)
  const ended = await stopLeftoverProcesses(run, LEFTOVER_STOP_MS, (name) => name !== SUPERVISOR)
  if (ended.length > 0) report(`ended what an interrupted start left running: ${ended.join(', ')}`)
  if (settings.databaseUrl === undefined) discardUnmatchedData(dataDir, report)
  return () => removePidFile(run, SUPERVISOR)
}

/**
 * Ends everything that runs on a data folder: its supervisor, which ends the rest, then what is left of it. Answers
 * the names of what ran.
 */
export const stopProcessesOf = async (dataDir: string, graceMs: number): Promise<ReadonlyArray<string>> => {
  const run = runDir(dataDir)
  const supervisor = await stopLeftoverProcesses(run, graceMs, (name) => name === SUPERVISOR)
  return [...supervisor, ...(await stopLeftoverProcesses(run, LEFTOVER_STOP_MS))]
}
