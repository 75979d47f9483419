/**
 * Two dispatchers with a configured rate lose Redis, one of them starts without it, and Redis comes
 * back. Submits continue at all times: without Redis, each dispatcher keeps to its half of the rate
 * (docs/decisions/pacing.md).
 */
import { eventually } from '@hub/testkit'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { send, sendUntilAccepted } from '../support/client.ts'
import { type Account, freshNumber, type HubAdmin, makeHubAdmin } from '../support/hub-admin.ts'
import { operatorStatistics, startHub, type TestHub, WITHOUT_WEBHOOKS } from '../support/hub.ts'

/** Parts per second of the whole hub. */
const RATE = 50
/** They only end waits that hang: starts and rebalances take long on a busy machine. */
const WITHIN_MS = 90_000
const WITHIN = { withinMs: WITHIN_MS, everyMs: 250 } as const

let hub: TestHub
let admin: HubAdmin
let account: Account
/** The codes that the hub has accepted. */
const codes: Array<string> = []

beforeAll(async () => {
  hub = await startHub({
    apps: WITHOUT_WEBHOOKS,
    dispatchers: 2,
    environment: { HUB_OPERATOR_SMPP_PARTS_PER_SECOND: String(RATE) },
  })
  admin = makeHubAdmin(hub)
  account = await admin.createAccount()
})
afterAll(async () => {
  await admin?.close()
  await hub?.stop()
})

interface State {
  readonly isReady: boolean
  readonly isShared: boolean
  /** Parts per second that it takes into account. */
  readonly rate: number
  readonly submitted: number
}

/** The state of each dispatcher. */
const states = (): Promise<ReadonlyArray<State>> =>
  Promise.all(
    [hub.ports.dispatcherAdmin, hub.ports.secondDispatcherAdmin].map(async (port) => {
      const url = `http://127.0.0.1:${port}`
      const metrics = await (await fetch(`${url}/metrics`)).text()
      const valueOf = (metric: string, label: string) =>
        Number(new RegExp(`^${metric}\\{[^}]*${label}[^}]*\\} (\\S+)`, 'mu').exec(metrics)?.[1] ?? 0)
      return {
        isReady: (await fetch(`${url}/readyz`)).ok,
        isShared: valueOf('hub_dispatcher_rate_shared', 'operator="smpp"') === 1,
        rate: valueOf('hub_dispatcher_hub_rate_parts', 'operator="smpp"'),
        submitted: valueOf('hub_smpp_submitted_parts_total', 'result="accepted"'),
      }
    }),
  )

const sendCode = async (): Promise<void> => {
  const { id } = await sendUntilAccepted(account.live, send('otp', freshNumber()), WITHIN_MS)
  codes.push(id)
}

/** Sends codes until both dispatchers are in this state and have submitted some of them. */
const untilBothSubmit = async (expected: Omit<State, 'submitted'>): Promise<void> => {
  let before: ReadonlyArray<State> | undefined
  await eventually(async () => {
    const now = await states()
    // Other properties, such as the submitted parts, differ.
    expect(now).toEqual(now.map((state) => ({ ...state, ...expected })))
    before ??= now
    await Promise.all(Array.from({ length: 6 }, sendCode))
    return now.every(({ submitted }, i) => submitted > before![i]!.submitted)
  }, WITHIN)
}

describe('dispatchers with a configured rate', () => {
  it(
    'submit equal parts of it while Redis is away, and share it again',
    async () => {
      const redis = hub.server('redis')
      const shared = { isReady: true, isShared: true, rate: RATE }
      const alone = { isReady: true, isShared: false, rate: RATE / 2 }
      await untilBothSubmit(shared)

      redis.kill('SIGKILL')
      await redis.exited()
      await untilBothSubmit(alone)

      const second = hub.dispatchers[1]!
      second.kill('SIGTERM')
      await second.exited()
      await second.restart()
      await second.waitReady()
      await untilBothSubmit(alone)

      await redis.restart()
      await untilBothSubmit(shared)

      await eventually(async () => {
        const answers = await Promise.all(codes.map((id) => account.live.get(`/v1/messages/${id}`)))
        expect(answers.map(({ body }) => body.status)).toEqual(codes.map(() => 'delivered'))
        return true
      }, WITHIN)
      const { parts } = await operatorStatistics(hub)
      expect(parts, 'each code was submitted once').toBe(codes.length)
    },
    5 * WITHIN_MS,
  )
})
