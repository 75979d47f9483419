import { defineConfig } from 'vitest/config'

const ignored = ['**/node_modules/**', '**/.local/**']

/** Two cores, and servers that are shared: more files at once would only wait for each other. */
const INT_WORKERS = 2

/**
 * Files that start a hub of their own and mostly wait for it: two at a time. The others load the machine or measure what happens to a hub
 * under load, and run alone.
 */
const SIDE_BY_SIDE = [
  'test/contract/**/*.e2e.test.ts',
  'test/operator/**/*.e2e.test.ts',
  'test/e2e/**/*.e2e.test.ts',
  'test/operating/{alerts,doctor,hubctl,manifests,telemetry}.e2e.test.ts',
  'test/read-models/analytics.e2e.test.ts',
  'test/chaos/poison-records.e2e.test.ts',
]
const HUB_WORKERS = 2

export default defineConfig({
  test: {
    projects: [
      {
        test: {
          name: 'unit',
          // One project after the other, where several run at once.
          sequence: { groupOrder: 0 },
          include: ['{packages,apps,infra,scripts,test,tools,benchmarks}/**/*.unit.test.ts'],
          exclude: ignored,
          // One module graph a worker: half of the time was importing the same modules for each file.
          isolate: false,
          // No I/O, milliseconds each; properties take seconds, more of them on a busy machine. A bound on what hangs.
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
          // Bounds on what hangs, not on what is slow: the machine may be busy.
          testTimeout: 60_000,
          hookTimeout: 60_000,
        },
      },
      {
        test: {
          name: 'e2e-pairs',
          sequence: { groupOrder: 2 },
          include: SIDE_BY_SIDE,
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
          exclude: [...ignored, ...SIDE_BY_SIDE],
          fileParallelism: false,
          testTimeout: 180_000,
          hookTimeout: 180_000,
        },
      },
    ],
  },
})
