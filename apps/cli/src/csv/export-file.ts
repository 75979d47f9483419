/**
 * The file of `hub messages export`: one line for each message. Until the export is complete it is a part file beside
 * the wanted one, and also the progress: the next start continues behind its last complete line.
 */
import { existsSync } from 'node:fs'
import { open, rename } from 'node:fs/promises'
import { refused } from '@hub/command-line'
import { csvLine, onOneLine } from '@hub/text'
import type { components } from '@sms-delivery-hub/client'
import { completeLines } from './complete-lines.ts'
import { takeLock } from './lock.ts'

type Message = components['schemas']['Message']
type Cell = string | number | null

const COLUMNS: Readonly<Record<string, (message: Message) => Cell>> = {
  id: ({ id }) => id,
  status: ({ status }) => status,
  reason_code: ({ reason_code }) => reason_code,
  to: ({ to }) => to,
  class: (message) => message.class,
  template: ({ template }) => template,
  sender: ({ sender }) => sender,
  client_ref: ({ client_ref }) => client_ref,
  batch: ({ batch }) => batch,
  parts: ({ parts }) => parts,
  price: ({ price }) => price.amount,
  currency: ({ price }) => price.currency,
  attempts: ({ attempts }) => attempts,
  created_at: ({ created_at }) => created_at,
  updated_at: ({ updated_at }) => updated_at,
}

export const HEADING = `${csvLine(Object.keys(COLUMNS))}\n`

/** A line feed in a text would end the line for the next start. */
const oneLine = (cell: Cell): Cell => (typeof cell === 'string' ? onOneLine(cell) : cell)

export const linesOf = (messages: ReadonlyArray<Message>): string =>
  messages
    .map((message) => `${csvLine(Object.values(COLUMNS).map((column) => oneLine(column(message))))}\n`)
    .join('')

/** What earlier starts have written. */
interface Written {
  /** The id in the last complete line; `null` without one. */
  readonly last: string | null
  readonly messages: number
  /** The length of the complete lines, in bytes. */
  readonly bytes: number
}

const readWritten = async (path: string): Promise<Written> => {
  let last: string | null = null
  let count = 0
  let bytes = 0
  for await (const { lines } of completeLines(path)) {
    for (const line of lines) {
      if (count > 0) last = line.slice(0, line.indexOf(','))
      count += 1
      bytes += line.length + 1
    }
  }
  return { last, messages: Math.max(0, count - 1), bytes }
}

export interface ExportFile {
  readonly written: Pick<Written, 'last' | 'messages'>
  /** Cuts an incomplete end off, and writes the heading of a new file. */
  readonly begin: () => Promise<void>
  readonly add: (messages: ReadonlyArray<Message>) => Promise<void>
  /** Gives the file its final name. */
  readonly complete: () => Promise<void>
  readonly close: () => Promise<void>
  readonly advice: string
}

/** Opens the part file of an export. `identity`: a part file of another export is not continued. */
export const openExportFile = async (output: string, identity: string): Promise<ExportFile> => {
  if (existsSync(output)) {
    throw refused('file_exists', `${output} exists already. Choose another file with --output, or delete it.`)
  }
  const path = `${output}.${identity}.part`
  const unlock = await takeLock(path)
  try {
    const file = await open(path, 'a', 0o600)
    try {
      const written = await readWritten(path)
      // One write after the other: an interrupted run closes the file while it is being written.
      let writing = Promise.resolve()
      return {
        written,
        begin: async () => {
          await file.truncate(written.bytes)
          if (written.bytes === 0) await file.appendFile(HEADING)
        },
        add: (messages) => (writing = writing.then(() => file.appendFile(linesOf(messages)))),
        complete: async () => {
          await file.sync()
          await rename(path, output)
        },
        close: async () => {
          await writing.catch(() => {})
          await file.close()
          unlock()
        },
        advice: 'Start the same command again to continue.',
      }
    } catch (error) {
      await file.close()
      throw error
    }
  } catch (error) {
    unlock()
    throw error
  }
}
