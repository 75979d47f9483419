/** Sends requests with an admin client that exists only for one call. */
import { Data, Effect } from 'effect'
import type { Admin, RetryOptions } from 'kafkajs'
import { makeKafka, type KafkaConnection } from '../connection/client.ts'
import { reasonOf } from '../connection/errors.ts'
import { KafkaUnavailable } from '../port.ts'

/** The broker would reject the request again, for example because of an invalid setting. */
export class KafkaRequestRejected extends Data.TaggedError('KafkaRequestRejected')<{
  readonly detail: string
}> {}

/** Time limit of one request of the admin client. */
const ADMIN_TIMEOUT_MS = 10_000

export const withAdmin = <A>(
  connection: KafkaConnection,
  use: (admin: Admin) => Promise<A>,
  retry: RetryOptions = { retries: 0 },
): Effect.Effect<A, KafkaUnavailable | KafkaRequestRejected> =>
  Effect.acquireUseRelease(
    Effect.map(Effect.context<never>(), (context) => {
      const fork = Effect.runForkWith(context)
      const { destroy, kafka } = makeKafka(connection, { requestTimeoutMs: ADMIN_TIMEOUT_MS, retry }, fork)
      return { admin: kafka.admin(), destroy }
    }),
    ({ admin }) =>
      Effect.tryPromise({
        try: async () => {
          await admin.connect()
          return await use(admin)
        },
        catch: (cause) => {
          const { reason, detail, fatal } = reasonOf(cause)
          return fatal ? new KafkaRequestRejected({ detail }) : new KafkaUnavailable({ reason, detail })
        },
      }),
    ({ destroy }) => Effect.sync(destroy),
  )
