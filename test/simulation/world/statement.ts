/** Statements of a process in PostgreSQL, and its calls of Redis. */
import { CountersUnavailable } from '@hub/counters'
import { StorageUnavailable } from '@hub/store'
import { Effect, type Exit } from 'effect'
import type { CallFault } from './faults.ts'
import type { Network } from './network.ts'
import type { SimulatedProcess } from './process.ts'
import type { Simulation } from './simulation.ts'

/** The deadline of a statement. */
const DEADLINE_MS = 5000
const REDIS_DEADLINE_MS = 500
/** The faults of a statement. */
export const FAULTS: ReadonlyArray<CallFault> = ['failBefore', 'failAfter', 'lost', 'late', 'slow']

export const unavailable = (
  name: string,
  reason: 'refused' | 'timeout',
  isExecuted: boolean,
): StorageUnavailable =>
  new StorageUnavailable(
    reason === 'timeout'
      ? { reason, detail: name }
      : // The codes of a connection that was never open, and of one that broke.
        { reason: 'unreachable', detail: isExecuted ? 'CONNECTION_CLOSED' : 'ECONNREFUSED' },
  )

/** `execute` runs in the server, as a whole. */
export const statement = <A>(
  network: Network,
  process: SimulatedProcess,
  name: string,
  execute: () => A,
): Effect.Effect<A, StorageUnavailable> =>
  Effect.callback((resume) => {
    network.request<A>(process, 'postgres', {
      name,
      describe: () => '',
      timeoutMs: DEADLINE_MS,
      faults: FAULTS,
      serve: (answer) => answer(execute()),
      onAnswer: (value) => resume(Effect.succeed(value)),
      onFailure: (reason, isExecuted) => resume(Effect.fail(unavailable(name, reason, isExecuted))),
    })
  })

/** As `statement`, with an effect that runs at once in the server. */
export const effectInServer = <A, E>(
  { network, serverClock }: Simulation,
  process: SimulatedProcess,
  name: string,
  effect: () => Effect.Effect<A, E>,
): Effect.Effect<A, E | StorageUnavailable> =>
  Effect.flatten(statement(network, process, name, () => Effect.runSyncExitWith(serverClock)(effect())))

/** A change in Redis, which runs at once there. */
export const redisCall = <A>(
  { network, serverClock }: Simulation,
  process: SimulatedProcess,
  name: string,
  effect: () => Effect.Effect<A, CountersUnavailable>,
): Effect.Effect<A, CountersUnavailable> =>
  Effect.flatten(
    Effect.callback((resume) => {
      network.request<Exit.Exit<A, CountersUnavailable>>(process, 'redis', {
        name,
        describe: () => '',
        timeoutMs: REDIS_DEADLINE_MS,
        faults: FAULTS,
        serve: (answer) => answer(Effect.runSyncExitWith(serverClock)(effect())),
        onAnswer: (exit) => resume(Effect.succeed(exit)),
        onFailure: (reason) =>
          resume(
            Effect.fail(
              new CountersUnavailable({
                reason: reason === 'timeout' ? 'timeout' : 'unreachable',
                detail: name,
              }),
            ),
          ),
      })
    }),
  )
