/**
 * The load generator of `overload.ts` and `cost-loads.ts`, in its own process. In an open loop, sends have an even
 * pace and do not wait for answers, like many independent clients. It writes to plain sockets, because
 * on a small machine an HTTP client would take the processor time that the hub needs to refuse.
 *
 * Latencies are from the time at which a send was due to the end of its answer. So they include the
 * time for which a late generator or a busy connection delayed the send.
 */
import { connect, type Socket } from 'node:net'
import { answerPlan, untilTime } from './child-process.ts'
import { type Latencies, latenciesOf } from '../measure/numbers.ts'

/** A client of the load. */
export interface LoadClient {
  readonly key: string
  /** Sends per second; in a closed loop, connections that each have one send in progress. */
  readonly pace: number
  /** When its first send is due in an open loop, ms after the begin of the load. Default: 0. */
  readonly firstAfter?: number
}

export interface OpenLoopPlan {
  readonly baseUrl: string
  readonly clients: ReadonlyArray<LoadClient>
  readonly loop: 'open' | 'closed'
  readonly durationMs: number
  /** Of ten sends, how many have the class `otp`. */
  readonly codesOfTen: number
  /** Makes the client_refs and numbers of this run unique. */
  readonly run: string
  /** Of an open loop. Default: `MANY_CONNECTIONS`. */
  readonly connections?: Connections
  /** The time of the first send, ms since the epoch. Default: as soon as the connections exist. */
  readonly startAt?: number
}

export interface Connections {
  /** Connections that exist before the first send. More are opened when all are busy. */
  readonly first: number
  /** Further clients: each opens a connection, reads its account, and disconnects. Per second. */
  readonly newPerSecond: number
}

/** What happened in one second of the load. Answers count in the second in which they arrived. */
export interface Second {
  sent: number
  accepted: number
  refused: number
  /** p99 of the answers with 202, by class, and of the refusals; ms; `null`: there was none. */
  otpP99: number | null
  serviceP99: number | null
  refusedP99: number | null
}

/** What the answer to a send was. */
export const ANSWERS = ['none', 'accepted', 'overloaded', 'other5xx', 'other'] as const
export type AnswerName = (typeof ANSWERS)[number]

export interface OpenLoopResult {
  readonly seconds: number
  /** From the begin of the load until its last answer. */
  readonly bySecond: ReadonlyArray<Readonly<Second>>
  readonly clients: ReadonlyArray<{
    readonly sent: number
    readonly accepted: number
    /** Of its accepted sends. */
    readonly latencies: Latencies
    /** For each send, in order, the index of its answer in `ANSWERS`; base64 of one byte each. */
    readonly answers: string
  }>
  readonly accepted: Readonly<Record<'otp' | 'service', Latencies>>
  readonly sent: Readonly<Record<'otp' | 'service', number>>
  readonly refused: Latencies
  /** From the begin of a new connection to the answer to its only request, which is no send. */
  readonly newConnections: Latencies
  /** How often each `retry_after` of a refusal occurred. */
  readonly retryAfter: Readonly<Record<string, number>>
  /** Answers that are neither 202 nor `overloaded`, by status and code. */
  readonly others: Readonly<Record<string, number>>
  /** p99 of how late the generator was, ms. */
  readonly lateP99: number
  /** CPU time of the generator, seconds. */
  readonly cpuSeconds: number
}

/** The client_ref of a send. */
export const referenceOf = (run: string, client: number, index: number): string => `${run}-${client}-${index}`
export const isCode = (index: number, codesOfTen: number): boolean => index % 10 < codesOfTen
/** The number of a send. Each message has a new recipient. */
export const recipientOf = (run: string, client: number, index: number): string =>
  `+79${100_000_000 + ((Number.parseInt(run, 36) * 7919 + client * 10_000_019 + index) % 800_000_000)}`
/** The variable of the template `otp_code`. */
export const codeOf = (index: number): string => String(index % 10_000)

/** Many independent clients, as admission control must expect. */
const MANY_CONNECTIONS: Connections = { first: 2000, newPerSecond: 50 }
/** The most connections of an open loop. */
const MAX_CONNECTIONS = 4000
/** Answers that have not arrived by then are missing. */
const ANSWERED_WITHIN_MS = 12_000

interface Connection {
  readonly socket: Socket
  /** Of the send in progress; `null`: none. */
  onAnswer: ((status: number, body: string) => void) | null
  /** Writes it to another connection. Idle connections may close at any time. */
  again: (() => void) | null
  received: string
}

