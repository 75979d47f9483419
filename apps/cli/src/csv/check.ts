/**
 * The second reading of a CSV file: finds all mistakes, with the help of the hub, which also estimates parts and
 * price. Nothing is sent before it ends. A run that continues needs none
 * (docs/decisions/command-line.md#runs).
 */
import { refused } from '@hub/command-line'
import type { HubClient } from '@sms-delivery-hub/client'
import { type CsvFile, readCsvFile } from './csv-file.ts'
import {
  columnOfVariable,
  type Mapping,
  messageOf,
  problemOf,
  type RowMessage,
  type RowProblem,
} from './mapping.ts'
import type { Row } from './rows.ts'

export interface CheckedFile {
  readonly rows: number
  /** Rows that cannot be sent. */
  readonly invalid: number
  /** The first mistakes. */
  readonly problems: ReadonlyArray<RowProblem>
  readonly parts: number
  readonly price: Price
}

export interface Price {
  readonly amount: string
  readonly currency: string
}

/** More mistakes help nobody, and would be a list of unlimited length. */
const MAX_PROBLEMS = 20

/** Estimates in progress at the same time. */
const CONCURRENCY = 4

/** The hub reads a body of 4 MiB. The rest is for the frame of the request. */
const MAX_ESTIMATE_BYTES = 4 * 1024 * 1024 - 4096
/** What JSON needs for a UTF-16 unit at most: an escape such as `\u0007`. */
const BYTES_PER_UNIT = 6
/** The names of the fields of a message, and its class. */
const FIELDS_BYTES = 100
/** Quotes, colon and comma of a variable. */
const FRAME_UNITS = 6

/** The bytes of a message in a request, or more. It is computed for each row, so it is only a sum. */
const maxBytes = ({ template, to, variables }: RowMessage): number => {
  let units = to.length + template.length
  for (const name in variables) units += name.length + (variables[name] ?? '').length + FRAME_UNITS
  return FIELDS_BYTES + units * BYTES_PER_UNIT
}

/** Adds amounts such as `2.00` exactly. */
export const makeSum = () => {
  let units = 0n
  let digits = 0
  let currency = ''
  return {
    add: (price: Price): void => {
      const [whole = '', fraction = ''] = price.amount.split('.')
      const shift = Math.max(digits, fraction.length)
      units =
        units * 10n ** BigInt(shift - digits) +
        BigInt(whole + fraction) * 10n ** BigInt(shift - fraction.length)
      digits = shift
      currency = price.currency
    },
    total: (): Price => {
      const text = String(units).padStart(digits + 1, '0')
      const amount = digits === 0 ? text : `${text.slice(0, -digits)}.${text.slice(-digits)}`
      return { amount, currency }
    },
  }
}

interface Open {
  readonly row: Row
  readonly message: RowMessage
}

/** The column of a parameter such as `messages[3].variables.order`. */
const columnOfParam = (mapping: Mapping, param: string | undefined): number => {
  const [, variable] = /^messages\[\d+\]\.variables\.(.+)$/u.exec(param ?? '') ?? []
  return variable === undefined ? mapping.to : columnOfVariable(mapping, variable)
}

export interface CheckOptions {
  readonly file: CsvFile
  readonly client: HubClient
  readonly batchMax: number
  readonly onProgress: (rows: number) => void
  readonly signal: AbortSignal
}

export const checkFile = async (options: CheckOptions): Promise<CheckedFile> => {
  const { batchMax, client, file, onProgress, signal } = options
  const problems: Array<RowProblem> = []
  const sum = makeSum()
  let parts = 0
  let rows = 0
  let invalid = 0
  const report = (problem: RowProblem): void => {
    invalid += 1
    problems.push(problem)
    // The estimates come back in any order, so the first mistakes are known only at the end.
    if (problems.length >= 2 * MAX_PROBLEMS) shorten()
  }
  const shorten = (): void => {
    problems.sort((a, b) => a.line - b.line)
    problems.length = Math.min(problems.length, MAX_PROBLEMS)
  }

  const { mapping, rows: groups } = await readCsvFile(file)

  const estimate = async (open: ReadonlyArray<Open>): Promise<void> => {
    const { data, totals } = await client.messages.estimateBatch(
      open.map(({ message }) => message),
      { signal },
    )
    parts += totals.parts
    sum.add(totals.price)
    for (const result of data) {
      if (!('error' in result)) continue
      const index = columnOfParam(mapping, result.error.param)
      report({
        line: open[result.index]?.row.line ?? 0,
        column: index + 1,
        columnName: mapping.columns[index] ?? '',
        problem: `${result.error.code}: ${result.error.message.replace(/\.$/u, '')}`,
      })
    }
  }

  const running = new Set<Promise<void>>()
  const start = async (open: ReadonlyArray<Open>): Promise<void> => {
    const estimating = estimate(open)
    running.add(estimating)
    estimating.then(
      () => running.delete(estimating),
      () => {},
    )
    if (running.size >= CONCURRENCY) await Promise.race(running)
  }
  let open: Array<Open> = []
  let bytes = 0
  try {
    for await (const group of groups) {
      for (const row of group) {
        rows = row.number
        const problem = problemOf(mapping, row)
        if (problem !== null) {
          report(problem)
          continue
        }
        const message = messageOf(mapping, row)
        const size = maxBytes(message)
        if (open.length === batchMax || bytes + size > MAX_ESTIMATE_BYTES) {
          await start(open)
          open = []
          bytes = 0
          onProgress(rows)
        }
        open.push({ row, message })
        bytes += size
      }
    }
    if (open.length > 0) await start(open)
    await Promise.all(running)
  } catch (error) {
    await Promise.allSettled(running)
    throw error
  }
  if (rows === 0) throw refused('csv_invalid', 'The file has no row after the heading.')
  shorten()
  return { rows, invalid, problems, parts, price: sum.total() }
}
