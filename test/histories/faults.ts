/** Makes the planned faults in a running cluster, one after the other, and records them. */
import { setTimeout as delay } from 'node:timers/promises'
import type { Random } from '../support/seeded-random.ts'
import { BROKERS, type Cluster, type Zone, ZONES } from './cluster.ts'
import type { Command } from './network.ts'
import type { TestOperator } from './operator.ts'
import type { Receivers } from './receivers.ts'
import type { Recorder } from './recorder.ts'
import type { FaultName, PlannedFault } from './schedule.ts'

export interface FaultContext {
  readonly cluster: Cluster
  readonly operator: TestOperator
  readonly receivers: Receivers
  readonly recorder: Recorder
  /** Wanted sends per second. */
  readonly rate: number
  readonly report: (line: string) => void
}

/** A fault that is about to begin. */
interface Fault {
  readonly target: string
  readonly begin: () => Promise<void> | void
  readonly end: () => Promise<void> | void
  /** After the end: waits until a process is ready. It is not a part of the fault. */
  readonly recover?: () => Promise<boolean>
}

type Prepared = Fault | { readonly skipped: string }

/** A process that is started again is ready within this time, or the next fault begins without it. */
const READY_WITHIN_MS = 60_000
/** A server that does not answer so long after its disk has room is started again, as staff would do. */
const ANSWERS_WITHIN_MS = 10_000
const LARGEST_DELAY_MS = 300
const CLOCK_MS = [-3000, -700, 700, 3000] as const
/** Percent of the submits or reports. */
const LOST_REPORTS = 30
const LOST_ANSWERS = 5

const pick = <A>(random: Random, items: ReadonlyArray<A>): A => items[random.below(items.length)]!

const SERVERS = ['postgres', 'redis', 'operator', ...BROKERS.map((id) => `kafka-${id}`)]

const processFault = (name: string, { cluster }: FaultContext): Fault => {
  const supervised = cluster.processes.get(name)
  if (supervised === undefined) throw new Error(`There is no process ${name}.`)
  return {
    target: name,
    begin: async () => {
      supervised.hold()
      supervised.service.signal('SIGKILL')
      await supervised.service.exited()
    },
    end: () => {},
    recover: () => supervised.release(READY_WITHIN_MS),
  }
}

/** A server whose disk was full may end, or run on and not answer. */
const recoverFromFullDisk = async (name: string, { cluster, report }: FaultContext): Promise<boolean> => {
  const server = cluster.processes.get(name)!
  if (await server.release(ANSWERS_WITHIN_MS)) return true
  report(`${name} does not answer ${ANSWERS_WITHIN_MS / 1000} s after its disk has room: it is started again`)
  return server.restart(READY_WITHIN_MS)
}

const networkFault = (
  { cluster: { network } }: FaultContext,
  names: ReadonlyArray<string>,
  begin: (name: string) => Command,
  end: (name: string) => Command,
  target: string,
): Fault => ({
  target,
  begin: async () => {
    for (const name of names) await network.run(begin(name))
  },
  end: async () => {
    for (const name of names) await network.run(end(name))
  },
})

