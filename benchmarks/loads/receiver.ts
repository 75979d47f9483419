/**
 * A webhook receiver for the benchmark: a bare HTTPS server in its own process. `/count` answers at
 * once and counts requests, `/timed` also measures the age of the events, `/acceptances` the age of
 * messages, and `/hung` never answers.
 *
 * `webhooks.ts` and `cost-receiver.ts` start it over IPC with key and certificate and receives its port. Each further
 * message returns the figures since the last one. It exits on disconnect.
 */
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'

export interface ReceiverPlan {
  readonly key: string
  readonly cert: string
}

export interface Seen {
  /** Requests to `/count`. */
  readonly requests: number
  /** Arrival of the last of them, milliseconds since the epoch. */
  readonly lastAt: number
  /**
   * For each request to `/timed`: the time from the closing of its webhook batch to its arrival,
   * ms. A batch closes with its hundredth event, or a second after its first.
   */
  readonly dispatch: ReadonlyArray<number>
  /**
   * For each full batch to `/acceptances`: the time from the acceptance of its newest message to its
   * arrival, ms.
   */
  readonly fromAcceptance: ReadonlyArray<number>
}

const BATCH_EVENTS = 100
const WINDOW_MS = 1000

const now = (): number => performance.timeOrigin + performance.now()

/** The time from the closing of a webhook batch to its arrival at `at`, ms. */
const dispatchOf = (body: string, at: number): number => {
  const written = (JSON.parse(body) as Array<{ data: { object: { written: number } } }>).map(
    (event) => event.data.object.written,
  )
  const closed = written.length === BATCH_EVENTS ? Math.max(...written) : Math.min(...written) + WINDOW_MS
  return at - closed
}

/** The time from the acceptance of the newest message of a full batch to its arrival; none: not full. */
const fromAcceptanceOf = (body: string, at: number): ReadonlyArray<number> => {
  const acceptances = (JSON.parse(body) as Array<{ data: { object: { created_at: string } } }>).map((event) =>
    Date.parse(event.data.object.created_at),
  )
  return acceptances.length < BATCH_EVENTS ? [] : [at - Math.max(...acceptances)]
}

const serve = async ({ cert, key }: ReceiverPlan): Promise<void> => {
  let requests = 0
  let lastAt = 0
  let dispatch: Array<number> = []
  let fromAcceptance: Array<number> = []
  const server = createServer({ cert, key }, (request, response) => {
    const chunks: Array<Buffer> = []
    const isRead = request.url === '/timed' || request.url === '/acceptances'
    request.on('data', (chunk: Buffer) => {
      if (isRead) chunks.push(chunk)
    })
    request.on('end', () => {
      const at = now()
      if (request.url === '/hung') return
      const body = Buffer.concat(chunks).toString('utf8')
      if (request.url === '/timed') dispatch.push(dispatchOf(body, at))
      else if (request.url === '/acceptances') fromAcceptance.push(...fromAcceptanceOf(body, at))
      else {
        requests += 1
        lastAt = at
      }
      response.writeHead(200).end()
    })
  })
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening))
  process.on('message', () => {
    process.send?.({ requests, lastAt, dispatch, fromAcceptance } satisfies Seen)
    requests = 0
    dispatch = []
    fromAcceptance = []
  })
  process.send?.((server.address() as AddressInfo).port)
}

process.once('message', (plan: ReceiverPlan) => void serve(plan))
process.once('disconnect', () => process.exit(0))
