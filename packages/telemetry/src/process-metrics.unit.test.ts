import { monitorEventLoopDelay } from 'node:perf_hooks'
import { assert, describe, it } from '@effect/vitest'
import { Effect } from 'effect'
import { PrometheusMetrics } from 'effect/observability'
import packageJson from '../package.json' with { type: 'json' }
import { updateProcessMetrics } from './process-metrics.ts'

/** Source: the `# TYPE` lines of `collectDefaultMetrics()` of prom-client 15.1.3 on Node 24. */
const PROM_CLIENT = {
  process_cpu_user_seconds_total: 'counter',
  process_cpu_system_seconds_total: 'counter',
  process_cpu_seconds_total: 'counter',
  process_start_time_seconds: 'gauge',
  process_resident_memory_bytes: 'gauge',
  process_open_fds: 'gauge',
  process_max_fds: 'gauge',
  nodejs_eventloop_lag_max_seconds: 'gauge',
  nodejs_eventloop_lag_p50_seconds: 'gauge',
  nodejs_eventloop_lag_p99_seconds: 'gauge',
  nodejs_heap_size_total_bytes: 'gauge',
  nodejs_heap_size_used_bytes: 'gauge',
  nodejs_external_memory_bytes: 'gauge',
  nodejs_version_info: 'gauge',
}

const scrape = Effect.gen(function* () {
  updateProcessMetrics(monitorEventLoopDelay())
  return yield* PrometheusMetrics.format()
})

const sample = (text: string, name: string): number =>
  Number(new RegExp(`^${name}(?:\\{[^}]*\\})? (?<value>\\S+)$`, 'mu').exec(text)?.groups?.['value'])

describe('the metrics of a process', () => {
  it.effect('have the names and types of prom-client', () =>
    Effect.gen(function* () {
      const text = yield* scrape
      const types = [...text.matchAll(/^# TYPE (?<name>(?:process|nodejs)_\w+) (?<type>\w+)$/gmu)].map(
        ({ groups }) => [groups?.['name'], groups?.['type']],
      )
      const expected =
        process.platform === 'linux'
          ? PROM_CLIENT
          : Object.fromEntries(Object.entries(PROM_CLIENT).filter(([name]) => !name.endsWith('_fds')))
      assert.deepStrictEqual(Object.fromEntries(types), expected)
    }),
  )

  it.effect('describe the process', () =>
    Effect.gen(function* () {
      const text = yield* scrape
      const [major, minor, patch] = process.version.slice(1).split('.')
      assert.include(
        text,
        `nodejs_version_info{version="${process.version}",major="${major}",minor="${minor}",patch="${patch}"} 1`,
      )
      assert.include(text, `hub_build_info{version="${packageJson.version}"} 1`)
      const now = Date.now() / 1000
      assert.closeTo(sample(text, 'process_start_time_seconds'), now - process.uptime(), 60)
      assert.isAbove(
        sample(text, 'process_resident_memory_bytes'),
        sample(text, 'nodejs_heap_size_used_bytes'),
      )
      // The old names have the same values.
      assert.strictEqual(
        sample(text, 'hub_process_resident_memory_bytes'),
        sample(text, 'process_resident_memory_bytes'),
      )
    }),
  )

  it.effect('count the CPU time since the start of the process', () =>
    Effect.gen(function* () {
      const before = process.cpuUsage()
      const text = yield* scrape
      const after = process.cpuUsage()
      const [user, system, total] = ['user_seconds', 'system_seconds', 'seconds'].map((name) =>
        sample(text, `process_cpu_${name}_total`),
      ) as [number, number, number]
      assert.isAtLeast(user, before.user / 1e6 - 0.001)
      assert.isAtMost(user, after.user / 1e6 + 0.001)
      assert.isAtLeast(system, before.system / 1e6 - 0.001)
      assert.isAtMost(system, after.system / 1e6 + 0.001)
      assert.closeTo(total, user + system, 0.001)
    }),
  )
})
