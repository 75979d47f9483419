/**
 * Readers follow an event journal by its cursor while eight writers fill it through four
 * projectors. One projector is killed every few seconds. Each reader must see every event once and
 * in order. `HUB_CURSOR_SECONDS` sets the duration.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { encodeId } from '@hub/domain'
import { openDatabase } from '@hub/testkit'
import { type ProcessHandle, startHub, type TestHub, WITHOUT_WEBHOOKS } from '../support/hub.ts'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { waitUntilIdle } from '../support/checker/checker.ts'
import { type Client, send } from '../support/client.ts'
import { emptyWorkloadResult, type WorkloadResult, sendRequest } from '../support/mixed-workload.ts'
import { type Account, type HubAdmin, makeHubAdmin } from '../support/hub-admin.ts'
import { seededRandom } from '../support/seeded-random.ts'

const SECONDS = Number(process.env['HUB_CURSOR_SECONDS'] ?? 15)
const SEED = Number(process.env['HUB_CURSOR_SEED'] ?? 20_261_121)
const WRITERS = 8
/** Projectors in addition to the first one. */
const MORE_PROJECTORS = 3
const READERS = 2
const KILL_EVERY_MS = 5000
/**
 * The batch size of a writer and its pause between batches. Together some hundred messages a
 * second, which one core can project.
 */
const BATCH = 10
const PAUSE_MS = 200
/**
 * Only ends a wait that hangs. On a busy machine the sweep may have to seal a batch, which takes a
 * minute.
 */
const CAUGHT_UP_WITHIN_MS = 180_000

let hub: TestHub
let admin: HubAdmin
let account: Account
let projectors: ReadonlyArray<ProcessHandle>

beforeAll(async () => {
  hub = await startHub({ apps: WITHOUT_WEBHOOKS })
  admin = makeHubAdmin(hub)
  account = await admin.createAccount()
  const more = await Promise.all(
    Array.from({ length: MORE_PROJECTORS }, (_, i) => hub.addProcess('projector', `projector-${i + 2}`)),
  )
  await Promise.all(more.map(({ restart }) => restart()))
  projectors = [hub.app('projector'), ...more]
})
afterAll(async () => {
  await admin?.close()
  await hub?.stop()
})

/**
 * Sends batches to one account until `isOver`. Refused sends are repeated until they are accepted.
 */
const write = async (
  apiClient: Client,
  writer: number,
  sent: WorkloadResult,
  isOver: () => boolean,
): Promise<void> => {
  for (let made = 0; !isOver(); made += BATCH, await delay(PAUSE_MS)) {
    const sends = Array.from({ length: BATCH }, (_, i) => {
      const digits = String(writer * 1_000_000 + made + i).padStart(7, '0')
      const body = send(i % 2 === 0 ? 'otp' : 'service', `+7911${digits}`, `cursor-${digits}`)
      return { body, correctedLater: false }
    })
    await sendRequest({ apiClient, single: false, sends }, sent)
  }
}

/** The pause before a failed read is repeated. */
const RETRY_AFTER_MS = 100

/**
 * Follows the journal from its beginning with pages of `limit` events. Returns the ids in the order
 * of arrival.
 */
const follow = (apiClient: Client, limit: number) => {
  const ids: Array<string> = []
  let ending = false
  const ended = (async () => {
    let cursor: string | null = null
    for (;;) {
      const last = ending
      const { body, status } = await apiClient.get(
        `/v1/events?limit=${limit}${cursor === null ? '' : `&starting_after=${cursor}`}`,
      )
      if (status >= 500) {
        await delay(RETRY_AFTER_MS)
        continue
      }
      expect(status).toBe(200)
      for (const { id } of body.data) ids.push(id)
      cursor = body.next_cursor
      // All events were recorded before this page was requested.
      if (last && body.has_more !== true) return
      if (body.has_more !== true) await delay(5)
    }
  })()
  // Looked at in `end`; a failure before that must not count as unhandled.
  ended.catch(() => {})
  return {
    ids,
    end: (): Promise<void> => {
      ending = true
      return ended
    },
  }
}

describe(`${WRITERS} writers, ${MORE_PROJECTORS + 1} projectors, ${READERS} readers for ${SECONDS} s, a projector killed every ${KILL_EVERY_MS / 1000} s (seed ${SEED})`, () => {
  it(
    'each reader sees every event once and in order',
    async () => {
      const random = seededRandom(SEED)
      const began = performance.now()
      let isOver = false
      const readers = Array.from({ length: READERS }, (_, i) => follow(account.test, i % 2 === 0 ? 1000 : 37))
      const sent = emptyWorkloadResult()
      const writing = Promise.all(
        Array.from({ length: WRITERS }, (_, i) => write(account.test, i, sent, () => isOver)),
      )
      writing.catch(() => {})

      let kills = 0
      const killing = (async () => {
        const back = new Map<string, Promise<void>>()
        do {
          await delay(KILL_EVERY_MS)
          const victim = projectors[random.below(projectors.length)]!
          // A process that is still starting cannot be killed again.
          await back.get(victim.name)
          victim.kill('SIGKILL')
          await victim.exited()
          kills += 1
          back.set(victim.name, victim.restart())
        } while (performance.now() - began < SECONDS * 1000)
        await Promise.all(back.values())
      })()
      await killing.finally(() => {
        isOver = true
      })
      const seconds = (): string => ((performance.now() - began) / 1000).toFixed(0)
      const killedFor = seconds()
      await writing
      const messages = sent.accepted.size
      expect([...sent.refused]).toEqual([])
      await waitUntilIdle(hub, { accepted: messages, awaitSeals: true, withinMs: CAUGHT_UP_WITHIN_MS })
      const idleAfter = seconds()
      await Promise.all(readers.map(({ end }) => end()))

      const sql = openDatabase(hub.describe().database_url)
      try {
        const rows = await sql<ReadonlyArray<{ id: string; sequence: string }>>`
          SELECT id, sequence FROM read.events WHERE account = ${account.uuid} AND mode = 'test' ORDER BY sequence`
        expect(rows.map(({ sequence }) => Number(sequence))).toEqual(rows.map((_, index) => index + 1))
        const journal = rows.map(({ id }) => encodeId('evt', id))
        const [batches] = await sql<[{ count: number }]>`SELECT count(*)::int FROM read.batches WHERE closed`
        // Three events for each message (accepted, sent, delivered) and one for each batch
        // (completed).
        expect(journal).toHaveLength(3 * messages + batches.count)
        for (const { ids } of readers) {
          // This finds the first difference, because vitest would print ten thousand ids.
          const at = ids.findIndex((id, index) => id !== journal[index])
          expect({ at, read: ids.length }).toEqual({ at: -1, read: journal.length })
        }
        console.log(
          `seed ${SEED}: ${messages} messages and ${journal.length} events in ${killedFor} s with ${kills} projectors killed; ` +
            `all projected after ${idleAfter} s, read after ${seconds()} s`,
        )
      } finally {
        await sql.end()
      }
    },
    SECONDS * 1000 + 2 * CAUGHT_UP_WITHIN_MS,
  )
})
