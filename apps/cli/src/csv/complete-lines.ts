/** Reads a file that a run continues behind its last complete line. */
import { createReadStream } from 'node:fs'

/** What has been read since the chunk before. */
interface Read {
  /** The lines that are complete now, without their line feeds. */
  readonly lines: ReadonlyArray<string>
  /** The incomplete line behind them. */
  readonly rest: string
}

/** Reads a file chunk by chunk. It has one character for each byte, so that lengths are those of the file. */
export const completeLines = async function* (path: string): AsyncGenerator<Read, void, undefined> {
  let rest = ''
  for await (const chunk of createReadStream(path, { encoding: 'latin1' })) {
    const lines = (rest + String(chunk)).split('\n')
    rest = lines.pop() ?? ''
    yield { lines, rest }
  }
}
