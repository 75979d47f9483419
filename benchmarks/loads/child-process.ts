/** Runs parts of a measurement in other processes, beside the event loop of the measured app. */
import { type ChildProcess, fork, spawn } from 'node:child_process'
import { setTimeout as delay } from 'node:timers/promises'
import { eventually } from '@hub/testkit'

const running = new Set<ChildProcess>()
process.on('exit', () => {
  for (const child of running) child.kill('SIGKILL')
})

/** Ends the child with this process. */
export const tied = <C extends ChildProcess>(child: C): C => {
  running.add(child)
  return child.once('exit', () => running.delete(child))
}

/** Starts a script of this folder, sends it the plan, and returns its first message. */
export const startScript = <A>(
  file: string,
  plan: object,
): Promise<{ readonly child: ChildProcess; readonly first: A }> =>
  new Promise((resolve, reject) => {
    const child = tied(fork(new URL(file, import.meta.url)))
    child.once('message', (first) => resolve({ child, first: first as A }))
    child.once('exit', (code) => reject(new Error(`${file} exited early with code ${code}.`)))
    child.send(plan)
  })

/** The counterpart in a script with one result: runs the plan, sends the result and ends. */
export const answerPlan = <Plan>(run: (plan: Plan) => Promise<unknown>): void => {
  process.once('message', (plan: Plan) => {
    void run(plan).then((result) => {
      // A large result is written in several steps, which a disconnection would cut off.
      process.send?.(result, undefined, undefined, () => process.disconnect())
    })
  })
}

/** Waits until a time of the wall clock, ms since the epoch. So several processes begin at once. */
export const untilTime = (at: number): Promise<void> => delay(Math.max(0, at - Date.now()))

/**
 * Starts a program of the repository with this environment only, and waits until the URL `upAt`
 * answers with success.
 */
export const startProgram = async (
  main: string,
  options: {
    readonly environment: Readonly<Record<string, string>>
    readonly upAt: string
    readonly nodeFlags?: ReadonlyArray<string>
  },
): Promise<ChildProcess> => {
  const { environment, nodeFlags = [], upAt } = options
  const file = new URL(`../../${main}`, import.meta.url).pathname
  const child = tied(
    spawn(process.execPath, [...nodeFlags, file], {
      stdio: ['ignore', 'ignore', 'inherit'],
      env: { PATH: process.env['PATH'], ...environment },
    }),
  )
  const isUp = async () => child.exitCode !== null || (await fetch(upAt)).ok
  await eventually(isUp).catch((error: unknown) => {
    child.kill('SIGKILL')
    throw error
  })
  if (child.exitCode !== null) throw new Error(`${main} exited before it answered ${upAt}.`)
  return child
}
