/** Runs parts of a measurement in other processes, beside the event loop of the measured app. */
import { type ChildProcess, fork } from 'node:child_process'
import { eventually } from '@hub/testkit'

/** Starts a script of this folder, sends it the plan, and returns its first message. */
export const startScript = <A>(
  file: string,
  plan: object,
): Promise<{ readonly child: ChildProcess; readonly first: A }> =>
  new Promise((resolve, reject) => {
    const child = fork(new URL(file, import.meta.url))
    child.once('message', (first) => resolve({ child, first: first as A }))
    child.once('exit', (code) => reject(new Error(`${file} exited early with code ${code}.`)))
    child.send(plan)
  })

/** The counterpart in a script with one result: runs the plan, sends the result and ends. */
export const answerPlan = <Plan>(run: (plan: Plan) => Promise<unknown>): void => {
  process.once('message', (plan: Plan) => {
    void run(plan).then((result) => {
      process.send?.(result)
      process.disconnect()
    })
  })
}

/** Waits until a process answers this URL with success. */
export const waitUntilUp = async (child: ChildProcess, url: string): Promise<void> => {
  await eventually(
    async () => {
      if (child.exitCode !== null) return 'exited'
      return (await fetch(url)).ok
    },
    { withinMs: 60_000 },
  )
  if (child.exitCode !== null) throw new Error(`A process exited before it answered ${url}.`)
}
