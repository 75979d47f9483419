/** Statements of a process in PostgreSQL. */
import { StorageUnavailable } from '@hub/store'
import { Effect, type Exit } from 'effect'
import type { Network } from './network.ts'
import type { SimulatedProcess } from './process.ts'

/** The deadline of a statement. */
const DEADLINE_MS = 5000

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
      faults: ['failBefore', 'failAfter', 'lost', 'late', 'slow'],
      serve: (answer) => answer(execute()),
      onAnswer: (value) => resume(Effect.succeed(value)),
      onFailure: (reason, isExecuted) =>
        resume(
          Effect.fail(
            new StorageUnavailable(
              reason === 'timeout'
                ? { reason, detail: name }
                : // The codes of a connection that was never open, and of one that broke.
                  { reason: 'unreachable', detail: isExecuted ? 'CONNECTION_CLOSED' : 'ECONNREFUSED' },
            ),
          ),
        ),
    })
  })

/** As `statement`, with an execution that can fail. */
export const failingStatement = <A, E>(
  network: Network,
  process: SimulatedProcess,
  name: string,
  execute: () => Exit.Exit<A, E>,
): Effect.Effect<A, E | StorageUnavailable> => Effect.flatten(statement(network, process, name, execute))
