/** Locks a data folder, so that only one supervisor at a time uses it. The lock is a pid file. */
import {
  processStartTime,
  lockPidFile,
  isAlive,
  type PidFile,
  readPidFile,
  removePidFile,
} from './pidfile.ts'
import { killLeftoverProcesses, stopLeftoverProcesses } from './processes.ts'
import { UserError } from './user-error.ts'
import type { Settings } from './settings.ts'
import { discardUnmatchedData, prepareDataDir, type ReportProgress, runDir } from './stack.ts'

const SUPERVISOR = 'supervisor'

/** Time for leftover processes to stop before they are killed. The apps stop within 30 s. */
const LEFTOVER_STOP_MS = 35_000

const alreadyRunning = (dataDir: string, holder: PidFile): UserError =>
  new UserError(
    `A hub is running on ${dataDir} already (process ${holder.pid}): end it with \`npm stop\`, or start another beside it with HUB_DATA_DIR and HUB_PORT_BASE.`,
  )

/** Fails with a `UserError` if a supervisor runs on the data folder. */
export const refuseIfRunning = async (dataDir: string): Promise<void> => {
  const holder = readPidFile(runDir(dataDir), SUPERVISOR)
  if (holder !== null && (await isAlive(holder))) throw alreadyRunning(dataDir, holder)
}

/**
 * Locks the data folder for this process, and stops the processes that a killed supervisor left on
 * it. Fails with a `UserError` while another supervisor runs. Returns the function that unlocks the
 * folder.
 */
export const lockDataDir = async (
  settings: Pick<Settings, 'dataDir' | 'databaseUrl'>,
  report: ReportProgress,
): Promise<() => void> => {
  const { dataDir } = settings
  prepareDataDir(dataDir)
  const began = await processStartTime(process.pid)
  if (began === null) throw new Error('The start time of this process cannot be read.')
  const run = runDir(dataDir)
  const holder = await lockPidFile(run, { name: SUPERVISOR, pid: process.pid, began, stopSignal: 'SIGTERM' })
  if (holder !== null) throw alreadyRunning(dataDir, holder)
  const ended = await stopLeftoverProcesses(run, LEFTOVER_STOP_MS, (name) => name !== SUPERVISOR)
  if (ended.length > 0) report(`ended what an interrupted start left running: ${ended.join(', ')}`)
  if (settings.databaseUrl === undefined) discardUnmatchedData(dataDir, report)
  return () => removePidFile(run, SUPERVISOR)
}

/**
 * Stops all processes of a data folder: first the supervisor, which stops its children, then all
 * that remain. Returns the names of the stopped processes.
 */
export const stopProcessesOf = async (dataDir: string, graceMs: number): Promise<ReadonlyArray<string>> => {
  const run = runDir(dataDir)
  const supervisor = await stopLeftoverProcesses(run, graceMs, (name) => name === SUPERVISOR)
  return [...supervisor, ...(await stopLeftoverProcesses(run, LEFTOVER_STOP_MS))]
}

/** Kills all processes of a data folder at once, for a process that ends. */
export const killProcessesOf = (dataDir: string): void => killLeftoverProcesses(runDir(dataDir))
