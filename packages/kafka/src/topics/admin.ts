/** Sends requests with a client that exists only for one call. */
import { Data, Effect } from 'effect'
import type { Admin, Kafka, RetryOptions } from 'kafkajs'
import { makeKafka, type KafkaConnection } from '../connection/client.ts'
import { reasonOf } from '../connection/errors.ts'
import type { InnerCluster } from '../kafkajs-patches/internals.ts'
import { createCluster } from '../kafkajs-patches/leave-group-for.ts'
import { KafkaUnavailable } from '../port.ts'

/** The broker would reject the request again, for example because of an invalid setting. */
export class KafkaRequestRejected extends Data.TaggedError('KafkaRequestRejected')<{
  readonly detail: string
}> {
  override readonly message = this.detail
}

/** Time limit of one request. */
const ADMIN_TIMEOUT_MS = 10_000

const NO_RETRIES: RetryOptions = { retries: 0 }

const withClient = <C extends { connect(): Promise<void> }, A>(
  connection: KafkaConnection,
  retry: RetryOptions,
  create: (kafka: Kafka) => C,
  use: (client: C) => Promise<A>,
): Effect.Effect<A, KafkaUnavailable | KafkaRequestRejected> =>
  Effect.acquireUseRelease(
    Effect.map(Effect.context<never>(), (context) => {
      const fork = Effect.runForkWith(context)
      const { destroy, kafka } = makeKafka(connection, { requestTimeoutMs: ADMIN_TIMEOUT_MS, retry }, fork)
      return { client: create(kafka), destroy }
    }),
    ({ client }) =>
      Effect.tryPromise({
        try: async () => {
          await client.connect()
          return await use(client)
        },
        catch: (cause) => {
          const { reason, detail, fatal } = reasonOf(cause)
          return fatal ? new KafkaRequestRejected({ detail }) : new KafkaUnavailable({ reason, detail })
        },
      }),
    ({ destroy }) => Effect.sync(destroy),
  )

/** Uses the admin client of kafkajs. */
export const withAdmin = <A>(
  connection: KafkaConnection,
  use: (admin: Admin) => Promise<A>,
  retry: RetryOptions = NO_RETRIES,
): Effect.Effect<A, KafkaUnavailable | KafkaRequestRejected> =>
  withClient(connection, retry, (kafka) => kafka.admin(), use)

/** For requests that the admin client of kafkajs does not have. */
export const withCluster = <A>(
  connection: KafkaConnection,
  use: (cluster: InnerCluster) => Promise<A>,
): Effect.Effect<A, KafkaUnavailable | KafkaRequestRejected> =>
  withClient(connection, NO_RETRIES, createCluster, use)
