/**
 * The health check command of the image; Kubernetes uses HTTP instead. It requests a path of the
 * admin listener in the same container and exits with 0 on success.
 *
 *   node infra/image/health.ts /readyz
 */
const path = process.argv[2] ?? '/healthz'
const port = process.env['HUB_ADMIN_PORT'] ?? ''

/** Docker stops a health check after three seconds; the listener answers within 1.8 s. */
const TIMEOUT_MS = 2000

const isHealthy = await fetch(`http://127.0.0.1:${port}${path}`, {
  signal: AbortSignal.timeout(TIMEOUT_MS),
}).then(
  ({ ok }) => ok,
  () => false,
)
process.exitCode = isHealthy ? 0 : 1
