/**
 * A model of the process under load, in virtual time: clients that ask without waiting, admission
 * control, the queue of sends, and servers that record a given number of sends per second.
 */
import { makeAdmission } from '../accept/admission/admission.ts'
import type { PendingSend } from '../accept/request.ts'
import { makeSendQueue } from '../accept/batch/send-queue.ts'
import type { WorkKind } from '../accept/admission/work-kinds.ts'

type PerSecond = number | ((second: number) => number)

interface ModelledLoad {
  /** Sends per second that the servers can record. */
  readonly capacity: PerSecond
  readonly seconds: number
  readonly accounts: ReadonlyArray<{
    readonly name: string
    readonly sendsPerSecond: PerSecond
    /** Of ten sends, how many have the class `otp`. */
    readonly codesOfTen: number
  }>
  /** From the queue to the outcome, ms: what a send takes without other sends. */
  readonly pathMs?: PerSecond
  /**
   * Length of a turn of the event loop, ms. Requests are read, and acceptance batches end, once in a
   * turn.
   */
  readonly turnMs?: number
}

const STEP_MS = 5
const SAMPLE_MS = 100
/** From the queue to the outcome, on idle servers. */
const PATH_MS = 60
const at = (value: PerSecond, second: number): number => (typeof value === 'number' ? value : value(second))

/** A send with the parts that the queue reads. */
const sendOf = (kind: WorkKind, account: string, arrivedAt: number): PendingSend => {
  const request = { context: {}, arrivedAt, sends: [] as Array<PendingSend> }
  const send = { checked: { class: kind, owner: { accountUuid: account, mode: 'live' } }, request }
  request.sends.push(send as unknown as PendingSend)
  return send as unknown as PendingSend
}

const p99 = (values: ReadonlyArray<number>): number =>
  values.toSorted((a, b) => a - b)[Math.floor(0.99 * values.length)] ?? 0

export const simulate = ({
  accounts,
  capacity,
  pathMs = PATH_MS,
  seconds,
  turnMs = STEP_MS,
}: ModelledLoad) => {
  const admission = makeAdmission()
  const queue = makeSendQueue({ sends: 1, requests: 1, bytes: Infinity, bytesOf: () => 1 })
  const clients = accounts.map((account) => ({ ...account, due: 0, sent: 0, accepted: 0, refusedCodes: 0 }))
  const recording: Array<{ readonly send: PendingSend; readonly ms: number; readonly until: number }> = []
  const answers: Array<{ readonly at: number; readonly kind: WorkKind; readonly ms: number }> = []
  const refusals: Array<number> = []
  let budget = 0
  let sampledAt = 0

  for (let now = 0; now < seconds * 1000; now += turnMs) {
    const second = now / 1000
    for (let ms = 0; ms < turnMs; ms += STEP_MS) {
      for (const client of clients) {
        client.due += (at(client.sendsPerSecond, second) * STEP_MS) / 1000
        for (; client.due >= 1; client.due--) {
          const kind = client.sent++ % 10 < client.codesOfTen ? 'otp' : 'service'
          const work = { kind, account: client.name, sends: 1 } as const
          if (admission.refusal(work) === null) {
            admission.begin(work)
            queue.push(sendOf(kind, client.name, now).request)
          } else {
            admission.refused(work)
            refusals.push(now)
            if (kind === 'otp') client.refusedCodes++
          }
        }
      }
    }
    // The servers save no time that they did not use.
    const possible = (at(capacity, second) * turnMs) / 1000
    budget = Math.min(budget + possible, 1 + Math.max(possible, at(capacity, second) / 20))
    while (budget >= 1 && queue.count('all') > 0) {
      const [send] = queue.take('all', now, () => true)
      if (send === undefined) break
      recording.push({ send, ms: at(pathMs, second), until: now + at(pathMs, second) })
      budget--
    }
    while (recording.length > 0 && recording[0]!.until <= now) {
      const { ms, send } = recording.shift()!
      const kind = send.checked.class
      const account = send.checked.owner.accountUuid
      admission.finish({ kind, account, sends: 1 })
      admission.accepted(kind, ms)
      answers.push({ at: now, kind, ms: now - send.request.arrivedAt })
      clients.find(({ name }) => name === account)!.accepted++
    }
    if (now - sampledAt >= SAMPLE_MS) {
      admission.sample({ ms: now - sampledAt, eventLoopDelayMs: 0, eventLoopUtilization: 0 })
      sampledAt = now
    }
  }

  const within = (from: number, to: number) => (time: number) => time >= from * 1000 && time < to * 1000
  const timesOf = (kind: WorkKind) => answers.filter((one) => one.kind === kind).map(({ ms }) => ms)
  return {
    /** Answered sends per second. */
    goodput: answers.length / (seconds - PATH_MS / 1000),
    /** Milliseconds from the request to the answer. */
    p99: { otp: p99(timesOf('otp')), service: p99(timesOf('service')) },
    byAccount: Object.fromEntries(clients.map((client) => [client.name, client])),
    acceptedIn: (from: number, to: number) => answers.filter((one) => within(from, to)(one.at)).length,
    refusedIn: (from: number, to: number) => refusals.filter(within(from, to)).length,
    slowestIn: (from: number, to: number) =>
      Math.max(...answers.filter((one) => within(from, to)(one.at)).map(({ ms }) => ms)),
  }
}
