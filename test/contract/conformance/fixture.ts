/** The hub of the conformance suite, and the rules that every response must follow. */
import { expect } from 'vitest'
import { ERRORS, type ErrorCode } from '@hub/contract'
import { eventually } from '@hub/testkit'
import { startHub, type TestHub } from '../../support/hub.ts'
import { type Answer, type Client, client, type ClientOptions, send } from '../../support/client.ts'
import { type HubAdmin, makeHubAdmin } from '../../support/hub-admin.ts'

export interface Fixture {
  readonly hub: TestHub
  readonly base: string
  readonly admin: HubAdmin
  /** Creates a client for a key. Every response is checked against the general rules. */
  readonly connect: (key: string | null, options?: ClientOptions) => Client
  /** All error codes received so far, in error envelopes or in elements of a batch. */
  readonly codes: Set<string>
  readonly stop: () => Promise<void>
}

/** A section of the suite. It gets the fixture, which exists when the tests run. */
export type Section = (fixture: () => Fixture) => void

/**
 * The addresses from which the hub trusts `X-Forwarded-For`: the loopback of both families, where
 * the tests run.
 */
const TRUSTED = '127.0.0.0/8,::1'

const TIMESTAMP = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/u

/** Source: ERR-1 to ERR-5, HTTP-22. */
const expectEnvelope = (answer: Answer, base: string): void => {
  expect(answer.headers.get('request-id')).toMatch(/^req_[0-9a-hjkmnp-tv-z]{26}$/u)
  if (answer.status < 400) return
  const { error } = answer.body
  const keys = new Set(Object.keys(error))
  for (const name of ['param', 'retry_after', 'window']) keys.delete(name)
  expect(keys).toEqual(new Set(['code', 'message', 'request_id', 'doc_url']))
  // A replay repeats the first body, and has a new request id in the header.
  if (answer.headers.get('idempotent-replayed') === null) {
    expect(error.request_id).toBe(answer.headers.get('request-id'))
  }
  expect(error.doc_url).toBe(`${base}/docs/errors#${error.code}`)
  const expected: number | undefined = ERRORS[error.code as ErrorCode]?.status
  expect(expected, `${error.code} is not in the catalogue`).toBeDefined()
  expect(answer.headers.get('retry-after')).toBe(
    error.retry_after === undefined ? null : String(error.retry_after),
  )
  if (error.retry_after !== undefined) expect(error.retry_after).toBeGreaterThanOrEqual(1)
  if (error.code !== 'internal_error') expect(answer.status).toBe(expected)
}

export const startFixture = async (): Promise<Fixture> => {
  const hub = await startHub({ environment: { HUB_TRUSTED_PROXIES: TRUSTED } })
  const base = hub.describe().base_url
  const codes = new Set<string>()
  const observe = (answer: Answer): void => {
    if (answer.headers.get('content-type')?.startsWith('application/json') !== true) return
    expectEnvelope(answer, base)
    if (answer.body?.error?.code !== undefined) codes.add(answer.body.error.code)
    for (const result of answer.body?.results ?? answer.body?.data ?? []) {
      if (result?.error?.code !== undefined) codes.add(result.error.code)
    }
  }
  const connect: Fixture['connect'] = (key, options = {}) => client(base, key, { observe, ...options })
  const admin = makeHubAdmin(hub, { connect })
  return {
    hub,
    base,
    admin,
    connect,
    codes,
    stop: async () => {
      await admin.close()
      await hub.stop()
    },
  }
}

/**
 * Returns status, code and `param` of an error. For a success the status of the message replaces
 * the code.
 */
export const errorOf = (answer: Answer): ReadonlyArray<unknown> => [
  answer.status,
  answer.body?.error?.code ?? answer.body?.status,
  answer.body?.error?.param,
]

/** Matches a timestamp of the API. */
export const aMoment = (): unknown => expect.stringMatching(TIMESTAMP)

/** Matches an id with a prefix. */
export const anId = (prefix: string): unknown =>
  expect.stringMatching(new RegExp(`^${prefix}_[0-9a-hjkmnp-tv-z]{26}$`, 'u'))

/** Waits until a message is final and returns it. */
export const untilFinal = (apiClient: Client, id: string): Promise<any> =>
  eventually(
    async () => {
      const { body } = await apiClient.get(`/v1/messages/${id}`)
      return body.final === true ? body : null
    },
    { everyMs: 100 },
  )

/** Returns the events of one type in the journal of a key. */
export const eventsOf = async (apiClient: Client, type: string): Promise<ReadonlyArray<any>> => {
  const answer = await apiClient.get(`/v1/events?limit=1000&type=${type}`)
  expect(answer.status).toBe(200)
  return answer.body.data
}

/** How often to look whether changed settings apply. Caches hold them for two or three seconds. */
export const SETTINGS_APPLIED = { everyMs: 100 } as const

const HOUR_MS = 3_600_000

/**
 * Runs `use` while hub staff have stopped the hub. Sends of a separate account show when the stop
 * begins and ends.
 */
export const whileStopped = async ({ admin }: Fixture, use: () => Promise<void>): Promise<void> => {
  const probe = (await admin.createAccount()).test
  const untilStatus = (status: number): Promise<boolean> =>
    eventually(async () => {
      expect((await probe.post('/v1/messages', send('otp', '+79000000001'))).status).toBe(status)
      return true
    }, SETTINGS_APPLIED)
  try {
    await admin.setHubSettings({ stopped_until: new Date(Date.now() + HOUR_MS) })
    await untilStatus(429)
    await use()
  } finally {
    await admin.setHubSettings({})
    await untilStatus(202)
  }
}
