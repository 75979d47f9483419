/** Reads what the processes of a hub and its servers have used so far. */
import type { Sql } from 'postgres'
import { cpuMs } from '../../test/support/cpu-time.ts'
import type { HubProcess } from '../../test/support/hub.ts'
import { type ByProcess, PROCESSES, type ProcessName, type Repetition } from '../pages/cost-results.ts'
import { cpuWithChildrenMs, proportionalMiB, proportionalWithChildrenMiB } from './process-usage.ts'
import { topicBytes } from './topic-bytes.ts'

export const byProcess = <A>(of: (name: ProcessName) => A): ByProcess<A> =>
  Object.fromEntries(PROCESSES.map((name) => [name, of(name)])) as unknown as ByProcess<A>

export interface Meter {
  /** CPU time since the start of each process, its ended children included, ms. */
  readonly cpu: () => ByProcess<number>
  /** Resident memory, where shared pages are divided among their processes, MiB. */
  readonly memory: () => ByProcess<number>
  readonly bytes: () => Promise<Repetition['bytes']>
}

export const makeMeter = (hub: HubProcess, sql: Sql): Meter => {
  const { pids } = hub.describe()
  const pidOf = (name: ProcessName): number => {
    const pid = pids[name]
    if (pid === undefined) throw new Error(`hub.json names no process ${name}.`)
    return pid
  }
  return {
    // The other processes of the hub are children of the supervisor, and count by themselves.
    cpu: () =>
      byProcess((name) => {
        const ms = name === 'supervisor' ? cpuMs(pidOf(name)) : cpuWithChildrenMs(pidOf(name))
        if (!(ms > 0)) throw new Error(`${name} has ended, or this system has no /proc.`)
        return ms
      }),
    memory: () =>
      byProcess((name) =>
        name === 'supervisor' ? proportionalMiB(pidOf(name)) : proportionalWithChildrenMiB(pidOf(name)),
      ),
    bytes: async () => {
      const [row] = await sql<[{ tables: string; log: string }]>`
        SELECT sum(pg_total_relation_size(c.oid))::text AS tables,
               pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::text AS log
          FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
         WHERE c.relkind = 'r' AND n.nspname IN ('command', 'read', 'webhooks')`
      const topics = [...topicBytes(hub.dataDir).values()].reduce((sum, one) => sum + one, 0)
      return { tables: Number(row.tables), log: Number(row.log), topics }
    },
  }
}
