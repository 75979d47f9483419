/** Reads the event journals during the run, and everything at its end. */
import { setTimeout as delay } from 'node:timers/promises'
import { hundredths, type RunAccount } from './accounts.ts'
import { type Api, digestOf } from './api.ts'
import type { EventEntry } from './checker/history.ts'
import type { Recorder } from './recorder.ts'

const IDLE_MS = 500
const RETRY_MS = 500
const PAGE = 1000
const LIST_PAGE = 100
/** Only ends a read that never succeeds. */
const READ_WITHIN_MS = 60_000

const FINAL_TYPES: ReadonlySet<string> = new Set([
  'message.delivered',
  'message.undelivered',
  'message.rejected',
  'message.expired',
  'batch.completed',
])

/** An event as in the history. The digest is of what must not change. */
export const eventEntry = (event: any): EventEntry => {
  const { created_at, data, id, type } = event
  const object = data?.object ?? {}
  const isAboutObject = object.object === 'message' || object.object === 'batch'
  const content = [
    id,
    type,
    created_at,
    object.id,
    object.status,
    object.reason_code,
    object.client_ref,
    object.batch,
  ]
  return [
    id,
    type,
    isAboutObject ? object.id : null,
    object.status ?? null,
    created_at,
    digestOf(JSON.stringify(content)),
  ]
}

export interface Followers {
  /** The messages that have a final event, and the completed batches. */
  readonly final: ReadonlySet<string>
  /** The number of events that the followers have read. */
  readonly count: () => number
  /** When a recipient's opt-out was first in a journal, by the number of `recipient.opted_out` events. */
  readonly optOuts: () => number
  readonly stop: () => Promise<void>
}

interface ReaderOptions {
  readonly api: Api
  readonly recorder: Pick<Recorder, 'record'>
  readonly accounts: ReadonlyArray<RunAccount>
}

/** One reader for each account follows the cursor until `stop`. */
export const followEvents = ({ accounts, api, recorder }: ReaderOptions): Followers => {
  const final = new Set<string>()
  let count = 0
  let optOuts = 0
  let stopping = false
  const running = accounts.map(async ({ key, name }) => {
    let after: string | null = null
    while (!stopping) {
      const answer = await api.get(
        key,
        `/v1/events?limit=${PAGE}${after === null ? '' : `&starting_after=${after}`}`,
      )
      if (answer.status !== 200) {
        await delay(RETRY_MS)
        continue
      }
      const events: ReadonlyArray<EventEntry> = answer.body.data.map(eventEntry)
      if (events.length > 0) {
        recorder.record({
          kind: 'page',
          began: answer.began,
          ended: answer.ended,
          account: name,
          reader: 'follower',
          after,
          events,
        })
      }
      for (const [, type, about] of events) {
        if (about !== null && FINAL_TYPES.has(type)) final.add(about)
        if (type === 'recipient.opted_out') optOuts += 1
      }
      count += events.length
      after = events.at(-1)?.[0] ?? after
      if (answer.body.has_more !== true) await delay(IDLE_MS)
    }
  })
  return {
    final,
    count: () => count,
    optOuts: () => optOuts,
    stop: async () => {
      stopping = true
      await Promise.all(running)
    },
  }
}

/** Repeats a read until it is answered. */
const readPage = async (api: Api, key: string, path: string) => {
  const deadline = performance.now() + READ_WITHIN_MS
  for (;;) {
    const answer = await api.get(key, path)
    if (answer.status === 200) return answer
    if (performance.now() > deadline)
      throw new Error(`GET ${path} was answered with ${answer.status ?? 'nothing'}`)
    await delay(RETRY_MS)
  }
}

const OPEN = ['accepted', 'sent'] as const

/** Whether the list of messages contains one without a final status, also one that no client knows. */
export const hasOpenMessages = async ({
  accounts,
  api,
}: Pick<ReaderOptions, 'accounts' | 'api'>): Promise<boolean> => {
  for (const { key } of accounts) {
    for (const status of OPEN) {
      const { body } = await readPage(api, key, `/v1/messages?limit=1&status=${status}`)
      if (body.data.length > 0) return true
    }
  }
  return false
}

/** Reads all messages and all events of all accounts, and what they have spent. */
export const readEverything = async ({
  accounts,
  api,
  recorder,
}: ReaderOptions): Promise<ReadonlyMap<string, ReadonlyArray<string>>> => {
  const journals = new Map<string, ReadonlyArray<string>>()
  for (const { key, name } of accounts) {
    for (let cursor: string | null = null; ;) {
      const { body } = await readPage(
        api,
        key,
        `/v1/messages?limit=${LIST_PAGE}${cursor === null ? '' : `&starting_after=${cursor}`}`,
      )
      for (const message of body.data) {
        recorder.record({
          kind: 'final',
          account: name,
          id: message.id,
          clientRef: message.client_ref,
          class: message.class,
          state: message.status,
          final: message.final,
          reason: message.reason_code,
          parts: message.parts,
          price: hundredths(message.price.amount),
          history: message.history.map(({ at, reason_code, status }: any) => [
            status,
            reason_code,
            Date.parse(at),
          ]),
        })
      }
      cursor = body.next_cursor
      if (body.has_more !== true) break
    }
    const ids: Array<string> = []
    for (let cursor: string | null = null; ;) {
      const { began, body, ended } = await readPage(
        api,
        key,
        `/v1/events?limit=${PAGE}${cursor === null ? '' : `&starting_after=${cursor}`}`,
      )
      const events: ReadonlyArray<EventEntry> = body.data.map(eventEntry)
      for (const [id] of events) ids.push(id)
      recorder.record({ kind: 'page', began, ended, account: name, reader: 'full', after: cursor, events })
      cursor = body.next_cursor
      if (body.has_more !== true) break
    }
    journals.set(name, ids)
    const { body } = await readPage(api, key, '/v1/account')
    recorder.record({
      kind: 'account',
      account: name,
      spent: hundredths(body.spend_limit.spent.amount ?? body.spend_limit.spent),
    })
  }
  return journals
}