/** Counts what happens in each second. */
const makeBySecond = () => {
  let started = 0
  const seconds: Array<{ sent: number; times: Record<'otp' | 'service' | 'refused', Array<number>> }> = []
  const at = (now: number) => {
    const second = Math.max(0, Math.floor((now - started) / 1000))
    while (seconds.length <= second) seconds.push({ sent: 0, times: { otp: [], service: [], refused: [] } })
    return seconds[second]!
  }
  const p99 = (times: ReadonlyArray<number>): number | null =>
    times.length === 0 ? null : latenciesOf(times).p99
  return {
    start: (now: number): void => {
      started = now
    },
    sent: (due: number): void => void at(due).sent++,
    answered: (now: number, what: 'otp' | 'service' | 'refused', took: number): void =>
      void at(now).times[what].push(took),
    result: (): ReadonlyArray<Second> =>
      seconds.map(({ sent, times: { otp, refused, service } }) => ({
        sent,
        accepted: otp.length + service.length,
        refused: refused.length,
        otpP99: p99(otp),
        serviceP99: p99(service),
        refusedP99: p99(refused),
      })),
  }
}

const HEAD_END = '\r\n\r\n'

const run = async (plan: OpenLoopPlan): Promise<OpenLoopResult> => {
  const url = new URL(plan.baseUrl)
  const { first, newPerSecond } = plan.connections ?? MANY_CONNECTIONS
  const times: Record<'otp' | 'service', Array<number>> = { otp: [], service: [] }
  const sent = { otp: 0, service: 0 }
  const refusedTimes: Array<number> = []
  const late: Array<number> = []
  const bySecond = makeBySecond()
  const retryAfter: Record<string, number> = {}
  const others: Record<string, number> = {}
  const clients = plan.clients.map(({ firstAfter = 0, key, pace }, number) => ({
    number,
    pace,
    firstAfter,
    head: `POST /v1/messages HTTP/1.1\r\nhost: ${url.host}\r\nauthorization: Bearer ${key}\r\ncontent-type: application/json\r\ncontent-length: `,
    next: 0,
    accepted: 0,
    times: [] as Array<number>,
    answers: [] as Array<number>,
  }))

  const sockets = new Set<Socket>()
  const idle: Array<Connection> = []
  let connections = 0
  let inProgress = 0
  const waiting: Array<(connection: Connection) => void> = []

  const release = (connection: Connection): void => {
    const next = waiting.shift()
    if (next === undefined) idle.push(connection)
    else next(connection)
  }
  const open = (): void => {
    connections++
    const socket = connect({ host: url.hostname, port: Number(url.port), noDelay: true })
    sockets.add(socket)
    const connection: Connection = { socket, onAnswer: null, again: null, received: '' }
    socket.setEncoding('latin1')
    socket.once('connect', () => release(connection))
    socket.on('data', (chunk: string) => {
      connection.received = connection.received === '' ? chunk : connection.received + chunk
      const { received } = connection
      const headEnd = received.indexOf(HEAD_END)
      if (headEnd < 0) return
      const length = Number(/content-length: (\d+)/iu.exec(received)?.[1])
      const end = headEnd + HEAD_END.length + length
      if (received.length < end) return
      connection.received = ''
      const status = Number(received.slice(9, 12))
      // The hub ends a connection that was not used for long with an answer of its own. It did not read
      // a send that was written meanwhile.
      if (status === 408) return void socket.destroy()
      const { onAnswer } = connection
      connection.onAnswer = null
      connection.again = null
      onAnswer?.(status, received.slice(end - length, end))
      release(connection)
    })
    socket.on('error', () => {})
    socket.once('close', () => {
      sockets.delete(socket)
      connections--
      const at = idle.indexOf(connection)
      if (at >= 0) idle.splice(at, 1)
      const { again } = connection
      connection.onAnswer = null
      connection.again = null
      again?.()
    })
  }

  const send = (client: (typeof clients)[number], due: number, onDone: () => void): void => {
    const index = client.next++
    const code = isCode(index, plan.codesOfTen)
    const className = code ? 'otp' : 'service'
    sent[className]++
    bySecond.sent(due)
    client.answers.push(0)
    const to = recipientOf(plan.run, client.number, index)
    const what = code
      ? `"class":"otp","template":"otp_code","variables":{"code":"${codeOf(index)}"}`
      : `"class":"service","template":"order_ready","variables":{"order":"${index}"}`
    const body = `{"to":"${to}",${what},"client_ref":"${referenceOf(plan.run, client.number, index)}"}`
    inProgress++
    const write = (connection: Connection): void => {
      connection.again = () => start()
      connection.onAnswer = (status, text) => {
        inProgress--
        const now = performance.now()
        const took = now - due
        let answer: AnswerName
        if (status === 202) {
          answer = 'accepted'
          client.accepted++
          client.times.push(took)
          times[className].push(took)
          bySecond.answered(now, className, took)
        } else {
          const { error } = JSON.parse(text) as { error: { code: string; retry_after?: number } }
          answer = error.code === 'overloaded' ? 'overloaded' : status >= 500 ? 'other5xx' : 'other'
          if (answer === 'overloaded') {
            refusedTimes.push(took)
            bySecond.answered(now, 'refused', took)
            const seconds = String(error.retry_after)
            retryAfter[seconds] = (retryAfter[seconds] ?? 0) + 1
          } else {
            const name = `${status} ${error.code}`
            others[name] = (others[name] ?? 0) + 1
          }
        }
        client.answers[index] = ANSWERS.indexOf(answer)
        onDone()
      }
      connection.socket.write(`${client.head}${body.length}${HEAD_END}${body}`)
    }
    const start = (): void => {
      const connection = idle.pop()
      if (connection !== undefined) write(connection)
      else {
        waiting.push(write)
        if (connections < MAX_CONNECTIONS) open()
      }
    }
    start()
  }

  const newConnections: Array<number> = []
  const openAnother = (): void => {
    const began = performance.now()
    const socket = connect({ host: url.hostname, port: Number(url.port), noDelay: true })
    sockets.add(socket)
    inProgress++
    let isAnswered = false
    socket.once('connect', () =>
      socket.write(
        `GET /v1/account HTTP/1.1\r\nhost: ${url.host}\r\nauthorization: Bearer ${plan.clients[0]!.key}\r\n\r\n`,
      ),
    )
    socket.once('data', () => {
      isAnswered = true
      inProgress--
      newConnections.push(performance.now() - began)
      socket.destroy()
    })
    socket.on('error', () => {})
    socket.once('close', () => {
      sockets.delete(socket)
      if (!isAnswered) inProgress--
      if (!isAnswered) others['no answer'] = (others['no answer'] ?? 0) + 1
    })
  }

  const isReady = (): boolean => plan.loop === 'closed' || idle.length >= first
  while (!isReady()) {
    for (let i = 0; i < 50 && connections < first; i++) open()
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
  await untilTime(plan.startAt ?? 0)
  const started = performance.now()
  bySecond.start(started)
  const cpuBefore = process.cpuUsage()
  const isOver = (): boolean => performance.now() - started >= plan.durationMs
  await new Promise<void>((resolve) => {
    if (plan.loop === 'closed') {
      let open = 0
      for (const client of clients) {
        for (let i = 0; i < client.pace; i++) {
          open++
          const again = (): void => {
            if (isOver()) {
              if (--open === 0) resolve()
            } else send(client, performance.now(), again)
          }
          again()
        }
      }
      return
    }
    let opened = 0
    const timer = setInterval(() => {
      const now = performance.now()
      if (now - started >= plan.durationMs) {
        clearInterval(timer)
        return resolve()
      }
      while (opened < (newPerSecond * (now - started)) / 1000) {
        opened++
        openAnother()
      }
      for (const client of clients) {
        for (;;) {
          const due = started + client.firstAfter + (client.next / client.pace) * 1000
          if (due > now) break
          late.push(now - due)
          send(client, due, () => {})
        }
      }
    }, 1)
  })
  const seconds = (performance.now() - started) / 1000
  const giveUp = performance.now() + ANSWERED_WITHIN_MS
  while (inProgress > 0 && performance.now() < giveUp) await new Promise((resolve) => setTimeout(resolve, 20))
  const cpu = process.cpuUsage(cpuBefore)
  for (const socket of sockets) socket.destroy()
  if (inProgress > 0) others['no answer'] = (others['no answer'] ?? 0) + inProgress
  return {
    seconds,
    bySecond: bySecond.result(),
    clients: clients.map(({ accepted, answers, next, times: ofClient }) => ({
      sent: next,
      accepted,
      latencies: latenciesOf(ofClient),
      answers: Buffer.from(answers).toString('base64'),
    })),
    accepted: { otp: latenciesOf(times.otp), service: latenciesOf(times.service) },
    sent,
    refused: latenciesOf(refusedTimes),
    newConnections: latenciesOf(newConnections),
    retryAfter,
    others,
    lateP99: latenciesOf(late).p99,
    cpuSeconds: (cpu.user + cpu.system) / 1e6,
  }
}

answerPlan(run)
