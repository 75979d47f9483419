/**
 * The admin listener of every app on `HUB_ADMIN_PORT`: `/healthz` (the process runs), `/readyz`
 * (200 if it can work, else 503 with the failing checks) and `/metrics` (Prometheus).
 */
import { settings } from '@hub/config'
import { createServer, type Server } from 'node:http'
import { flushCompileCache } from 'node:module'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { type Config, Context, Data, Effect, Layer, Scope } from 'effect'
import { PrometheusMetrics } from 'effect/observability'
import { updateProcessMetrics } from './process-metrics.ts'

/** The admin listener could not listen on its port. */
class AdminUnavailable extends Data.TaggedError('AdminUnavailable')<{ readonly detail: string }> {}

/** A readiness check. It must be fast. */
type ReadinessCheck = Effect.Effect<boolean>

/**
 * A check that passes for good once it has passed: of a server without which the process can still
 * answer. A process that has never reached it is probably misconfigured.
 */
export const onceReached = (check: ReadinessCheck): ReadinessCheck => {
  let reached = false
  return Effect.suspend(() =>
    reached ? Effect.succeed(true) : Effect.map(check, (passes) => (reached = passes)),
  )
}

/** A hanging check fails before the probe timeout of the manifests, three seconds. */
const CHECK_DEADLINE = '1800 millis'

/** The readiness of the process. Components add checks for the lifetime of their scope. */
export class Readiness extends Context.Service<
  Readiness,
  {
    readonly add: (name: string, check: ReadinessCheck) => Effect.Effect<void, never, Scope.Scope>
    /** Call it when all checks are added. Before, `failing` contains `starting`. */
    readonly started: Effect.Effect<void>
    /** The names of the checks that fail now. */
    readonly failing: Effect.Effect<ReadonlyArray<string>>
  }
>()('@hub/telemetry/Readiness') {
  static readonly layer: Layer.Layer<Readiness> = Layer.sync(Readiness, () => {
    const checks = new Map<string, ReadinessCheck>()
    let starting = true
    return {
      started: Effect.sync(() => {
        starting = false
        // Node writes its compile cache at the end of a process, but a killed process never does.
        // Without this call the next start would compile everything again.
        flushCompileCache()
      }),
      add: (name, check) =>
        Effect.acquireRelease(
          Effect.sync(() => checks.set(name, check)),
          () => Effect.sync(() => checks.delete(name)),
        ),
      failing: Effect.suspend(() =>
        Effect.forEach(
          [...checks],
          ([name, check]) =>
            check.pipe(
              Effect.timeoutOrElse({ duration: CHECK_DEADLINE, orElse: () => Effect.succeed(false) }),
              Effect.map((ok) => (ok ? [] : [name])),
            ),
          { concurrency: 'unbounded' },
        ).pipe(Effect.map((failed) => [...(starting ? ['starting'] : []), ...failed.flat()])),
      ),
    }
  })
}

/** Each sample wakes the process, which costs an idle one about 0.2 ms. A scrape sees thirty of them. */
const DELAY_SAMPLE_MS = 500

/** Runs the admin listener until the scope closes. */
export const adminLayer: Layer.Layer<never, AdminUnavailable | Config.ConfigError, Readiness> =
  Layer.effectDiscard(
    Effect.gen(function* () {
      const port = yield* settings.adminPort.config
      const host = (yield* settings.listenHost.config) ?? undefined
      const readiness = yield* Readiness
      const context = yield* Effect.context<never>()
      const runFork = Effect.runForkWith(context)

      const delay = monitorEventLoopDelay({ resolution: DELAY_SAMPLE_MS })
      delay.enable()
      yield* Effect.addFinalizer(() => Effect.sync(() => delay.disable()))

      const metrics = Effect.gen(function* () {
        updateProcessMetrics(delay)
        return yield* PrometheusMetrics.format()
      })

      const answer = (path: string): Effect.Effect<readonly [number, string, string]> => {
        switch (path) {
          case '/healthz':
            return Effect.succeed([200, 'application/json', '{"status":"ok"}'])
          case '/readyz':
            return Effect.map(readiness.failing, (failing) => [
              failing.length === 0 ? 200 : 503,
              'application/json',
              JSON.stringify({ status: failing.length === 0 ? 'ready' : 'not_ready', failing }),
            ])
          case '/metrics':
            return Effect.map(metrics, (text) => [200, 'text/plain; version=0.0.4', text])
          default:
            return Effect.succeed([404, 'application/json', '{"status":"not_found"}'])
        }
      }

      yield* Effect.acquireRelease(
        Effect.callback<Server, AdminUnavailable>((resume) => {
          const server = createServer((request, response) => {
            request.resume()
            runFork(
              Effect.map(answer((request.url ?? '/').split('?', 1)[0] ?? '/'), ([status, type, body]) => {
                response.writeHead(status, { 'content-type': type })
                response.end(body)
              }),
            )
          })
          server.once('error', (error) =>
            resume(Effect.fail(new AdminUnavailable({ detail: error.message }))),
          )
          server.listen({ port, host }, () => resume(Effect.succeed(server)))
        }),
        (server) =>
          Effect.callback<void>((resume) => {
            server.close(() => resume(Effect.void))
            server.closeAllConnections()
          }),
      )
    }),
  )
