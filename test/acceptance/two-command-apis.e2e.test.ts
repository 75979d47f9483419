/**
 * Two command-api processes accept each message once, whichever process gets the requests, with
 * concurrent repeats and with kills.
 */
import { eventually } from '@hub/testkit'
import { type ProcessHandle, startHub, type TestHub } from '../support/hub.ts'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { readHandoverClaims } from '../support/handover-claims.ts'
import {
  allEvents,
  type Client,
  client,
  clientCountingUnknown,
  isTemporaryElement,
  isUnchecked,
  send,
} from '../support/client.ts'
import { type Account, freshNumber, type HubAdmin, makeHubAdmin } from '../support/hub-admin.ts'

const REPEATS = 2000

let hub: TestHub
let admin: HubAdmin
let bases: readonly [string, string]

beforeAll(async () => {
  // Over HTTP the operator simulator recognises and counts repeated references.
  hub = await startHub({ secondCommandApi: true, liveOperator: 'http' })
  admin = makeHubAdmin(hub)
  const { base_url, second_base_url } = hub.describe()
  if (second_base_url === undefined)
    throw new Error('the hub has no second command-api: start it with secondCommandApi')
  bases = [base_url, second_base_url]
})
afterAll(async () => {
  await admin?.close()
  await hub?.stop()
})

/** Returns one client for each process. */
const both = (key: string): readonly [Client, Client] => [client(bases[0], key), client(bases[1], key)]

/** Runs `work` for the indexes from 0 to times - 1, with `atOnce` concurrent workers. */
const inWorkers = async (
  times: number,
  atOnce: number,
  work: (index: number) => Promise<void>,
): Promise<void> => {
  let next = 0
  await Promise.all(
    Array.from({ length: atOnce }, async () => {
      for (let index = next++; index < times; index = next++) await work(index)
    }),
  )
}

/** Returns the ids of the accepted messages of an account, from its events. */
const acceptedIds = async (apiClient: Client): Promise<ReadonlyArray<string>> =>
  (await allEvents(apiClient))
    .filter(({ type }) => type === 'message.accepted')
    .map(({ data }) => data.object.id as string)

describe('two thousand concurrent repeats across two processes', () => {
  it.each(['otp', 'service'] as const)(
    'with one client_ref accept exactly one message (%s)',
    async (kind) => {
      const account = await admin.createAccount()
      const clients = bases.map((base) => clientCountingUnknown(base, account.keys.live))
      const body = send(kind, freshNumber(), 'the-one')
      const answers = await Promise.all(
        Array.from({ length: REPEATS }, (_, index) => clients[index % 2]!.client.post('/v1/messages', body)),
      )
      expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([202]))
      const ids = new Set(answers.map((answer) => answer.body.id as string))
      expect(ids.size).toBe(1)
      // While a code is not yet confirmed by Kafka, the other process may receive the confirmation
      // and answer as the first.
      const first = answers.filter((answer) => answer.body.duplicate === undefined)
      const unknown = clients.reduce((sum, one) => sum + one.unknown(), 0)
      expect(first.length + unknown).toBeGreaterThanOrEqual(1)
      expect(first.length).toBeLessThanOrEqual(kind === 'otp' ? 2 : 1)
      const [id] = ids
      await expectOnlyMessage(clients[0]!.client, account, id!, kind)
    },
  )

  it.each(['otp', 'service'] as const)(
    'with one Idempotency-Key accept exactly one message (%s)',
    async (kind) => {
      const account = await admin.createAccount()
      const clients = both(account.keys.live)
      const body = send(kind, freshNumber())
      const headers = { 'idempotency-key': 'the-one' }
      const statuses = new Map<number, number>()
      const originals: Array<string> = []
      const texts = new Set<string>()
      const repeat = async (index: number): Promise<void> => {
        for (;;) {
          const answer = await clients[index % 2]!.post('/v1/messages', body, headers)
          statuses.set(answer.status, (statuses.get(answer.status) ?? 0) + 1)
          if (answer.status === 202) {
            texts.add(answer.text)
            if (answer.headers.get('idempotent-replayed') === null) originals.push(answer.body.id)
            return
          }
          // The first request is still in progress. The contract tells clients to wait; this test
          // repeats at once.
          expect([answer.status, answer.body.error?.code]).toEqual([409, 'idempotency_conflict'])
        }
      }
      await Promise.all(Array.from({ length: REPEATS }, (_, index) => repeat(index)))
      expect(originals).toHaveLength(1)
      expect(texts.size).toBe(1)
      expect(statuses.get(202)).toBe(REPEATS)
      await expectOnlyMessage(clients[0], account, originals[0]!, kind)
    },
  )

  /** Checks that the account has one message, charged once and handed over once. */
  const expectOnlyMessage = async (
    apiClient: Client,
    account: Account,
    id: string,
    kind: 'otp' | 'service',
  ): Promise<void> => {
    await eventually(
      async () => {
        expect((await apiClient.get(`/v1/messages/${id}`)).body.status).toBe('delivered')
        return true
      },
      { everyMs: 100 },
    )
    expect(await acceptedIds(apiClient)).toEqual([id])
    const seen = await fetch(`${hub.describe().operator_url}/submissions/${id}`)
    expect(await seen.json()).toMatchObject({ reference: id, times: 1 })
    await admin.setAccountSettings(account, 'live', { spend_limit: '1000.00' })
    await eventually(
      async () => {
        const { body } = await apiClient.get('/v1/account')
        expect(body.spend_limit?.spent.amount).toBe(kind === 'otp' ? '2.50' : '2.00')
        return true
      },
      { everyMs: 100 },
    )
  }
})

