import { defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'

const ignored = ['**/node_modules/**', '**/.local/**']

/** Few unit tests wait. On two cores, one more worker uses the time meanwhile. */
const UNIT_WORKERS = 3

/** Integration tests mostly wait: two files at a time use a third of two cores. */
const INT_WORKERS = 5

const SIMULATION_WORKERS = 2

/**
 * The limit of a test or hook. It only ends one that hangs: a busy machine can be ten times as slow as a quiet one.
 * It is longer than three waits of `eventually`, which report what they wait for.
 */
const HANGS_AFTER_MS = 600_000

/**
 * End-to-end tests that mostly wait for their own hub. The others load the machine or check a hub
 * under load. Those run one at a time, beside these.
 */
const CONCURRENT = [
  'test/cli/**/*.e2e.test.ts',
  'test/cluster/**/*.e2e.test.ts',
  'test/contract/**/*.e2e.test.ts',
  'test/operator/**/*.e2e.test.ts',
  'test/e2e/**/*.e2e.test.ts',
  'test/operating/{alerts,chart,doctor,hubctl,hubctl-api,image,manifests,telemetry}.e2e.test.ts',
  'test/operating/{restore,transit,upgrade}.e2e.test.ts',
  'test/privacy/**/*.e2e.test.ts',
  'test/read-models/**/*.e2e.test.ts',
  'test/chaos/{dead-connections,kafka-outage,poison-records,rate-without-redis,redis-failover}.e2e.test.ts',
  'test/chaos/crash-matrix/**/*.e2e.test.ts',
  'test/histories/**/*.e2e.test.ts',
]
const HUB_WORKERS = 2

/** The files that take longest, with the longest one first. */
const LONGEST = [
  'compare-descriptions.unit.',
  'simulated-kafka.unit.',
  'pacing.unit.',
  'csv.unit.',
  'counters.unit.',
  'local-receivers.unit.',
  'test/chaos/crash-matrix/',
  'test/operating/image.',
  'test/contract/generated-client.',
  'test/histories/',
  'test/cli/',
  'test/operator/throttling.',
  'test/operating/restore.',
  'test/contract/client-package.',
  'test/contract/conformance.',
  'test/contract/fuzz.',
]

/** Starts the longest files first, so that at the end no worker waits for one of them. */
class LongestFirst extends BaseSequencer {
  override async sort(files: Array<TestSpecification>): Promise<Array<TestSpecification>> {
    const sorted = await super.sort(files)
    const rank = ({ moduleId }: TestSpecification): number => {
      const index = LONGEST.findIndex((part) => moduleId.includes(part))
      return index === -1 ? LONGEST.length : index
    }
    return sorted.toSorted((a, b) => rank(a) - rank(b))
  }
}

/** A young generation of 64 MiB. With V8's default, a simulated seed takes a tenth more processor time. */
const YOUNG_GENERATION = ['--min-semi-space-size=64', '--max-semi-space-size=64']

// With `isolate: false`, each worker imports each module once. Otherwise a worker imports everything
// again for each file, which takes a second of processor time.
export default defineConfig({
  test: {
    sequence: { sequencer: LongestFirst },
    projects: [
      {
        test: {
          name: 'unit',
          // Several projects run one after the other.
          sequence: { groupOrder: 0 },
          include: ['{packages,apps,infra,scripts,test,tools,benchmarks,examples}/**/*.unit.test.ts'],
          exclude: ignored,
          isolate: false,
          maxWorkers: UNIT_WORKERS,
          testTimeout: HANGS_AFTER_MS,
          hookTimeout: HANGS_AFTER_MS,
        },
      },
      {
        test: {
          name: 'simulation',
          execArgv: YOUNG_GENERATION,
          sequence: { groupOrder: 1 },
          include: ['test/simulation/**/*.sim.test.ts'],
          exclude: ignored,
          // Both files at once, also on one core: each ends its seeds after a time.
          maxWorkers: SIMULATION_WORKERS,
          // A world that does not come to rest fails by itself. This only ends a test that hangs.
          testTimeout: HANGS_AFTER_MS,
          hookTimeout: HANGS_AFTER_MS,
        },
      },
      {
        test: {
          name: 'int',
          sequence: { groupOrder: 2 },
          include: ['{packages,apps,infra,test}/**/*.int.test.ts'],
          exclude: ignored,
          isolate: false,
          maxWorkers: INT_WORKERS,
          testTimeout: HANGS_AFTER_MS,
          hookTimeout: HANGS_AFTER_MS,
        },
      },
      {
        test: {
          name: 'e2e-waiting',
          sequence: { groupOrder: 3 },
          include: CONCURRENT,
          exclude: ignored,
          isolate: false,
          maxWorkers: HUB_WORKERS,
          testTimeout: HANGS_AFTER_MS,
          hookTimeout: HANGS_AFTER_MS,
        },
      },
      {
        test: {
          name: 'e2e-loading',
          sequence: { groupOrder: 4 },
          include: ['test/**/*.e2e.test.ts'],
          exclude: [...ignored, ...CONCURRENT],
          isolate: false,
          fileParallelism: false,
          testTimeout: HANGS_AFTER_MS,
          hookTimeout: HANGS_AFTER_MS,
        },
      },
    ],
  },
})