const makeFault = (name: FaultName, random: Random, context: FaultContext): Prepared => {
  const { cluster, operator, rate, receivers } = context
  const zone: Zone = pick(random, ZONES)
  const link = `${pick(random, SERVERS)}:${zone}`
  switch (name) {
    case 'kill':
      return processFault(pick(random, cluster.apps), context)
    case 'stop': {
      const { service } = cluster.processes.get(pick(random, cluster.apps))!
      return {
        target: service.name,
        begin: () => service.signal('SIGSTOP'),
        end: () => service.signal('SIGCONT'),
      }
    }
    case 'broker-loss':
      return processFault(`kafka-${pick(random, BROKERS)}`, context)
    case 'leader-moves': {
      const broker = processFault(`kafka-${pick(random, BROKERS)}`, context)
      const supervised = cluster.processes.get(broker.target)!
      return {
        ...broker,
        // A broker that stops in an orderly way moves its leaders to others first.
        begin: async () => {
          supervised.hold()
          await supervised.service.end()
        },
      }
    }
    case 'kafka-disk-full': {
      if ('reason' in cluster.disks) return { skipped: cluster.disks.reason }
      const { kafka } = cluster.disks
      return {
        target: 'kafka-3',
        begin: kafka.fill,
        end: kafka.free,
        recover: () => recoverFromFullDisk('kafka-3', context),
      }
    }
    case 'postgres-disk-full': {
      if ('reason' in cluster.disks) return { skipped: cluster.disks.reason }
      if (cluster.processes.get('postgres-a')!.service.pid() === null) {
        return { skipped: 'the primary is on another disk after the failover' }
      }
      const { postgres } = cluster.disks
      return {
        target: 'postgres-a',
        begin: postgres.fill,
        end: postgres.free,
        recover: () => recoverFromFullDisk('postgres-a', context),
      }
    }
    case 'postgres-failover':
      return { target: 'postgres-a', begin: cluster.failOver, end: () => {} }
    case 'redis-loss':
      return processFault('redis', context)
    case 'operator-absence':
      return { target: 'operator', begin: operator.disappear, end: operator.appear }
    case 'operator-throttling':
      return {
        target: 'operator',
        begin: () => operator.behave({ throttle_per_second: Math.max(1, Math.floor(rate / 10)) }),
        end: () => operator.behave({}),
      }
    case 'lost-reports':
      return {
        target: 'operator',
        begin: () => operator.behave({ silent_percent: LOST_REPORTS }),
        end: () => operator.behave({}),
      }
    case 'repeated-reports':
      return {
        target: 'operator',
        begin: () => operator.repeatReports(true),
        end: () => operator.repeatReports(false),
      }
    case 'lost-answers':
      return {
        target: 'operator',
        begin: () =>
          operator.behave({ dropped_answer_percent: LOST_ANSWERS, unanswered_percent: LOST_ANSWERS }),
        end: () => operator.behave({}),
      }
    case 'receiver-hang':
      return {
        target: 'main-2',
        begin: () => receivers.hang('main-2', true),
        end: () => receivers.hang('main-2', false),
      }
    case 'network-reset': {
      const reset = (to: string): Command => ({ do: 'reset', name: to })
      return networkFault(context, [link], reset, reset, link)
    }
    case 'network-half-open':
    case 'network-one-way': {
      const direction =
        name === 'network-half-open' ? 'both' : pick(random, ['to server', 'to client'] as const)
      return networkFault(
        context,
        [link],
        (to) => ({ do: 'drop', name: to, direction }),
        // Lost bytes do not arrive later, so the connections end.
        (to) => ({ do: 'reset', name: to }),
        `${link} (${direction})`,
      )
    }
    case 'network-delay': {
      const ms = 50 + random.below(LARGEST_DELAY_MS)
      return networkFault(
        context,
        [link],
        (to) => ({ do: 'delay', name: to, ms }),
        (to) => ({ do: 'delay', name: to, ms: 0 }),
        `${link} (${ms} ms)`,
      )
    }
    case 'network-partition':
      return networkFault(
        context,
        SERVERS.map((server) => `${server}:${zone}`),
        (to) => ({ do: 'hold', name: to }),
        (to) => ({ do: 'release', name: to }),
        `zone ${zone}`,
      )
    case 'clock-skew': {
      const app = pick(random, cluster.apps)
      const ms = pick(random, CLOCK_MS)
      return {
        target: `${app} (${ms} ms)`,
        begin: () => cluster.moveClock(app, ms),
        end: () => cluster.moveClock(app, 0),
      }
    }
  }
}

const untilSecond = async (began: number, seconds: number, signal: AbortSignal): Promise<void> => {
  const left = began + 1000 * seconds - Date.now()
  if (left > 0) await delay(left, undefined, { signal })
}

export interface SkippedFault {
  readonly name: FaultName
  readonly reason: string
}

/** Makes the faults. `began` is the begin of the load. Returns those that this machine cannot make. */
export const runFaults = async (
  planned: ReadonlyArray<PlannedFault>,
  context: FaultContext,
  began: number,
  signal: AbortSignal,
): Promise<ReadonlyArray<SkippedFault>> => {
  const { recorder, report } = context
  const skipped: Array<SkippedFault> = []
  // A recovery that takes long delays the later faults.
  let late = 0
  for (const { at, choice, lasts, name } of planned) {
    await untilSecond(began, at + late, signal)
    const fault = makeFault(name, choice, context)
    if ('skipped' in fault) {
      report(`${name} is skipped: ${fault.skipped}`)
      skipped.push({ name, reason: fault.skipped })
      continue
    }
    const start = Date.now()
    report(`${Math.round((start - began) / 1000)} s: ${name} of ${fault.target}`)
    await fault.begin()
    try {
      await delay(1000 * lasts, undefined, { signal })
    } finally {
      await fault.end()
    }
    const ended = Date.now()
    recorder.record({ kind: 'fault', name, target: fault.target, began: start, ended })
    const isReady = (await fault.recover?.()) ?? true
    if (!isReady) report(`${fault.target} is not ready ${READY_WITHIN_MS / 1000} s after ${name}`)
    late = Math.max(late, (ended - began) / 1000 - at - lasts)
  }
  return skipped
}
