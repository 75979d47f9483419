/**
 * Waits until the container is stopped. It keeps the container of hubctl running, so that people can start
 * commands in it:
 *
 *   node infra/image/idle.ts
 */
const LONGEST_TIMER_MS = 2 ** 31 - 1

setInterval(() => undefined, LONGEST_TIMER_MS)
// Linux ignores signals of process 1 that have no handler.
for (const signal of ['SIGTERM', 'SIGINT']) process.once(signal, () => process.exit())
