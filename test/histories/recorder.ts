/** Writes the entries of a history to a file, one JSON text on each line. */
import { createWriteStream } from 'node:fs'
import type { Entry } from './checker/history.ts'

export interface Recorder {
  readonly record: (entry: Entry) => void
  readonly bytes: () => number
  /** Waits until the file is complete. Further calls do nothing. */
  readonly close: () => Promise<void>
}

export const openRecorder = (path: string): Recorder => {
  const stream = createWriteStream(path, { mode: 0o600, highWaterMark: 1024 * 1024 })
  let failure: unknown = null
  let bytes = 0
  let closed: Promise<void> | null = null
  const close = async (): Promise<void> => {
    await new Promise<void>((resolve) => {
      stream.once('close', resolve)
      stream.end()
    })
    if (failure !== null) throw failure
  }
  stream.on('error', (error) => {
    failure = error
  })
  return {
    record: (entry) => {
      const line = `${JSON.stringify(entry)}\n`
      bytes += line.length
      stream.write(line)
    },
    bytes: () => bytes,
    close: () => (closed ??= close()),
  }
}
