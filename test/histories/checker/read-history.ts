/** Reads a recorded history and groups its entries. */
import { createReadStream } from 'node:fs'
import { createInterface } from 'node:readline'
import type {
  AccountEntry,
  BatchEntry,
  EndEntry,
  Entry,
  EventEntry,
  FaultEntry,
  FinalEntry,
  IncompleteEntry,
  MessageClass,
  OptOutEntry,
  PageEntry,
  ReadEntry,
  ReportEntry,
  RunEntry,
  SendEntry,
  SubmitEntry,
  WebhookEntry,
} from './history.ts'

/**
 * What the client knows after an attempt. `refused`: an answer says that the message is not sent.
 * `unknown`: no answer, or an answer that says so.
 */
export type Outcome = 'accepted' | 'duplicate' | 'refused' | 'unknown'

/** One request for a message: a single send, or an element of a batch. */
export interface Attempt {
  readonly began: number
  readonly ended: number
  readonly outcome: Outcome
  readonly id: string | null
  readonly code: string | null
  readonly window: string | null
  readonly isSingle: boolean
}

/** What the client wanted to send once, with all attempts. */
export interface Wanted {
  readonly ref: string
  readonly account: string
  readonly class: MessageClass
  readonly number: string
  readonly hasClientRef: boolean
  readonly attempts: Array<Attempt>
}

export interface History {
  readonly run: RunEntry
  readonly wanted: ReadonlyMap<string, Wanted>
  readonly sends: ReadonlyArray<SendEntry>
  readonly batches: ReadonlyArray<BatchEntry>
  readonly submits: ReadonlyArray<SubmitEntry>
  readonly incomplete: ReadonlyArray<IncompleteEntry>
  readonly reports: ReadonlyArray<ReportEntry>
  readonly webhooks: ReadonlyArray<WebhookEntry>
  readonly pages: ReadonlyArray<PageEntry>
  readonly reads: ReadonlyArray<ReadEntry>
  /** By message id. */
  readonly finals: ReadonlyMap<string, FinalEntry>
  readonly accounts: ReadonlyArray<AccountEntry>
  readonly optOuts: ReadonlyArray<OptOutEntry>
  readonly faults: ReadonlyArray<FaultEntry>
  readonly end: EndEntry | null
  /** The journal of each account, as the last reader saw it. */
  readonly journals: ReadonlyMap<string, ReadonlyArray<EventEntry>>
}

const outcomeOf = (send: SendEntry): Outcome => {
  if (send.status === null || send.unknown) return 'unknown'
  if (send.status !== 202) return 'refused'
  return send.duplicate || send.replayed ? 'duplicate' : 'accepted'
}

const attemptsOf = (
  entry: SendEntry | BatchEntry,
): ReadonlyArray<readonly [Omit<Wanted, 'attempts'>, Attempt]> => {
  const { account, began, ended } = entry
  if (entry.kind === 'send') {
    const { class: messageClass, code, hasClientRef, id, number, ref, window } = entry
    return [
      [
        { ref, account, class: messageClass, number, hasClientRef },
        { began, ended, outcome: outcomeOf(entry), id, code, window, isSingle: true },
      ],
    ]
  }
  const isAnswered = entry.status !== null && !entry.unknown
  return entry.items.map(([ref, messageClass, number, result, id, code, isUnknown]) => {
    const outcomeOfItem = (): Outcome => {
      if (!isAnswered || isUnknown) return 'unknown'
      if (result === 'rejected' || result === null) return 'refused'
      return entry.replayed ? 'duplicate' : result
    }
    return [
      { ref, account, class: messageClass, number, hasClientRef: true },
      { began, ended, outcome: outcomeOfItem(), id, code: code ?? entry.code, window: null, isSingle: false },
    ]
  })
}

/** Groups the entries of a history. Throws if it has no first entry. */
export const historyOf = (entries: Iterable<Entry>): History => {
  let run: RunEntry | null = null
  let end: EndEntry | null = null
  const wanted = new Map<string, Wanted>()
  const sends: Array<SendEntry> = []
  const batches: Array<BatchEntry> = []
  const submits: Array<SubmitEntry> = []
  const incomplete: Array<IncompleteEntry> = []
  const reports: Array<ReportEntry> = []
  const webhooks: Array<WebhookEntry> = []
  const pages: Array<PageEntry> = []
  const reads: Array<ReadEntry> = []
  const finals = new Map<string, FinalEntry>()
  const accounts: Array<AccountEntry> = []
  const optOuts: Array<OptOutEntry> = []
  const faults: Array<FaultEntry> = []
  for (const entry of entries) {
    switch (entry.kind) {
      case 'run':
        run = entry
        break
      case 'send':
      case 'batch':
        if (entry.kind === 'send') sends.push(entry)
        else batches.push(entry)
        for (const [what, attempt] of attemptsOf(entry)) {
          const known = wanted.get(what.ref)
          if (known === undefined) wanted.set(what.ref, { ...what, attempts: [attempt] })
          else known.attempts.push(attempt)
        }
        break
      case 'submit':
        submits.push(entry)
        break
      case 'incomplete':
        incomplete.push(entry)
        break
      case 'report':
        reports.push(entry)
        break
      case 'webhook':
        webhooks.push(entry)
        break
      case 'page':
        pages.push(entry)
        break
      case 'read':
        reads.push(entry)
        break
      case 'final':
        finals.set(entry.id, entry)
        break
      case 'account':
        accounts.push(entry)
        break
      case 'opt-out':
        optOuts.push(entry)
        break
      case 'fault':
        faults.push(entry)
        break
      case 'end':
        end = entry
    }
  }
  if (run === null) throw new Error('The history has no entry of kind "run".')
  for (const { attempts } of wanted.values()) attempts.sort((a, b) => a.ended - b.ended)
  const journals = new Map<string, ReadonlyArray<EventEntry>>()
  for (const { name } of run.accounts) {
    journals.set(
      name,
      pages
        .filter(({ account, reader }) => account === name && reader === 'full')
        .flatMap(({ events }) => events),
    )
  }
  return {
    run,
    wanted,
    sends,
    batches,
    submits,
    incomplete,
    reports,
    webhooks,
    pages,
    reads,
    finals,
    accounts,
    optOuts,
    faults: faults.toSorted((a, b) => a.began - b.began),
    end,
    journals,
  }
}

/** Reads a file with one JSON entry on each line. */
export const readHistory = async (path: string): Promise<History> => {
  const entries: Array<Entry> = []
  for await (const line of createInterface({ input: createReadStream(path) })) {
    if (line !== '') entries.push(JSON.parse(line) as Entry)
  }
  return historyOf(entries)
}
