/**
 * The result file: one line for each row of the CSV, in the order of the rows. It is also the progress
 * of a run: the next start continues behind its last complete line.
 */
import { type FileHandle, open } from 'node:fs/promises'
import { refused } from '@hub/command-line'
import { csvLine, onOneLine } from '@hub/text'
import { completeLines } from './complete-lines.ts'
import { takeLock } from './lock.ts'
import { clientRefOf } from './run-id.ts'

export const OUTCOMES = ['accepted', 'duplicate', 'rejected', 'skipped'] as const
/** `duplicate`: the hub had accepted the row, and its answer was lost. `skipped`: the row was invalid (`--skip-invalid`). */
export type Outcome = (typeof OUTCOMES)[number]

export type Counts = Readonly<Record<Outcome, number>>

export interface RowResult {
  readonly row: number
  readonly line: number
  readonly outcome: Outcome
  readonly messageId?: string
  /** A code of the error catalogue. */
  readonly error?: string
  readonly param?: string
}

const HEADING = 'row,line,client_ref,result,message_id,error,param\n'
/** The rest of a line is text of the hub. */
const LINE = /^(?<row>\d+),(?<line>\d+),(?<ref>csv-[0-9a-f]{32}-\d+),(?<outcome>[a-z]+),/u

/** Writes are collected up to this size. */
const FLUSH_CHARACTERS = 64 * 1024

/** The last row with a complete result, and the line of the CSV file in which it begins; 0 without one. */
export interface Position {
  readonly row: number
  readonly line: number
}

interface Progress {
  readonly last: Position
  readonly counts: Counts
  /** The length of the valid part of the file, in bytes. */
  readonly bytes: number
}

const NOWHERE: Position = { row: 0, line: 0 }

const noCounts = (): Record<Outcome, number> => ({ accepted: 0, duplicate: 0, rejected: 0, skipped: 0 })

const readProgress = async (path: string, runId: string): Promise<Progress | null> => {
  const counts = noCounts()
  let last: Position = NOWHERE
  let bytes = 0
  let isFirst = true
  let rest = ''
  const foreign = () =>
    refused(
      'result_of_another_run',
      `${path} is not the result of this file with this template and these values. Choose another file with --result, or delete it.`,
    )
  try {
    for await (const read of completeLines(path)) {
      rest = read.rest
      for (const line of read.lines) {
        if (isFirst) {
          if (`${line}\n` !== HEADING) throw foreign()
          isFirst = false
        } else {
          const { line: csvLine, outcome = '', ref, row } = LINE.exec(line)?.groups ?? {}
          // What a crash of the machine left. Its rows are sent again, and are duplicates.
          if (Number(row) !== last.row + 1 || !(OUTCOMES as ReadonlyArray<string>).includes(outcome)) {
            return { last, counts, bytes }
          }
          if (ref !== clientRefOf(runId, last.row + 1)) throw foreign()
          counts[outcome as Outcome] += 1
          last = { row: last.row + 1, line: Number(csvLine) }
        }
        bytes += line.length + 1
      }
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw error
  }
  if (isFirst && !HEADING.startsWith(rest)) throw foreign()
  return { last, counts, bytes }
}

/** The last row of earlier starts. Changes nothing. */
export const lastResultOf = async (path: string, runId: string): Promise<Position> =>
  (await readProgress(path, runId))?.last ?? NOWHERE

export interface ResultFile {
  /** The last row of earlier starts; 0 at the first one. */
  readonly lastRow: number
  /** The counts of all lines, of this run and earlier ones. */
  readonly counts: () => Counts
  readonly add: (result: RowResult) => Promise<void>
  /** Writes what is collected. */
  readonly flush: () => Promise<void>
  readonly close: () => Promise<void>
}

/** Opens the result file of a run, and cuts an incomplete end off. */
export const openResultFile = async (path: string, runId: string): Promise<ResultFile> => {
  const unlock = await takeLock(path)
  let file: FileHandle | undefined
  try {
    const progress = await readProgress(path, runId)
    const counts = { ...(progress?.counts ?? noCounts()) }
    file = await open(path, 'a')
    if (progress !== null) await file.truncate(progress.bytes)
    const handle = file
    let collected = progress === null || progress.bytes === 0 ? HEADING : ''
    // One write after the other: an interrupted run closes the file while it is being written.
    let writing = Promise.resolve()
    const flush = (): Promise<void> => {
      const text = collected
      collected = ''
      if (text !== '') writing = writing.then(() => handle.appendFile(text))
      return writing
    }
    return {
      lastRow: progress?.last.row ?? 0,
      counts: () => counts,
      add: async ({ error = '', line, messageId = '', outcome, param = '', row }) => {
        counts[outcome] += 1
        // A line feed in a text of the hub would end the line for the next start.
        const ofHub = [messageId, error, param].map(onOneLine)
        collected += `${csvLine([row, line, clientRefOf(runId, row), outcome, ...ofHub])}\n`
        if (collected.length >= FLUSH_CHARACTERS) await flush()
      },
      flush,
      close: async () => {
        await flush()
        await handle.close()
        unlock()
      },
    }
  } catch (error) {
    await file?.close()
    unlock()
    throw error
  }
}
