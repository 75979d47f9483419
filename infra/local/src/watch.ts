/** Follows the logs of the apps and prints their warnings and errors. */
import { statSync } from 'node:fs'
import { readFrom } from './processes.ts'
import type { Service } from './service.ts'
import type { ReportProgress } from './stack.ts'

const POLL_MS = 500
/** Bytes read from a log per poll. A larger burst stays in the log file only. */
const MAX_READ = 262_144
/** Within a minute, each message is printed once, and at most `MAX_LINES` different messages. */
const WINDOW_MS = 60_000
const MAX_LINES = 20

const LEVELS: ReadonlySet<string> = new Set(['warn', 'warning', 'error', 'fatal'])

/** The message of a JSON log line with level warning or error, else null. */
export const warningOrError = (line: string): string | null => {
  if (!line.startsWith('{')) return null
  try {
    const entry = JSON.parse(line) as Record<string, unknown>
    const level = entry['level']
    const message = entry['message']
    if (typeof level !== 'string' || !LEVELS.has(level.toLowerCase())) return null
    return typeof message === 'string' ? message : null
  } catch {
    return null
  }
}

/** Follows the logs until the caller calls the returned function. */
export const watchLogs = (services: ReadonlyArray<Service>, report: ReportProgress): (() => void) => {
  const positions = new Map<string, number>()
  let shown = new Set<string>()
  let windowEnds = 0

  const show = (service: Service, message: string): void => {
    const now = performance.now()
    if (now >= windowEnds) {
      shown = new Set()
      windowEnds = now + WINDOW_MS
    }
    const line = `${service.title}: ${message}`
    if (shown.has(line) || shown.size > MAX_LINES) return
    shown.add(line)
    report(shown.size > MAX_LINES ? `more warnings are in ${service.log} and the logs beside it` : line)
  }

  const poll = (service: Service): void => {
    try {
      const size = statSync(service.log).size
      const last = positions.get(service.log) ?? 0
      const from = Math.max(size < last ? 0 : last, size - MAX_READ)
      if (size === from) return
      const buffer = readFrom(service.log, from, size - from)
      // An incomplete last line is read with the next poll.
      const whole = buffer.lastIndexOf(10) + 1
      positions.set(service.log, from + whole)
      for (const line of buffer.subarray(0, whole).toString('utf8').split('\n')) {
        const message = warningOrError(line)
        if (message !== null) show(service, message)
      }
    } catch {
      // The log does not exist yet.
    }
  }

  const timer = setInterval(() => services.forEach(poll), POLL_MS)
  return () => clearInterval(timer)
}
