/** What the operator must not forget over a restart: JSON lines, appended before anything is answered. */
import { closeSync, mkdirSync, openSync, readFileSync, truncateSync, writeSync } from 'node:fs'
import { dirname } from 'node:path'
import type { ReportStatus } from './behaviour.ts'

export type Entry =
  /** A reference was seen for the first time and answered for good. */
  | {
      readonly entry: 'taken'
      readonly reference: string
      readonly status: 'accepted' | 'rejected'
      readonly reason: string | null
      readonly operator_ids: ReadonlyArray<string>
      readonly reports: ReadonlyArray<{
        readonly status: ReportStatus
        readonly reason: string | null
        readonly due: number
      }>
    }
  | { readonly entry: 'repeated'; readonly reference: string }
  /** A part came over SMPP and was answered with `operator_id`. */
  | {
      readonly entry: 'part'
      readonly operator_id: string
      /** What its receipts call it. */
      readonly receipt_id: string
      /** The two addresses, sealed: receipts that are pendingReports must find their way after a restart. */
      readonly addresses: string
      readonly reports: ReadonlyArray<{
        readonly status: ReportStatus
        readonly reason: string | null
        readonly due: number
      }>
    }
  /** The last part of a message came over SMPP. */
  | {
      readonly entry: 'handed_over'
      readonly reference: string
      readonly status: 'accepted' | 'rejected'
      readonly reason: string | null
      readonly operator_ids: ReadonlyArray<string>
    }
  | { readonly entry: 'throttled'; readonly count: number }
  | { readonly entry: 'sent'; readonly count: number }
  | { readonly entry: 'inbound'; readonly count: number }
  | { readonly entry: 'inbound_acknowledged'; readonly count: number }
  | {
      readonly entry: 'acknowledged'
      readonly reports: ReadonlyArray<readonly [string, ReportStatus, string]>
    }
  | {
      readonly entry: 'receipts_acknowledged'
      readonly receipts: ReadonlyArray<readonly [string, ReportStatus]>
    }

export interface Journal {
  readonly append: (entries: ReadonlyArray<Entry>) => void
  readonly close: () => void
}

/**
 * Opens a journal and answers what it holds. A last line that was cut off by a kill is removed: what it said was
 * never answered.
 */
export const openJournal = (
  path: string,
): { readonly entries: ReadonlyArray<Entry>; readonly journal: Journal } => {
  mkdirSync(dirname(path), { recursive: true })
  let text = ''
  try {
    text = readFileSync(path, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
  }
  const whole = text.slice(0, text.lastIndexOf('\n') + 1)
  if (whole.length < text.length) truncateSync(path, Buffer.byteLength(whole))
  const entries = whole
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Entry)
  const file = openSync(path, 'a', 0o600)
  return {
    entries,
    journal: {
      append: (added) => {
        if (added.length === 0) return
        writeSync(file, added.map((entry) => `${JSON.stringify(entry)}\n`).join(''))
      },
      close: () => closeSync(file),
    },
  }
}
