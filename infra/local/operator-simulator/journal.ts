/** The journal of the operator: JSON lines, appended before an answer, and read after a restart. */
import { closeSync, existsSync, mkdirSync, openSync, readFileSync, truncateSync, writeSync } from 'node:fs'
import { dirname } from 'node:path'
import type { PlannedReport, ReportStatus } from './behaviour.ts'

export interface PlannedReportEntry extends PlannedReport {
  /** When it happened, and when it is first sent: ms since the epoch. */
  readonly due: number
}

export type Entry =
  /** A new reference was accepted or rejected permanently. */
  | {
      readonly entry: 'taken'
      readonly reference: string
      readonly status: 'accepted' | 'rejected'
      readonly reason: string | null
      readonly operator_ids: ReadonlyArray<string>
      readonly reports: ReadonlyArray<PlannedReportEntry>
    }
  | { readonly entry: 'repeated'; readonly reference: string }
  /** A part was accepted over SMPP with the id `operator_id`. */
  | {
      readonly entry: 'part'
      readonly operator_id: string
      /** The id in its receipts. */
      readonly receipt_id: string
      /** The encrypted addresses. Pending receipts need them after a restart. */
      readonly addresses: string
      readonly reports: ReadonlyArray<PlannedReportEntry>
    }
  /** The last part of a message arrived over SMPP. */
  | {
      readonly entry: 'handed_over'
      readonly reference: string
      readonly status: 'accepted' | 'rejected'
      readonly reason: string | null
      readonly operator_ids: ReadonlyArray<string>
    }
  | {
      readonly entry: 'throttled' | 'sent' | 'inbound' | 'inbound_acknowledged'
      readonly count: number
    }
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
 * Opens a journal and returns its entries. Removes a last line that a kill cut off, because its
 * submission was never answered. Without a path, nothing is kept.
 */
export const openJournal = (
  path: string | null,
): { readonly entries: ReadonlyArray<Entry>; readonly journal: Journal } => {
  if (path === null) return { entries: [], journal: { append: () => {}, close: () => {} } }
  mkdirSync(dirname(path), { recursive: true })
  const text = existsSync(path) ? readFileSync(path, 'utf8') : ''
  const complete = text.slice(0, text.lastIndexOf('\n') + 1)
  if (complete.length < text.length) truncateSync(path, Buffer.byteLength(complete))
  const entries = complete
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
