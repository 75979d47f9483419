import { defineConfig } from 'vitest/config'

const ignored = ['**/node_modules/**', '**/.local/**']

/** Two cores and shared servers: more concurrent files would only wait for each other. */
const INT_WORKERS = 2

/**
 * Tests that start their own hub and mostly wait for it run two at a time. The others load the
 * machine or check a hub under load, so they run alone.
 */
const CONCURRENT = [
  'test/contract/**/*.e2e.test.ts',
  'test/operator/**/*.e2e.test.ts',
  'test/e2e/**/*.e2e.test.ts',
  'test/operating/{alerts,doctor,hubctl,manifests,telemetry}.e2e.test.ts',
  'test/operating/restore.e2e.test.ts',
  'test/privacy/**/*.e2e.test.ts',
  'test/read-models/**/*.e2e.test.ts',
  'test/chaos/poison-records.e2e.test.ts',
]
const HUB_WORKERS = 2

export default defineConfig({
  test: {
    projects: [
      {
        test: {
          name: 'unit',
          // Several projects run one after the other.
          sequence: { groupOrder: 0 },
          include: ['{packages,apps,infra,scripts,test,tools,benchmarks,examples}/**/*.unit.test.ts'],
          exclude: ignored,
          // One module graph for each worker: otherwise half of the time goes into importing the
          // same modules.
          isolate: false,
          // Unit tests take milliseconds, property tests seconds. This only ends a test that hangs.
          testTimeout: 60_000,
        },
      },
      {
        test: {
          name: 'int',
          sequence: { groupOrder: 1 },
          include: ['{packages,apps,infra,test}/**/*.int.test.ts'],
          exclude: ignored,
          maxWorkers: INT_WORKERS,
          // These limits only end tests that hang: the machine may be busy.
          testTimeout: 60_000,
          hookTimeout: 60_000,
        },
      },
      {
        test: {
          name: 'e2e-pairs',
          sequence: { groupOrder: 2 },
          include: CONCURRENT,
          exclude: ignored,
          maxWorkers: HUB_WORKERS,
          testTimeout: 180_000,
          hookTimeout: 180_000,
        },
      },
      {
        test: {
          name: 'e2e',
          sequence: { groupOrder: 3 },
          include: ['test/**/*.e2e.test.ts'],
          exclude: [...ignored, ...CONCURRENT],
          fileParallelism: false,
          testTimeout: 180_000,
          hookTimeout: 180_000,
        },
      },
    ],
  },
})
