/** Posts events to a receiver, as a webhook of the hub: the same body, headers and signature. */
import { setTimeout as delay } from 'node:timers/promises'
import { headersForTest, type HubEvent } from '@sms-delivery-hub/client'

/** The hub waits as long for a receiver. */
const DEADLINE_MS = 10_000
/** Waits before the receiver is tried again: 0.5 s, 1 s, 2 s, …, at most 5 s, because somebody is waiting. */
const FIRST_WAIT_MS = 500
const LONGEST_WAIT_MS = 5_000

export interface Forwarded {
  readonly status: number
  readonly ms: number
}

interface Target {
  readonly url: string
  readonly secret: string
  readonly signal: AbortSignal
  /** Called once when the receiver cannot be reached. */
  readonly onUnreachable: (reason: string) => void
}

const reasonOf = (error: unknown): string => {
  const cause: unknown = error instanceof Error ? error.cause : null
  const code: unknown = cause instanceof Error ? Reflect.get(cause, 'code') : null
  if (error instanceof Error && error.name === 'TimeoutError') return 'no answer within ten seconds'
  return typeof code === 'string' ? code : 'no connection'
}

/** Posts until the receiver answers, with any status. Each attempt has a signature of its own. */
export const forward = async (events: ReadonlyArray<HubEvent>, target: Target): Promise<Forwarded> => {
  const { onUnreachable, secret, signal, url } = target
  const body = JSON.stringify(events)
  const eventBatch = `evb_${events[0]?.id.slice('evt_'.length) ?? ''}`
  for (let tries = 0; ; tries++) {
    const startedAt = performance.now()
    try {
      const response = await fetch(url, {
        method: 'POST',
        headers: {
          ...(await headersForTest(body, secret, eventBatch)),
          'user-agent': 'sms-delivery-hub-cli',
        },
        body,
        redirect: 'manual',
        signal: AbortSignal.any([signal, AbortSignal.timeout(DEADLINE_MS)]),
      })
      await response.body?.cancel()
      return { status: response.status, ms: Math.round(performance.now() - startedAt) }
    } catch (error) {
      if (signal.aborted) throw error
      if (tries === 0) onUnreachable(reasonOf(error))
    }
    await delay(Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** tries), undefined, { signal })
  }
}
