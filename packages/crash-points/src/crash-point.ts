/**
 * A crash point is a place directly behind an action that has happened. A test arms a point with a
 * fault; the first process that reaches the point then has this fault, once.
 *
 * Points work only with the setting `HUB_CRASH_POINTS`, which production refuses
 * (docs/decisions/testing.md#crash-points). Without it, each function below returns a function that returns
 * its argument: the decision is made once, when a module loads.
 *
 * The setting names a folder. The test creates `<point>.armed` with the name of the fault. The
 * process renames it, so that no second process takes it, and writes its process id to
 * `<point>.reached` before the fault.
 */
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import * as Effect from 'effect/Effect'
import { identity } from 'effect/Function'
import type { CrashPoint } from './points.ts'

const { HUB_CRASH_POINTS = '', HUB_DEPLOYMENT } = process.env
const folder = HUB_DEPLOYMENT === 'development' && HUB_CRASH_POINTS !== '' ? HUB_CRASH_POINTS : null

/** A signal to the own process may take effect shortly after the call, on another thread. */
const SIGNAL_WITHIN_MS = 1000

const sendSignal = (signal: 'SIGKILL' | 'SIGSTOP'): void => {
  process.kill(process.pid, signal)
  // Nothing else may happen in this process before the signal takes effect. After a SIGSTOP and a
  // SIGCONT, the rest of the time passes.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, SIGNAL_WITHIN_MS)
}

/** Has the fault that the point is armed with. True: the caller must report a failure. */
const reach = (from: string, point: CrashPoint): boolean => {
  const armed = join(from, `${point}.armed`)
  if (!existsSync(armed)) return false
  const taken = join(from, `${point}.taken-by-${process.pid}`)
  try {
    renameSync(armed, taken)
  } catch {
    // Another process has taken it.
    return false
  }
  const fault = readFileSync(taken, 'utf8')
  writeFileSync(taken, String(process.pid))
  renameSync(taken, join(from, `${point}.reached`))
  if (fault === 'kill') sendSignal('SIGKILL')
  else if (fault === 'stop') sendSignal('SIGSTOP')
  return fault === 'reported-failure'
}

/**
 * A point behind an effect that has succeeded. `failure` is what the port of the effect reports when
 * it fails. With `happened`, the point is reached only if the result shows that something happened.
 */
export const crashPoint = <F, B = unknown>(
  point: CrashPoint,
  failure: () => F,
  happened: (result: B) => boolean = () => true,
): (<A extends B, E, R>(effect: Effect.Effect<A, E | F, R>) => Effect.Effect<A, E | F, R>) =>
  folder === null
    ? identity
    : (effect) =>
        Effect.flatMap(effect, (result) =>
          happened(result) && reach(folder, point) ? Effect.fail(failure()) : Effect.succeed(result),
        )

/** A point behind an action that reports its failure as a result. */
export const crashPointOfValue = <F>(point: CrashPoint, failed: () => F): (<A>(result: A) => A | F) =>
  folder === null ? identity : (result) => (reach(folder, point) ? failed() : result)

const nothing = (): void => {}

/** A point behind an action that throws when it fails. */
export const crashPointThatThrows = (point: CrashPoint, failure: () => unknown): (() => void) =>
  folder === null
    ? nothing
    : () => {
        if (reach(folder, point)) throw failure()
      }

/**
 * Points behind an effect that has done several things of different types. Each point belongs to the
 * name of a type, and is reached if the effect has done something of it.
 */
export const crashPointsByType = <F>(
  points: Readonly<Record<string, CrashPoint>>,
  failure: () => F,
): (<A, E, R>(
  effect: Effect.Effect<A, E | F, R>,
  done: ReadonlyArray<{ readonly type: string }>,
) => Effect.Effect<A, E | F, R>) =>
  folder === null
    ? identity
    : (effect, done) =>
        Effect.flatMap(effect, (result) => {
          const failed = [...new Set(done.map(({ type }) => points[type]))].some(
            (point) => point !== undefined && reach(folder, point),
          )
          return failed ? Effect.fail(failure()) : Effect.succeed(result)
        })
