import { Effect, Redacted } from 'effect'
import { makeRedisCounters } from './src/redis.ts'
Effect.runPromise(Effect.scoped(Effect.gen(function* () {
  const c = yield* makeRedisCounters({ url: Redacted.make('redis://127.0.0.1:26379'), prefix: 'accbench:' })
  yield* Effect.sleep('300 millis')
  const run = (label: string, eff: Effect.Effect<unknown, unknown>, conc: number, n: number) => Effect.gen(function* () {
    const cpu = process.cpuUsage(); const t = performance.now()
    yield* Effect.forEach(Array.from({ length: n }), () => eff, { concurrency: conc, discard: true })
    const u = process.cpuUsage(cpu)
    console.log(label, conc, Math.round(n / (performance.now() - t) * 1000), '/s', ((u.user + u.system) / n).toFixed(1), 'µs CPU')
  })
  for (let i = 0; i < 2; i++) {
    yield* run('token', c.takeToken('key_a', 1e6), 64, 20000)
    yield* run('gate', c.failedLogins.check('192.0.2.1'), 64, 20000)
    yield* run('token', c.takeToken('key_a', 1e6), 8, 10000)
  }
}))).then(() => process.exit(0))
