/**
 * Kills, hangs and slows Kafka, PostgreSQL and Redis, one after the other, under one hub. Source: AVL-13 to
 * AVL-17.
 */
import { execFileSync } from 'node:child_process'
import { setTimeout as delay } from 'node:timers/promises'
import { type App, APPS } from '@hub/config'
import { ANSWERED_WITHIN_MS, eventually } from '@hub/testkit'
import { type ProcessHandle, type ServerName, startHub, type TestHub } from '../support/hub.ts'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { type Answer, type Client, client, send, sendUntilAccepted } from '../support/client.ts'
import { type Account, freshNumber, type HubAdmin, makeHubAdmin } from '../support/hub-admin.ts'

/**
 * A recovered server is in use again within this time: reconnects back off to a few seconds, and
 * the machine may be busy.
 */
const RECOVERY = { withinMs: 180_000, everyMs: 200 } as const

let hub: TestHub
let admin: HubAdmin
let account: Account

beforeAll(async () => {
  // Over HTTP the operator simulator recognises and counts repeated references.
  hub = await startHub({ liveOperator: 'http' })
  const { base_url } = hub.describe()
  admin = makeHubAdmin(hub, { connect: (key) => client(base_url, key, { repeats: false }) })
  account = await admin.createAccount()
  // Warm up first: a cold hub may answer differently.
  await untilRecovered(account.live)
})
afterAll(async () => {
  await admin?.close()
  await hub?.stop()
})

interface Timed {
  readonly answer: Answer
  readonly ms: number
}

const timed = async (request: Promise<Answer>): Promise<Timed> => {
  const began = performance.now()
  const answer = await request
  return { answer, ms: performance.now() - began }
}

let refs = 0
const newRef = (): string => `outage-${(refs += 1)}`

const otp = (apiClient: Client, ref = newRef(), to = freshNumber(), headers: Record<string, string> = {}) =>
  timed(apiClient.post('/v1/messages', send('otp', to, ref), headers))
const service = (
  apiClient: Client,
  ref = newRef(),
  to = freshNumber(),
  headers: Record<string, string> = {},
) => timed(apiClient.post('/v1/messages', send('service', to, ref), headers))

const isReady = async (app: App): Promise<boolean> => {
  const port = {
    'command-api': hub.ports.commandApiAdmin,
    dispatcher: hub.ports.dispatcherAdmin,
    projector: hub.ports.projectorAdmin,
    'webhook-fanout': hub.ports.webhookFanoutAdmin,
  }[app]
  return (await fetch(`http://127.0.0.1:${port}/readyz`)).ok
}
const notReady = async (): Promise<ReadonlyArray<App>> => {
  const ready = await Promise.all(APPS.map(isReady))
  return APPS.filter((_app, i) => !ready[i])
}

/** Expects an answer of the contract, in time. */
const expectAnswer = ({ answer, ms }: Timed, expected: number, code?: string): void => {
  expect([answer.status, answer.body?.error?.code]).toEqual([expected, code])
  expect(ms).toBeLessThan(ANSWERED_WITHIN_MS)
  if (expected === 503) {
    expect(answer.body.error.retry_after).toBeGreaterThanOrEqual(1)
    expect(answer.headers.get('retry-after')).toBe(String(answer.body.error.retry_after))
  }
}

/** Returns the child processes of a server. PostgreSQL has one for each connection. */
const childrenOf = (server: ProcessHandle): ReadonlyArray<number> => {
  const parent = String(server.pid())
  const table = execFileSync('ps', ['-A', '-o', 'pid=,ppid='], { encoding: 'utf8' })
  return table
    .trim()
    .split('\n')
    .map((line) => line.trim().split(/\s+/u))
    .flatMap(([pid, ppid]) => (ppid === parent ? [Number(pid)] : []))
}

/** Sends a signal. Returns false if the process has just ended. */
const trySignal = (pid: number, signal: NodeJS.Signals): boolean => {
  try {
    return process.kill(pid, signal)
  } catch {
    return false
  }
}

/**
 * Pauses or continues a server and its child processes, which have their own sessions. A paused
 * parent starts no more of them.
 */
const signalProcessTree = (server: ProcessHandle, signal: 'SIGSTOP' | 'SIGCONT'): void => {
  server.kill(signal)
  for (const pid of childrenOf(server)) trySignal(pid, signal)
}

/** A kind of outage: how it begins and how it ends. */
interface Outage {
  readonly name: string
  readonly begin: (server: ProcessHandle) => Promise<void>
  readonly end: (server: ProcessHandle) => Promise<void>
}

const killed: Outage = {
  name: 'killed',
  begin: async (server) => {
    server.kill('SIGKILL')
    await server.exited()
  },
  end: (server) => server.restart(),
}

