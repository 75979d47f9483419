/**
 * Reports the lag of the projection, and commits its positions for the tools of Kafka. The
 * projection itself uses the checkpoints, never the committed offsets.
 */
import { type ConsumerLag, makeLagGauge } from '@hub/telemetry'
import { Effect } from 'effect'
import { countFailure } from '../metrics.ts'
import type { Membership } from './ownership.ts'
import type { OwnedPartition } from './record-buffer.ts'

const REPORT_EVERY_MS = 5000

/** Runs until the scope closes. */
export const runLagReport = Effect.fnUntraced(function* (
  sources: ReadonlyMap<string, string>,
  membership: () => Membership | null,
  ownedPartitions: () => ReadonlyArray<OwnedPartition>,
) {
  const setLag = makeLagGauge(yield* Effect.context<never>())
  const report = Effect.gen(function* () {
    const current = membership()
    if (current === null) return
    const owned = ownedPartitions()
    yield* current.control.commit(
      owned.map(({ source, partition, position }) => ({ topic: source, partition, offset: position })),
    )
    const lag: Array<ConsumerLag> = []
    // At once, so that they share their requests.
    const ranges = yield* Effect.forEach(sources.keys(), current.control.offsetRanges, {
      concurrency: 'unbounded',
    })
    for (const [index, [source, topic]] of [...sources].entries()) {
      const ends = new Map(ranges[index]!.map(({ high, partition }) => [partition, high]))
      for (const { partition, position } of owned.filter((one) => one.source === source)) {
        lag.push({ topic, partition, records: Math.max(0, (ends.get(partition) ?? position) - position) })
      }
    }
    setLag(lag)
  }).pipe(Effect.catch(() => countFailure('bus')))
  yield* Effect.forkScoped(Effect.forever(Effect.andThen(Effect.sleep(REPORT_EVERY_MS), report)))
})