// The waits may exceed the usual timeout in total. Each has its own limit.
describe('random kill -9 of command-api during batches', { timeout: 400_000 }, () => {
  const BATCHES = 30
  const ELEMENTS = 50
  const AT_ONCE = 6
  const KILLS = 6
  /**
   * After this many 409 answers, a tenth of a second apart, a client continues with another key.
   */
  const MAX_CONFLICTS = 20
  const price = { otp: 250, service: 200 }

  interface Sent {
    readonly ref: string
    readonly kind: 'otp' | 'service'
    readonly to: string
    readonly floods: boolean
  }

  it('loses no accepted message, creates no second message for a client_ref, and consumes no counter for a refusal', async () => {
    // A pause of a day does not end while a busy machine repeats batches.
    const account = await admin.createAccount({
      live: { spend_limit: '1000000.00', flood_pause_seconds: 86_400 },
    })
    const clients = both(account.keys.live)
    const processes: ReadonlyArray<ProcessHandle> = [hub.app('command-api'), hub.secondCommandApi()]

    // Each batch ends with a second message to one of its numbers. The pause of the flood windows
    // refuses it.
    const batches: ReadonlyArray<ReadonlyArray<Sent>> = Array.from({ length: BATCHES }, (_, batch) => {
      const elements = Array.from({ length: ELEMENTS }, (__, index): Sent => ({
        ref: `b${batch}-${index}`,
        kind: index % 3 === 0 ? 'otp' : 'service',
        to: freshNumber(),
        floods: false,
      }))
      return [...elements, { ref: `b${batch}-again`, kind: 'service', to: elements[1]!.to, floods: true }]
    })

    // Repeats a batch as the contract tells clients to: with the same key after 409, 5xx and broken
    // connections.
    const results = new Map<string, Set<string>>()
    const refused = new Map<string, Set<string>>()
    let broken = 0
    const post = async (batch: number): Promise<void> => {
      const messages = batches[batch]!.map(({ kind, ref, to }) => send(kind, to, ref))
      let key = `batch-${batch}`
      let conflicts = 0
      const seen: Array<string> = []
      for (let attempt = 0; attempt < 400; attempt += 1) {
        const apiClient = clients[(batch + attempt) % 2]!
        const answer = await apiClient
          .post('/v1/messages/batch', { messages }, { 'idempotency-key': key })
          .catch(() => null)
        if (answer === null || answer.status !== 202) {
          if (answer === null) broken += 1
          else expect([409, 503]).toContain(answer.status)
          // The idempotency lock of a killed process lasts a minute. With another key the
          // client_refs still prevent duplicates.
          if (answer?.status === 409) conflicts += 1
          if (conflicts === MAX_CONFLICTS) {
            key = `batch-${batch}-new-${attempt}`
            conflicts = 0
          }
          seen.push(answer === null ? 'broken' : `${answer.status} ${answer.body.error?.code}`)
          await new Promise((resolve) => setTimeout(resolve, 100))
          continue
        }
        let retry = false
        let hasStoredRefusal = false
        for (const result of answer.body.results) {
          const ref: string = result.client_ref
          if (result.result === 'rejected') {
            refused.set(ref, (refused.get(ref) ?? new Set()).add(result.error.code))
            retry ||= isTemporaryElement(result.error)
            if (isUnchecked(result.error)) hasStoredRefusal = true
          } else {
            results.set(ref, (results.get(ref) ?? new Set()).add(result.message?.id ?? result.message_id))
          }
        }
        if (!retry) return
        // The answer is stored under its key.
        if (hasStoredRefusal) key = `batch-${batch}-new-${attempt}`
        seen.push('elements to repeat')
      }
      throw new Error(
        `batch ${batch} got no final answer. The last responses were: ${[...new Set(seen)].join(', ')}`,
      )
    }

    // Each kill happens at a random point of its part of the run, and hits one of the two
    // processes.
    const killAt = new Map<number, number>()
    for (let kill = 0; kill < KILLS; kill += 1) {
      const batchesPerKill = BATCHES / KILLS
      killAt.set(Math.floor((kill + Math.random()) * batchesPerKill), Math.random() < 0.5 ? 0 : 1)
    }
    const restarting: Array<Promise<void>> = [Promise.resolve(), Promise.resolve()]
    await inWorkers(BATCHES, AT_ONCE, async (index) => {
      const victim = killAt.get(index)
      const posted = post(index)
      if (victim !== undefined) {
        restarting[victim] = restarting[victim]!.then(async () => {
          const process = processes[victim]!
          // Wait a little, so that requests are in flight.
          await new Promise((resolve) => setTimeout(resolve, Math.random() * 60))
          process.kill('SIGKILL')
          await process.exited()
          await process.restart()
        })
      }
      await posted
    })
    await Promise.all(restarting)

    // Each client_ref has one message, and each message one client_ref, however often it was
    // answered.
    const sent = batches.flat()
    const expected = sent.filter(({ floods }) => !floods)
    for (const { ref } of expected) expect(results.get(ref)?.size, ref).toBe(1)
    const ids = new Map(expected.map(({ ref }) => [ref, [...results.get(ref)!][0]!]))
    expect(new Set(ids.values()).size).toBe(expected.length)
    // The second message to a number is refused by the pause, and by nothing else.
    for (const { ref } of sent.filter(({ floods }) => floods)) {
      expect(results.has(ref), ref).toBe(false)
      expect([...(refused.get(ref) ?? [])], ref).toEqual(['recipient_flood_limited'])
    }

    // No accepted message is lost, and there are no others.
    const events = await eventually(
      async () => {
        const found = await allEvents(clients[0])
        const delivered = found.filter(({ type }) => type === 'message.delivered')
        expect(delivered.length).toBeGreaterThanOrEqual(expected.length)
        return found
      },
      { everyMs: 500 },
    )
    const accepted = events.filter(({ type }) => type === 'message.accepted')
    expect(new Set(accepted.map(({ data }) => data.object.id))).toEqual(new Set(ids.values()))
    expect(accepted).toHaveLength(expected.length)

    // Each message was handed over once.
    const claims = await readHandoverClaims(hub.describe().kafka.brokers)
    expect(claims.repeatedAfterOutcome).toEqual([])

    // A repeat is a duplicate of the same message, with any idempotency key.
    for (const [index, elements] of batches.entries()) {
      const again = await clients[index % 2]!.post('/v1/messages/batch', {
        messages: elements.filter(({ floods }) => !floods).map(({ kind, ref, to }) => send(kind, to, ref)),
      })
      for (const result of again.body.results) {
        expect([result.result, result.message_id]).toEqual(['duplicate', ids.get(result.client_ref)])
      }
    }

    // Every batch is closed, and has one event. Those that a killed process left open are sealed by
    // the sweeper.
    const leftOpen = await admin.ageOpenBatches()
    const completed = await eventually(
      async () => {
        const found = (await allEvents(clients[0])).filter(({ type }) => type === 'batch.completed')
        const total = found.reduce((sum, { data }) => sum + data.object.counts.accepted, 0)
        expect(total).toBe(expected.length)
        return found
      },
      { everyMs: 500 },
    )
    expect(new Set(completed.map(({ data }) => data.object.id)).size).toBe(completed.length)

    // The spend equals the accepted messages. The reconciler repairs a crash between reservation
    // and acceptance.
    const cents = expected.reduce((sum, { kind }) => sum + price[kind], 0)
    await eventually(
      async () => {
        const { body } = await clients[0].get('/v1/account')
        expect(body.spend_limit.spent.amount).toBe((cents / 100).toFixed(2))
        return true
      },
      { everyMs: 500 },
    )
    console.log(
      `${BATCHES} batches, ${KILLS} kills, ${broken} broken requests, ${completed.length} batches completed ` +
        `(${leftOpen} of them left open by a killed process), ` +
        `${claims.repeatedWithoutOutcome} handovers of unknown outcome repeated`,
    )
  })

  it('releases the flood reservation of a message that was never accepted', async () => {
    // The spend limit of zero refuses every element after its flood reservation, while the process
    // is killed repeatedly.
    const account = await admin.createAccount({ live: { spend_limit: '0.00', flood_pause_seconds: 86_400 } })
    const clients = both(account.keys.live)
    const [victim] = [hub.secondCommandApi()]
    const numbers = Array.from({ length: 400 }, () => freshNumber())
    let settled = false
    const killing = (async () => {
      for (let kill = 0; kill < 3; kill += 1) {
        await new Promise((resolve) => setTimeout(resolve, 50 + Math.random() * 200))
        victim!.kill('SIGKILL')
        await victim!.exited()
        await victim!.restart()
      }
      settled = true
    })()
    let posts = 0
    await Promise.all(
      Array.from({ length: 4 }, async () => {
        while (!settled) {
          const answer = await clients[1]
            .post('/v1/messages/batch', {
              messages: numbers.map((to, index) => send('service', to, `${posts}-${index}`)),
            })
            .catch(() => null)
          posts += 1
          if (answer?.status !== 202) await new Promise((resolve) => setTimeout(resolve, 50))
          else expect(answer.body.counts.accepted).toBe(0)
        }
      }),
    )
    await killing
    await admin.setAccountSettings(account, 'live', { spend_limit: '1000.00', flood_pause_seconds: 86_400 })
    // Reservations of a killed process expire 20 s after they were made at the latest.
    const waiting = new Set(numbers)
    await eventually(
      async () => {
        const { body } = await clients[0].post('/v1/messages/batch', {
          messages: [...waiting].map((to) => send('service', to, `free-${to.slice(-4)}-${posts++}`)),
        })
        for (const [index, to] of [...waiting].entries()) {
          if (body.results[index].result === 'accepted') waiting.delete(to)
        }
        expect(waiting.size).toBe(0)
        return true
      },
      { everyMs: 1000 },
    )
    expect((await clients[0].get('/v1/account')).body.spend_limit.spent.amount).toBe('800.00')
  })
})
