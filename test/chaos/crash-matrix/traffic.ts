/**
 * The traffic of a cell: an account of its own sends single messages and batches, codes and others,
 * with both keys, and repeats each request until it has a final answer. Some sends test limits.
 */
import { setTimeout as delay } from 'node:timers/promises'
import type { Account, Mode } from '../../support/hub-admin.ts'
import { type Answer, client, type Client, isTemporaryRefusal, send } from '../../support/client.ts'
import type { World } from './world.ts'

/** The pause between two requests of a cell, ms. */
const EVERY_MS = 150
/** While a cell waits for a process that stands still. */
const SLOW_EVERY_MS = 1000
/**
 * A client gives up after this time and repeats the request at the other command-api. The contract
 * promises an answer within 3 s.
 */
const ANSWERED_WITHIN_MS = 4000
const RETRY_AFTER_MS = 250
/** Sends of a cell that wait for their answers. While the hub does not answer, no more begin. */
const MAX_IN_FLIGHT = 12
/** Only ends a wait that hangs. */
const ACCEPTED_WITHIN_MS = 300_000

/** Refusals that end by themselves: a reservation of a broken request, and a lock of one. */
const PASSING: ReadonlySet<string> = new Set(['recipient_flood_limited', 'idempotency_conflict'])

/**
 * Few requests have an Idempotency-Key: the lock of a killed process lasts for a minute, and its
 * repeats wait so long.
 */
const KEYED_EVERY = 15

/** The price of a part in the accounts of cells. */
export const PRICE = 1
/** What the account with a limit may spend, and the number of its sends. */
export const SPEND_LIMIT = 4
const LIMITED_SENDS = 6
/** Sends to one number, of which the flood window allows one. */
const FLOODING_SENDS = 3

export interface Sent {
  readonly mode: Mode
  readonly messageClass: 'otp' | 'service'
  readonly to: string
  /** The ids in all answers. More than one is a violation. */
  readonly ids: Set<string>
  /** Default: that of the class. */
  readonly text?: string
  /** Default: 1. */
  readonly parts?: number
}

type Accepted = Pick<Sent, 'messageClass' | 'to' | 'text'>

export interface Traffic {
  readonly account: Account
  /** The subscriptions of the account. They exist before the first send. */
  readonly subscriptions: Subscriptions
  readonly clients: Readonly<Record<Mode, Client>>
  readonly limited: Account
  /** The sends by `client_ref`. After `stop`, each has an id. */
  readonly sends: ReadonlyMap<string, Sent>
  /** The accepted messages of the account with a limit, by id. */
  readonly limitedSends: ReadonlyMap<string, Accepted>
  /** The accepted messages to one number, by id. */
  readonly flooding: ReadonlyMap<string, Accepted>
  readonly number: (index: number) => string
  /** Repeats a request until it has a final answer. */
  readonly request: (
    mode: Mode,
    method: string,
    path: string,
    body?: unknown,
    headers?: Record<string, string>,
  ) => Promise<Answer>
  readonly slow: () => void
  /** Sends no more, and waits until each send has its final answer. */
  readonly stop: () => Promise<void>
}

export type Subscriptions = Readonly<Record<Mode, string>>

/** A fetch that a stopped process does not hold. The late answer counts too. */
const within = <A>(answer: Promise<A>): Promise<A | null> =>
  Promise.race([answer, delay(ANSWERED_WITHIN_MS).then(() => null)])

