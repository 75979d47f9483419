/** The webhook receivers of a run: one address for each subscription. */
import type { Recorder } from './recorder.ts'
import { signatureMistake } from './checker/signature.ts'
import { startWebhookReceiver } from '../support/webhook-receiver.ts'
import { eventEntry } from './readers.ts'

export interface Receivers {
  readonly environment: Readonly<Record<string, string>>
  readonly url: (subscription: string) => string
  /** Must be called before the first webhook of the subscription. */
  readonly expectFrom: (account: string, subscription: string, secret: string) => void
  /** The events that a subscription has confirmed. */
  readonly confirmed: (subscription: string) => ReadonlySet<string>
  /** From now on, the address of a subscription never answers, or answers again. */
  readonly hang: (subscription: string, hangs: boolean) => void
  readonly close: () => Promise<void>
}

export const startReceivers = async (recorder: Recorder): Promise<Receivers> => {
  const receiver = await startWebhookReceiver()
  const expected = new Map<
    string,
    { readonly account: string; readonly secret: string; readonly confirmed: Set<string> }
  >()
  const hanging = new Set<string>()
  receiver.respondWith(({ at, body, headers, path }, response) => {
    receiver.clear()
    const subscription = path.slice('/hook/'.length)
    const known = expected.get(subscription)
    if (known === undefined) {
      response.writeHead(404).end()
      return
    }
    const { account, confirmed, secret } = known
    const isConfirmed = !hanging.has(subscription)
    const events = (JSON.parse(body.toString('utf8')) as ReadonlyArray<unknown>).map(eventEntry)
    recorder.record({
      kind: 'webhook',
      at,
      account,
      subscription,
      batch: String(headers['hub-event-id']),
      mistake: signatureMistake(secret, headers['hub-signature']?.toString(), body, at),
      confirmed: isConfirmed,
      events: events.map(([id, , , , , digest]) => [id, digest]),
    })
    if (!isConfirmed) return
    for (const [id] of events) confirmed.add(id)
    response.writeHead(200).end()
  })
  return {
    environment: receiver.environment,
    url: (subscription) => receiver.url(`/hook/${subscription}`),
    expectFrom: (account, subscription, secret) =>
      void expected.set(subscription, { account, secret, confirmed: new Set() }),
    confirmed: (subscription) => expected.get(subscription)?.confirmed ?? new Set(),
    hang: (subscription, hangs) => {
      if (hangs) hanging.add(subscription)
      else hanging.delete(subscription)
    },
    close: receiver.close,
  }
}
