/**
 * Generates a mixed workload: both modes, both classes, single sends and batches, every outcome,
 * duplicates and refusals.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { type Client, isTemporaryElement, isTemporaryRefusal } from './client.ts'
import type { Account, Mode } from './hub-admin.ts'
import type { Random } from './seeded-random.ts'

/** One HTTP request: a single send or a batch. */
export interface WorkloadRequest {
  readonly apiClient: Client
  /** The sends of the request. */
  readonly sends: ReadonlyArray<Send>
  readonly single: boolean
}

export interface Send {
  readonly body: Readonly<Record<string, unknown>>
  /** A late delivery report changes the status from expired to delivered. */
  readonly correctedLater: boolean
}

/**
 * Last digits of sandbox numbers. 09 and 13 are refused at acceptance. The operator simulator knows
 * the same numbers except these two and the timeouts.
 */
const OUTCOMES = ['02', '03', '04', '05', '06', '07', '09', '10', '13']
/** Numbers that time out after ten seconds, in the sandbox only. */
const TIMEOUTS = ['08', '11', '12']

/** The size of a batch. */
const BATCH = { least: 10, most: 50 }
/** One of this many messages is sent alone. */
const MESSAGES_PER_SINGLE = 5

const chance = (random: Random, percent: number): boolean => random.below(100) < percent

interface WorkloadOptions {
  readonly random: Random
  readonly accounts: ReadonlyArray<Account>
  readonly messages: number
  /** The prefix of ordinary numbers. Eight digits follow. */
  readonly prefix: string
}

/**
 * Generates requests for a number of messages. Messages that take ten seconds or more are in the
 * first half.
 */
export const makeMixedWorkload = ({
  accounts,
  messages,
  prefix,
  random,
}: WorkloadOptions): ReadonlyArray<WorkloadRequest> => {
  const requests: Array<WorkloadRequest> = []
  const used = new Map<string, Array<string>>()
  let made = 0

  const sendOf = (mode: Mode, owner: string): Send => {
    const index = made++
    const refs = used.get(owner) ?? []
    used.set(owner, refs)
    // A repeated reference returns the earlier message, whatever else the send contains.
    const repeated = refs.length > 0 && chance(random, 4)
    const ref = repeated ? refs[random.below(refs.length)]! : `mixed-${index}`
    if (!repeated) refs.push(ref)
    const slow = mode === 'test' && index < messages / 2 && chance(random, 3)
    const outcome = slow ? TIMEOUTS : chance(random, 40) ? OUTCOMES : null
    const digits = outcome === null ? null : outcome[random.below(outcome.length)]!
    const to =
      digits === null
        ? `${prefix}${String(index).padStart(11 - prefix.length + 1, '0')}`
        : `+790000000${digits}`
    const isOtp = chance(random, 50)
    const order = chance(random, 5) ? 'A'.repeat(100 + random.below(60)) : `A-${index}`
    const body = {
      to: chance(random, 2) ? 'not a number' : to,
      class: isOtp ? 'otp' : 'service',
      template: isOtp ? 'otp_code' : 'order_ready',
      variables: chance(random, 2) ? {} : isOtp ? { code: String(index) } : { order },
      client_ref: ref,
    }
    return { body, correctedLater: !repeated && digits === '12' }
  }

  while (made < messages) {
    const account = accounts[random.below(accounts.length)]!
    const mode = chance(random, 50) ? 'test' : 'live'
    const owner = `${account.id} ${mode}`
    const size = Math.min(messages - made, BATCH.least + random.below(BATCH.most - BATCH.least))
    for (let i = 0; i < Math.ceil(size / MESSAGES_PER_SINGLE) && made < messages; i++) {
      requests.push({ apiClient: account[mode], single: true, sends: [sendOf(mode, owner)] })
    }
    const sends = Array.from({ length: size }, () => sendOf(mode, owner))
    requests.push({ apiClient: account[mode], single: false, sends })
  }
  return requests
}

export interface WorkloadResult {
  /** Ids of the accepted messages. A duplicate has the id of the earlier message. */
  readonly accepted: Set<string>
  readonly corrections: Set<string>
  /** The number of permanently refused sends, by error code. */
  readonly refused: Map<string, number>
  repeats: number
}

export const emptyWorkloadResult = (): WorkloadResult => ({
  accepted: new Set(),
  corrections: new Set(),
  refused: new Map(),
  repeats: 0,
})

/** The pause before a failed request is repeated. */
const REPEAT_AFTER_MS = 100

/**
 * Sends a request until every send in it has a final answer. Failed sends are repeated with the
 * same `client_ref`.
 */
export const sendRequest = async (
  { apiClient, sends, single }: WorkloadRequest,
  sent: WorkloadResult,
): Promise<void> => {
  const take = (send: Send, id: string): void => {
    sent.accepted.add(id)
    if (send.correctedLater) sent.corrections.add(id)
  }
  const refuse = (code: string): void => {
    sent.refused.set(code, (sent.refused.get(code) ?? 0) + 1)
  }
  for (let left = sends; left.length > 0;) {
    const answer = await (
      single
        ? apiClient.post('/v1/messages', left[0]!.body)
        : apiClient.post('/v1/messages/batch', { messages: left.map(({ body }) => body) })
    ).catch(() => null)
    const retry: Array<Send> = []
    if (answer === null || isTemporaryRefusal(answer)) {
      retry.push(...left)
    } else if (single) {
      if (answer.status === 202) take(left[0]!, answer.body.id)
      else refuse(answer.body.error.code)
    } else {
      if (answer.status !== 202) throw new Error(`a batch was refused with status ${answer.status}`)
      for (const [i, result] of answer.body.results.entries()) {
        const send = left[i]!
        const id = result.message?.id ?? result.message_id
        if (id !== undefined) take(send, id)
        else if (isTemporaryElement(result.error)) retry.push(send)
        else refuse(result.error.code)
      }
    }
    left = retry
    if (left.length > 0) {
      sent.repeats += 1
      await delay(REPEAT_AFTER_MS)
    }
  }
}