const hung: Outage = {
  name: 'hung',
  begin: async (server) => signalProcessTree(server, 'SIGSTOP'),
  end: async (server) => {
    signalProcessTree(server, 'SIGCONT')
    await server.waitReady()
  },
}

/** Runs the server for a tenth of each second, so that it responds later than the clients wait. */
const slow = (): Outage => {
  let running: Promise<void> = Promise.resolve()
  let ended = false
  return {
    name: 'slow',
    begin: async (server) => {
      ended = false
      signalProcessTree(server, 'SIGSTOP')
      running = (async () => {
        while (!ended) {
          await delay(900)
          signalProcessTree(server, 'SIGCONT')
          await delay(100)
          if (!ended) signalProcessTree(server, 'SIGSTOP')
        }
        signalProcessTree(server, 'SIGCONT')
      })()
    },
    end: async (server) => {
      ended = true
      await running
      await server.waitReady()
    },
  }
}

let ending: (() => Promise<void>) | null = null
// Also after a failed test, the next one needs all servers.
afterEach(async () => {
  await ending?.()
  ending = null
})

const duringOutage = async (server: ServerName, outage: Outage, use: () => Promise<void>): Promise<void> => {
  const handle = hub.server(server)
  await outage.begin(handle)
  ending = () => outage.end(handle)
  await use()
  await outage.end(handle)
  ending = null
}

/** Waits until a code and a service message are accepted in a row. */
const untilRecovered = async (apiClient: Client): Promise<void> => {
  await eventually(async () => {
    expect((await otp(apiClient)).answer.status).toBe(202)
    expect((await service(apiClient)).answer.status).toBe(202)
    return true
  }, RECOVERY)
}

const untilDelivered = (apiClient: Client, id: string): Promise<unknown> =>
  eventually(async () => {
    const { body } = await apiClient.get(`/v1/messages/${id}`)
    expect(body.status).toBe('delivered')
    return true
  }, RECOVERY)

const timesSubmitted = async (id: string): Promise<number> => {
  const seen = await fetch(`${hub.describe().operator_url}/submissions/${id}`)
  return seen.status === 404 ? 0 : ((await seen.json()) as { times: number }).times
}

describe('Kafka', () => {
  // Rules: AVL-4, AVL-13, AVL-14, AVL-15, BAT-18, IDEM-15
  it.each([killed, hung])(
    '$name: codes get 503 provider_unavailable, service messages 202 and are sent when Kafka is back, and reads work',
    async (outage) => {
      const { live } = account
      const before = await service(live)
      expectAnswer(before, 202)
      const ids: Array<string> = []
      const code = { ref: newRef(), to: freshNumber() }
      const batch = [
        send('service', freshNumber(), newRef()),
        send('otp', freshNumber(), newRef()),
        send('service', freshNumber(), newRef()),
      ]
      const key = { 'idempotency-key': `kafka-${outage.name}` }
      await duringOutage('kafka', outage, async () => {
        for (let index = 0; index < 3; index += 1) {
          expectAnswer(await otp(live), 503, 'provider_unavailable')
          const accepted = await service(live)
          expectAnswer(accepted, 202)
          ids.push(accepted.answer.body.id)
        }
        // The same code with one key and one reference is refused twice.
        expectAnswer(await otp(live, code.ref, code.to, key), 503, 'provider_unavailable')
        expectAnswer(await otp(live, code.ref, code.to, key), 503, 'provider_unavailable')
        const mixed = await timed(
          live.post('/v1/messages/batch', { messages: batch }, { 'idempotency-key': `batch-${outage.name}` }),
        )
        expectAnswer(mixed, 202)
        expect(mixed.answer.body.results.map((one: any) => one.error?.code ?? one.result)).toEqual([
          'accepted',
          'provider_unavailable',
          'accepted',
        ])
        ids.push(mixed.answer.body.results[0].message.id, mixed.answer.body.results[2].message.id)
        for (const id of [before.answer.body.id, ...ids]) {
          expectAnswer(await timed(live.get(`/v1/messages/${id}`)), 200)
        }
        expectAnswer(await timed(live.get('/v1/events')), 200)
        expectAnswer(await timed(live.get('/v1/account')), 200)
      })
      await untilRecovered(live)
      for (const id of ids) {
        await untilDelivered(live, id)
        expect(await timesSubmitted(id)).toBe(1)
      }
      // A retry with the same key and client_ref accepts the code, since its reservation was
      // released.
      const retried = await otp(live, code.ref, code.to, key)
      expect([retried.answer.status, retried.answer.headers.get('idempotent-replayed')]).toEqual([202, null])
      await untilDelivered(live, retried.answer.body.id)
      expect(await timesSubmitted(retried.answer.body.id)).toBe(1)
      // A repeated batch accepts the rejected code. The other elements are duplicates.
      const again = await live.post(
        '/v1/messages/batch',
        { messages: batch },
        { 'idempotency-key': `batch-${outage.name}` },
      )
      expect(again.body.results.map((one: any) => one.result)).toEqual(['duplicate', 'accepted', 'duplicate'])
    },
  )

  it('slow: every answer is in time and of the contract, and no message is sent twice', async () => {
    const { live } = account
    const ids: Array<string> = []
    await duringOutage('kafka', slow(), async () => {
      for (let index = 0; index < 5; index += 1) {
        const code = await otp(live)
        expect(code.ms).toBeLessThan(ANSWERED_WITHIN_MS)
        if (code.answer.status === 202) ids.push(code.answer.body.id)
        else expectAnswer(code, 503, 'provider_unavailable')
        const message = await service(live)
        expectAnswer(message, 202)
        ids.push(message.answer.body.id)
      }
    })
    await untilRecovered(live)
    for (const id of ids) {
      await untilDelivered(live, id)
      expect(await timesSubmitted(id)).toBe(1)
    }
  })

  it('hung: an accepted service message survives a SIGKILL of command-api and is sent once', async () => {
    const { live } = account
    const api = hub.app('command-api')
    let id = ''
    await duringOutage('kafka', hung, async () => {
      const accepted = await service(live)
      expectAnswer(accepted, 202)
      id = accepted.answer.body.id
      api.kill('SIGKILL')
      await api.exited()
    })
    await api.restart()
    await untilDelivered(live, id)
    expect(await timesSubmitted(id)).toBe(1)
  })
})