/** `subscribe` creates the subscriptions of the account. */
export const startTraffic = async (
  world: World,
  cell: number,
  subscribe: (request: Traffic['request']) => Promise<Subscriptions>,
): Promise<Traffic> => {
  const { base_url, second_base_url } = world.hub.describe()
  const urls = [base_url, second_base_url!]
  const account = await world.admin.createAccount({
    // A pause of a day does not end while a busy machine repeats requests.
    live: { price_otp: `${PRICE}.00`, price_service: `${PRICE}.00`, flood_pause_seconds: 86_400 },
  })
  const limited = await world.admin.createAccount({
    live: { price_service: `${PRICE}.00`, spend_limit: `${SPEND_LIMIT}.00` },
  })
  const clientsOf = ({ keys }: Account, mode: Mode) =>
    urls.map((url) => client(url, keys[mode], { repeats: false }))
  const clients = {
    main: { live: clientsOf(account, 'live'), test: clientsOf(account, 'test') },
    limited: clientsOf(limited, 'live'),
  }
  const sends = new Map<string, Sent>()
  const limitedSends = new Map<string, Accepted>()
  const flooding = new Map<string, Accepted>()
  const failures: Array<unknown> = []
  const inFlight = new Set<Promise<void>>()
  let everyMs = EVERY_MS
  let stopping = false
  let turn = 0
  let numbers = 0
  const number = (index: number): string => `+79${200 + cell}${String(index).padStart(6, '0')}`

  /**
   * `onAnswer` also gets answers that come after the client has given up. `isFinal` names answers that
   * other requests would repeat.
   */
  const requestOf = async (
    those: ReadonlyArray<Client>,
    method: string,
    path: string,
    body?: unknown,
    headers: Record<string, string> = {},
    onAnswer: (answer: Answer) => void = () => {},
    isFinal: (answer: Answer) => boolean = () => false,
  ): Promise<Answer> => {
    const deadline = performance.now() + ACCEPTED_WITHIN_MS
    for (let next = turn++; ; next++) {
      let broken: string | null = null
      const asked = those[next % those.length]!.request(method, path, {
        headers: { 'content-type': 'application/json', ...headers },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      }).then(
        (answer) => {
          onAnswer(answer)
          return answer
        },
        (error: unknown) => {
          const { cause } = error as { readonly cause?: { readonly code?: string } }
          broken = cause?.code ?? String(error)
          return null
        },
      )
      const answer = await within(asked)
      const code = answer?.body?.error?.code as string | undefined
      if (answer !== null && isFinal(answer)) return answer
      if (answer !== null && !isTemporaryRefusal(answer) && !PASSING.has(code ?? '')) return answer
      if (performance.now() > deadline) {
        const last = answer === null ? (broken ?? 'none in time') : `${answer.status} ${code}`
        throw new Error(`${method} ${path} has no final answer. The last one: ${last}`)
      }
      await delay(RETRY_AFTER_MS)
    }
  }

  const newSend = (mode: Mode, messageClass: Sent['messageClass']) => {
    const index = numbers++
    const to = number(index)
    const ref = `cell-${cell}-${index}`
    const sent: Sent = { mode, messageClass, to, ids: new Set() }
    sends.set(ref, sent)
    return { body: send(messageClass, to, ref), sent }
  }

  const sendSingle = async (mode: Mode, messageClass: Sent['messageClass'], isKeyed: boolean) => {
    const { body, sent } = newSend(mode, messageClass)
    const headers: Record<string, string> = isKeyed
      ? { 'idempotency-key': `key-${String(body['client_ref'])}` }
      : {}
    const add = ({ body: answer, status }: Answer) => {
      if (status === 202) sent.ids.add(answer.id)
    }
    const answer = await requestOf(clients.main[mode], 'POST', '/v1/messages', body, headers, add)
    if (answer.status !== 202) throw new Error(`a send was refused: ${answer.status} ${answer.text}`)
  }

  const sendBatch = async (mode: Mode) => {
    const batch = (['otp', 'service', 'otp'] as const).map((messageClass) => newSend(mode, messageClass))
    const deadline = performance.now() + ACCEPTED_WITHIN_MS
    const add = ({ body, status }: Answer, those: typeof batch) => {
      if (status !== 202) return
      for (const [i, { message, message_id }] of body.results.entries()) {
        const id = message?.id ?? message_id
        if (id !== undefined) those[i]!.sent.ids.add(id)
      }
    }
    for (let left = batch; left.length > 0; left = batch.filter(({ sent }) => sent.ids.size === 0)) {
      const those = left
      const answer = await requestOf(
        clients.main[mode],
        'POST',
        '/v1/messages/batch',
        { messages: those.map(({ body }) => body) },
        {},
        (late) => add(late, those),
      )
      if (answer.status !== 202) throw new Error(`a batch was refused: ${answer.status} ${answer.text}`)
      if (performance.now() > deadline) throw new Error(`a batch was not accepted: ${answer.text}`)
    }
  }

  const sendLimited = async (index: number) => {
    const to = number(900_000 + index)
    const body = send('service', to, `limited-${cell}-${index}`)
    const add = (answer: Answer) => {
      if (answer.status === 202) limitedSends.set(answer.body.id, { messageClass: 'service', to })
    }
    const answer = await requestOf(clients.limited, 'POST', '/v1/messages', body, {}, add)
    if (answer.status !== 202 && answer.body.error.code !== 'spend_limit_reached') {
      throw new Error(`a send of the limited account was refused: ${answer.status} ${answer.text}`)
    }
  }

  /** A refusal by a flood window is final here, because the window would allow the message later. */
  const sendFlooding = async (index: number) => {
    const to = number(950_000)
    // The operator recognises a repeated message by its text and number, and two may pass the window.
    const order = `F-${index}`
    const body = { ...send('service', to, `flooding-${cell}-${index}`), variables: { order } }
    const add = (answer: Answer) => {
      const accepted = { messageClass: 'service', to, text: `Заказ ${order} готов` } as const
      if (answer.status === 202) flooding.set(answer.body.id, accepted)
    }
    const isWindow = ({ body: answer }: Answer) => answer?.error?.window !== undefined
    await requestOf(clients.main.live, 'POST', '/v1/messages', body, {}, add, isWindow)
  }

  const run = (work: Promise<void>): void => {
    const tracked = work
      .catch((error: unknown) => void failures.push(error))
      .finally(() => inFlight.delete(tracked))
    inFlight.add(tracked)
  }

  const request: Traffic['request'] = (mode, method, path, body, headers) =>
    requestOf(clients.main[mode], method, path, body, headers)
  const subscriptions = await subscribe(request)

  const sending = (async () => {
    for (let request = 0; !stopping; request++) {
      while (inFlight.size >= MAX_IN_FLIGHT) await Promise.race(inFlight)
      const mode = request % 2 === 0 ? 'test' : 'live'
      if (request % 4 === 3) run(sendBatch(request % 8 === 3 ? 'live' : 'test'))
      else run(sendSingle(mode, request % 3 === 0 ? 'service' : 'otp', request % KEYED_EVERY === 1))
      if (request % 4 === 0 && request / 4 < LIMITED_SENDS) run(sendLimited(request / 4))
      if (request % 6 === 0 && request / 6 < FLOODING_SENDS) run(sendFlooding(request / 6))
      await delay(everyMs)
    }
    while (inFlight.size > 0) await Promise.all(inFlight)
  })()

  return {
    account,
    clients: { live: clients.main.live[0]!, test: clients.main.test[0]! },
    limited,
    sends,
    limitedSends,
    flooding,
    number,
    request,
    subscriptions,
    slow: () => {
      everyMs = SLOW_EVERY_MS
    },
    stop: async () => {
      stopping = true
      await sending
      if (failures.length > 0) throw failures[0]
    },
  }
}
