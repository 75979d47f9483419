/** The port on a simulated broker, for one process. It passes the same contract suite. */
import { Context, Effect, Exit, type Scope } from 'effect'
import {
  ConsumerGroups,
  EventLog,
  type GroupOptions,
  KafkaUnavailable,
  type OutgoingRecord,
  type Position,
  TopicReader,
} from '../../port.ts'
import type { SimulatedBroker } from './broker.ts'
import type { SimulatedHost } from './host.ts'
import { SimulatedMember } from './member.ts'

const APPEND_DEADLINE_MS = 5000
const READ_DEADLINE_MS = 3000

/** The services of a process whose requests go through `host`. */
export const simulatedKafka = (
  broker: SimulatedBroker,
  host: SimulatedHost,
  /** Other times of consumer groups, for runs over hours of virtual time. */
  times: Pick<GroupOptions, 'heartbeatMs' | 'sessionTimeoutMs'> = {},
): Context.Context<EventLog | ConsumerGroups | TopicReader> => {
  const append: EventLog['Service']['append'] = (records, options) => {
    if (records.length === 0) return Effect.succeed([])
    const partitions = records.map((record) => broker.partitionOf(record))
    if (partitions.some((partition) => partition < 0 || partition >= broker.partitions)) {
      return Effect.fail(new KafkaUnavailable({ reason: 'rejected', detail: 'unknown partition' }))
    }
    const parts = [...new Set(records.map(({ topic }, i) => `${topic}/${partitions[i]}`))]
    const partOf = ({ topic }: OutgoingRecord, i: number) => parts.indexOf(`${topic}/${partitions[i]}`)
    return Effect.callback((resume) => {
      host.request<ReadonlyArray<Position>>({
        name: 'produce',
        describe: () =>
          records.map(({ id, topic, type }, i) => `${type} ${id} to ${topic}/${partitions[i]}`).join(', '),
        timeoutMs: options?.deadlineMs ?? APPEND_DEADLINE_MS,
        order: 'produce',
        parts: parts.length,
        serve: (answer, isIncluded) =>
          answer(
            broker.append(
              records.filter((record, i) => isIncluded(partOf(record, i))),
              host.schemaVersion,
            ),
          ),
        onAnswer: (positions) => resume(Effect.succeed(positions)),
        onFailure: (reason, isExecuted) =>
          resume(
            Effect.fail(
              new KafkaUnavailable({
                reason,
                detail: 'produce',
                ...(isExecuted ? {} : { notAppended: true as const }),
              }),
            ),
          ),
      })
    })
  }

  const read = <A>(topic: string, answerOf: () => A): Effect.Effect<A, KafkaUnavailable> =>
    Effect.callback((resume) => {
      host.request<A>({
        name: 'read',
        describe: () => topic,
        timeoutMs: READ_DEADLINE_MS,
        serve: (answer) => answer(answerOf()),
        onAnswer: (value) => resume(Effect.succeed(value)),
        onFailure: (reason) => resume(Effect.fail(new KafkaUnavailable({ reason, detail: 'read' }))),
      })
    })

  const join: ConsumerGroups['Service']['join'] = Effect.fnUntraced(function* (options, handler) {
    const context = yield* Effect.context<Scope.Scope>()
    const member = new SimulatedMember(broker, host, { ...options, ...times }, handler, (effect) =>
      Effect.runForkWith(context)(effect),
    )
    yield* Effect.acquireRelease(
      Effect.callback<void, KafkaUnavailable>((resume) =>
        member.start((result) => resume(Exit.isSuccess(result) ? Effect.void : result)),
      ),
      () => Effect.callback<void>((resume) => member.close(() => resume(Effect.void))),
    )
    return { isHealthy: Effect.sync(() => member.isHealthy()) }
  })

  return Context.make(EventLog, {
    append,
    partitionOf: (key) => broker.partitionOf({ key } as OutgoingRecord),
  }).pipe(
    Context.add(ConsumerGroups, { join }),
    Context.add(TopicReader, {
      readAll: (topic) => read(topic, () => broker.topic(topic).flat()),
      readKey: ({ from, key, partition, to, topic }) =>
        read(topic, () =>
          (broker.topic(topic)[partition] ?? []).filter(
            (record) => record.key === key && record.appendedAt >= from && record.appendedAt < to,
          ),
        ),
      readPeriod: ({ from, to, topic, wanted }) =>
        read(topic, () =>
          broker
            .topic(topic)
            .flat()
            .filter((record) => record.appendedAt >= from && record.appendedAt < to && wanted(record)),
        ),
    }),
  )
}
