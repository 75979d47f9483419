/**
 * The last reading of a CSV file: sends each valid row behind those with a result, and records each result. The
 * check of the first start has found the invalid ones, and `--skip-invalid` was given for them.
 */
import { type CommandFailed, refused, unavailable } from '@hub/command-line'
import type { BatchMessage, HubClient, SendResult } from '@sms-delivery-hub/client'
import { type CsvFile, readCsvFile } from './csv-file.ts'
import { messageOf, problemOf } from './mapping.ts'
import type { ResultFile, RowResult } from './result-file.ts'
import { clientRefOf } from './run-id.ts'

/** The most batches in progress at the same time. */
const CONCURRENCY = 4

/** The hub refuses these for a time, so the same command can continue later. */
const TEMPORARY: ReadonlySet<string> = new Set([
  'overloaded',
  'provider_unavailable',
  'internal_error',
  'hub_daily_limit_reached',
])
/** These concern all rows: sending the others would only produce the same refusal. */
const OF_ALL_ROWS: ReadonlySet<string> = new Set([
  'spend_limit_reached',
  'template_not_found',
  'template_not_approved',
  'template_declined',
  'template_class_mismatch',
  'sender_not_registered',
])

/** The failure that ends the run before the row is recorded; `null` if the result is final. */
const stopAt = (result: SendResult, line: number): CommandFailed | null => {
  if (result.result !== 'rejected') return null
  const { code, message, window } = result.error
  const sentence = `Stopped at line ${line}: ${message} Start the same command again to continue.`
  const isUnchecked = code === 'recipient_flood_limited' && window === undefined
  if (TEMPORARY.has(code) || isUnchecked) return unavailable(code, sentence)
  return OF_ALL_ROWS.has(code) ? refused(code, sentence) : null
}

const toRowResult = (result: SendResult, row: number, line: number): RowResult => {
  switch (result.result) {
    case 'accepted':
      return { row, line, outcome: 'accepted', messageId: result.message.id }
    case 'duplicate':
      return { row, line, outcome: 'duplicate', messageId: result.message_id }
    case 'rejected': {
      const param = result.error.param?.replace(/^messages\[\d+\]\./u, '')
      return {
        row,
        line,
        outcome: 'rejected',
        error: result.error.code,
        ...(param === undefined ? {} : { param }),
      }
    }
  }
}

export interface SendOptions {
  readonly file: CsvFile
  readonly runId: string
  readonly client: HubClient
  readonly batchMax: number
  readonly results: ResultFile
  /** `line`: where the last row with a result begins. */
  readonly onProgress: (line: number) => void
  readonly signal: AbortSignal
}

/** A row that `sendAll` has taken, or an invalid row between such rows. */
interface Taken {
  readonly row: number
  readonly line: number
  readonly isSent: boolean
}

export const sendFile = async (options: SendOptions): Promise<void> => {
  const { batchMax, client, file, onProgress, results, runId, signal } = options
  /** The rows in their order. The results come in the same order. */
  const taken: Array<Taken> = []
  const messages = async function* (): AsyncGenerator<BatchMessage, void, undefined> {
    const { mapping, rows } = await readCsvFile(file)
    for await (const group of rows) {
      for (const row of group) {
        if (row.number <= results.lastRow) continue
        const isSent = problemOf(mapping, row) === null
        taken.push({ row: row.number, line: row.line, isSent })
        if (!isSent) continue
        const { variables, ...rest } = messageOf(mapping, row)
        yield { ...rest, variables: { ...variables }, client_ref: clientRefOf(runId, row.number) }
      }
    }
  }
  let next = 0
  /** Records the invalid rows before the next sent one. Returns that one. */
  const skipInvalid = async (): Promise<Taken | undefined> => {
    for (;;) {
      const one = taken[next]
      if (one === undefined || one.isSent) return one
      next += 1
      await results.add({ row: one.row, line: one.line, outcome: 'skipped' })
    }
  }
  for await (const result of client.messages.sendAll(messages(), {
    batchSize: batchMax,
    concurrency: CONCURRENCY,
    signal,
  })) {
    const one = await skipInvalid()
    if (one === undefined) throw new Error('a result without a row')
    const stop = stopAt(result, one.line)
    if (stop !== null) throw stop
    next += 1
    await results.add(toRowResult(result, one.row, one.line))
    onProgress(one.line)
    // The rows of the batches in progress remain.
    if (next >= batchMax) {
      taken.splice(0, next)
      next = 0
    }
  }
  await skipInvalid()
}