describe('PostgreSQL', () => {
  // Rules: AVL-4, AVL-16, AVL-8
  it.each([killed, hung])(
    '$name: every request gets 503 internal_error with retry_after, consumes no reservation and stores no answer for its key',
    async (outage) => {
      const { live } = account
      const one = { ref: newRef(), to: freshNumber() }
      const key = { 'idempotency-key': `postgres-${outage.name}` }
      await duringOutage('postgres', outage, async () => {
        expectAnswer(await service(live, one.ref, one.to, key), 503, 'internal_error')
        expectAnswer(await service(live, one.ref, one.to, key), 503, 'internal_error')
        expectAnswer(await otp(live), 503, 'internal_error')
        expectAnswer(
          await timed(
            live.post('/v1/messages/batch', { messages: [send('service', freshNumber(), newRef())] }),
          ),
          503,
          'internal_error',
        )
        expectAnswer(
          await timed(live.get('/v1/messages/msg_00000000000000000000000000')),
          503,
          'internal_error',
        )
        expectAnswer(await timed(live.get('/v1/events')), 503, 'internal_error')
        // Otherwise no process would be ready, and a load balancer would answer in its place, without
        // the retry_after of the contract. Consumers answer nobody, and cannot work.
        await eventually(async () => {
          expect(await notReady()).toEqual(['dispatcher', 'projector', 'webhook-fanout'])
          return true
        }, RECOVERY)
      })
      await untilRecovered(live)
      // The same key, reference and number are accepted now: no reservation was consumed and no
      // answer stored.
      const retried = await eventually(async () => {
        const { answer } = await service(live, one.ref, one.to, key)
        expect(answer.status).toBe(202)
        return answer
      }, RECOVERY)
      await untilDelivered(live, retried.body.id)
      expect(await timesSubmitted(retried.body.id)).toBe(1)
    },
  )

  it('slow: every answer is in time and of the contract, and accepted messages are delivered once', async () => {
    const { live } = account
    const accepted = new Map<string, string>()
    const refused: Array<{ readonly ref: string; readonly to: string }> = []
    await duringOutage('postgres', slow(), async () => {
      for (let index = 0; index < 5; index += 1) {
        const one = { ref: newRef(), to: freshNumber() }
        const result = await service(live, one.ref, one.to)
        expect(result.ms).toBeLessThan(ANSWERED_WITHIN_MS)
        if (result.answer.status === 202) accepted.set(one.ref, result.answer.body.id)
        else {
          expectAnswer(result, 503, 'internal_error')
          refused.push(one)
        }
      }
    })
    await untilRecovered(live)
    // A commit may have succeeded although the client got an error. Then the repeat returns the
    // same message.
    for (const { ref, to } of refused) {
      const { answer } = await service(live, ref, to)
      expect(answer.status, JSON.stringify(answer.body)).toBe(202)
      accepted.set(ref, answer.body.id)
    }
    for (const id of accepted.values()) {
      await untilDelivered(live, id)
      expect(await timesSubmitted(id)).toBe(1)
    }
  })
})

