/** The commands of the counters and shared texts, as the connections send them. */
import type { Redis } from 'ioredis'
import type { ScriptName } from './scripts.ts'

/** Runs a script with keys and arguments. Returns the answer of the script. */
export type RunScript = (
  name: ScriptName,
  keys: ReadonlyArray<string>,
  args: ReadonlyArray<string | number>,
) => Promise<unknown>

export interface Command {
  /** Decides which server of a cluster gets the command. All keys of a command are on the same one. */
  readonly key: string
  readonly send: (run: RunScript, redis: Redis) => Promise<unknown>
}

export const script = (
  name: ScriptName,
  keys: ReadonlyArray<string>,
  args: ReadonlyArray<string | number>,
): Command => ({ key: keys[0] ?? '', send: (run) => run(name, keys, args) })

/** The answer is a text, or `null` without one. */
export const get = (key: string): Command => ({ key, send: (_run, redis) => redis.get(key) })

/** Any server answers it. In a cluster, the one of the empty key does. */
export const PING: Command = { key: '', send: (_run, redis) => redis.ping() }
