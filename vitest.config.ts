import { defineConfig } from 'vitest/config'

const ignored = ['**/node_modules/**', '**/.local/**']

/** Two cores, and servers that are shared: more files at once would only wait for each other. */
const INT_WORKERS = 2

export default defineConfig({
  test: {
    projects: [
      {
        test: {
          name: 'unit',
          // One project after the other, where several run at once.
          sequence: { groupOrder: 0 },
          include: ['{packages,apps,infra,scripts,test,benchmarks}/**/*.unit.test.ts'],
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
          include: ['{packages,apps,infra}/**/*.int.test.ts'],
          exclude: ignored,
          maxWorkers: INT_WORKERS,
          // Bounds on what hangs, not on what is slow: the machine may be busy.
          testTimeout: 60_000,
          hookTimeout: 60_000,
        },
      },
      {
        test: {
          name: 'e2e',
          sequence: { groupOrder: 2 },
          include: ['test/**/*.test.ts'],
          exclude: [...ignored, '**/*.unit.test.ts'],
          // Each starts a hub of its own and kills parts of it.
          fileParallelism: false,
          testTimeout: 180_000,
          hookTimeout: 180_000,
        },
      },
    ],
  },
})