/**
 * Kills one server process. PostgreSQL then ends all connections with their transactions, and
 * resets its shared memory.
 */
const crash = (server: ProcessHandle): boolean =>
  childrenOf(server)
    .toReversed()
    .some((pid) => trySignal(pid, 'SIGKILL'))

const CRASHED_SENDS = 600
/** Depends on progress: PostgreSQL has recovered before each crash. */
const CRASHES_AT = [100, 250, 400]

describe('PostgreSQL that crashes under load', () => {
  it('ends no app, and accepted messages are delivered once', async () => {
    const { live } = account
    const server = hub.server('postgres')
    const apps = APPS.map((name) => hub.app(name))
    const before = apps.map((app) => app.pid())
    const ids: Array<string> = []
    let next = 0
    await Promise.all(
      Array.from({ length: 16 }, async () => {
        for (;;) {
          const index = next++
          if (index >= CRASHED_SENDS) return
          if (CRASHES_AT.includes(index)) expect(crash(server)).toBe(true)
          const body = send(index % 2 === 0 ? 'otp' : 'service', freshNumber(), newRef())
          ids.push((await sendUntilAccepted(live, body, RECOVERY.withinMs)).id)
        }
      }),
    )
    await untilRecovered(live)
    expect(apps.map((app) => app.pid())).toEqual(before)
    expect(new Set(ids).size).toBe(CRASHED_SENDS)
    for (const id of ids) {
      await untilDelivered(live, id)
      expect(await timesSubmitted(id)).toBe(1)
    }
    for (const app of apps) await app.waitReady()
    expect(apps.map((app) => app.pid())).toEqual(before)
  })
})

/** The refusal of a service message while Redis is unavailable. */
const expectUnchecked = (message: Timed): void => {
  expectAnswer(message, 422, 'recipient_flood_limited')
  expect(message.answer.body.error.retry_after).toBeUndefined()
  expect(message.answer.headers.get('retry-after')).toBeNull()
  expect(message.answer.body.error.window).toBeUndefined()
}

describe('Redis', () => {
  // Rules: AVL-17, LIM-12
  it.each([killed, hung, slow()])(
    '$name: codes are accepted, service messages are refused for now, rate headers are absent, and reads work',
    async (outage) => {
      const { live } = account
      const before = await service(live)
      expectAnswer(before, 202)
      const number = freshNumber()
      expectAnswer(await service(live, newRef(), number), 202)
      await duringOutage('redis', outage, async () => {
        // The rule of the contract holds from the first refusal on.
        const first = await service(live)
        if (outage.name !== 'slow' || first.answer.status !== 202) expectUnchecked(first)
        // Wait until the rate limiter has noticed the outage.
        await delay(300)
        for (let index = 0; index < 3; index += 1) {
          const code = await otp(live)
          expectAnswer(code, 202)
          if (outage.name !== 'slow') expect(code.answer.headers.get('x-ratelimit-limit')).toBeNull()
          const message = await service(live)
          expect(message.ms).toBeLessThan(ANSWERED_WITHIN_MS)
          if (outage.name !== 'slow' || message.answer.status !== 202) expectUnchecked(message)
        }
        expectAnswer(await timed(live.get(`/v1/messages/${before.answer.body.id}`)), 200)
        expectAnswer(await timed(live.get('/v1/events')), 200)
      })
      await untilRecovered(live)
      // The windows are the same as before, rebuilt from the accepted messages, also if Redis lost
      // its data.
      const again = await live.post('/v1/messages', send('service', number, newRef()))
      expect([again.status, again.body.error?.code, again.body.error?.window]).toEqual([
        422,
        'recipient_flood_limited',
        'pause',
      ])
    },
  )

  // Rules: AVL-17, LIM-24
  it('killed: the limit on failed logins and the daily limit of the hub do not apply', async () => {
    const { live } = account
    const wrong = client(hub.describe().base_url, `hub_test_${'0'.repeat(43)}`, { repeats: false })
    try {
      await admin.setHubSettings({ daily_limit: 1 })
      await eventually(async () => {
        expect((await otp(live)).answer.status).toBe(429)
        return true
      }, RECOVERY)
      await duringOutage('redis', killed, async () => {
        await eventually(async () => {
          expectAnswer(await otp(live), 202)
          return true
        }, RECOVERY)
        for (let index = 0; index < 25; index += 1) {
          expectAnswer(await timed(wrong.get('/v1/account')), 401, 'invalid_api_key')
        }
      })
    } finally {
      await admin.setHubSettings({})
    }
    await untilRecovered(live)
  })
})
