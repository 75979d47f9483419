/** Runs command lines in tests. The image does not contain it. */
export { captureRun, type RunResult } from './capture-run.ts'
export { commandLineContract } from './command-line.contract.ts'
