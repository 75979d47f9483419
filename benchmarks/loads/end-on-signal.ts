/**
 * Lets a signal end a benchmark as `process.exit` does: what it has started, and tied to its own end,
 * ends with it. A signal alone would leave servers and their data behind. For scripts that start them.
 */
import { constants } from 'node:os'

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  process.once(signal, () => process.exit(128 + constants.signals[signal]))
}
// `scripts/run.mjs`, which forwards signals, was killed.
if (process.connected) {
  process.once('disconnect', () => process.exit(1))
  process.channel?.unref()
}
