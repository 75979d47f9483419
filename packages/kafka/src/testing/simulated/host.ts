/** What a simulated Kafka client needs of the process in which it runs. */

/** The version of the record schemas in a process. */
export type SchemaVersion = 'current' | 'next'

/** A request of a client to the broker. */
export interface SimulatedRequest<A> {
  readonly name: 'produce' | 'fetch' | 'join' | 'sync' | 'heartbeat' | 'leave' | 'commit' | 'offsets' | 'read'
  /** For a timeline. Only called when somebody reads it. */
  readonly describe: () => string
  readonly timeoutMs: number
  /** Requests with the same order key reach the broker in the order of their calls. */
  readonly order?: string
  /** The number of partitions. A broker can execute the request for some of them only. */
  readonly parts?: number
  /** Executes the request in the broker, which may answer later. `isIncluded`: see `parts`. */
  readonly serve: (answer: (value: A) => void, isIncluded: (part: number) => boolean) => void
  readonly onAnswer: (value: A) => void
  /** `isExecuted`: false only if the broker certainly does not execute the request, now or later. */
  readonly onFailure: (reason: 'refused' | 'timeout', isExecuted: boolean) => void
}

/** All callbacks run in the process, one after the other, and none after its end. */
export interface SimulatedHost {
  /** Default: `current`. */
  readonly schemaVersion?: SchemaVersion
  readonly request: <A>(request: SimulatedRequest<A>) => void
  /** Returns a function that cancels the timer. */
  readonly after: (ms: number, act: () => void) => () => void
  /** Wakes the process up, for example because a partition has new records. */
  readonly wake: (act: () => void) => void
  /** An integer from 0 to `below` - 1. */
  readonly choose: (below: number) => number
}

/** The clock of the broker. */
export interface SimulatedClock {
  /** Milliseconds since the epoch. */
  readonly now: () => number
  readonly after: (ms: number, act: () => void) => () => void
}
