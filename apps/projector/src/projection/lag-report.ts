/**
 * Reports the lag of the projection, and commits its positions for the tools of Kafka. The
 * projection itself uses the checkpoints, never the committed offsets.
 */
import type { GroupControl } from '@hub/kafka'
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
  const committed = new WeakMap<OwnedPartition, number>()
  /** Commits what has changed: the broker writes a record for each position, even if it is the same. */
  const commit = Effect.fnUntraced(function* (control: GroupControl, owned: ReadonlyArray<OwnedPartition>) {
    const changed = owned
      .filter((one) => committed.get(one) !== one.position)
      .map((one) => ({ one, position: one.position }))
    if (changed.length === 0) return
    yield* control.commit(
      changed.map(({ one: { partition, source }, position }) => ({
        topic: source,
        partition,
        offset: position,
      })),
    )
    for (const { one, position } of changed) committed.set(one, position)
  })
  const report = Effect.gen(function* () {
    const current = membership()
    if (current === null) return
    const owned = ownedPartitions()
    yield* commit(current.control, owned)
    const lag: Array<ConsumerLag> = []
    // At once, so that they share their requests.
    const endsOf = yield* Effect.forEach(sources.keys(), current.control.ends, {
      concurrency: 'unbounded',
    })
    for (const [index, [source, topic]] of [...sources].entries()) {
      const ends = endsOf[index]!
      for (const { partition, position } of owned.filter((one) => one.source === source)) {
        lag.push({ topic, partition, records: Math.max(0, (ends.get(partition) ?? position) - position) })
      }
    }
    setLag(lag)
  }).pipe(Effect.catch(() => countFailure('bus')))
  yield* Effect.forkScoped(Effect.forever(Effect.andThen(Effect.sleep(REPORT_EVERY_MS), report)))
})
