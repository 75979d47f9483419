/**
 * Asks the admin listener of the app in the same container, and ends with 0 when it says yes: for runtimes whose health check is a
 * command. Kubernetes asks over HTTP itself.
 *
 *   node infra/image/health.ts /readyz
 */
const path = process.argv[2] ?? '/healthz'
const port = process.env['HUB_ADMIN_PORT'] ?? ''

/** The runtime gives up after three seconds; the listener's own checks answer within one. */
const WITHIN_MS = 2000

const isWell = await fetch(`http://127.0.0.1:${port}${path}`, {
  signal: AbortSignal.timeout(WITHIN_MS),
}).then(
  ({ ok }) => ok,
  () => false,
)
process.exitCode = isWell ? 0 : 1
