/** Traffic of every kind a hub meets: both modes, both classes, singles and batches, every outcome, duplicates and refusals. */
import { setTimeout as delay } from 'node:timers/promises'
import type { Client } from './client.ts'
import type { Account, Mode } from './hub-admin.ts'
import type { Random } from './seeded-random.ts'

/** One request: a single send, or a batch. */
export interface WorkloadRequest {
  readonly apiClient: Client
  /** Bodies of sends. */
  readonly sends: ReadonlyArray<Send>
  readonly single: boolean
}

export interface Send {
  readonly body: Readonly<Record<string, unknown>>
  /** A late report corrects what it came to. */
  readonly corrected: boolean
}

/**
 * Outcomes by number, in the sandbox, 09 and 13 those of acceptance; the simulated operator knows the same but for these two and those of
 * the hub's own deadlines.
 */
const OUTCOMES = ['02', '03', '04', '05', '06', '07', '09', '10', '13']
/** The hub's own deadlines: ten seconds, in the sandbox only. */
const DEADLINES = ['08', '11', '12']

/** Elements of a batch. */
const BATCH = { least: 10, most: 50 }
/** One message in so many is sent alone. */
const SINGLES = 5

const chance = (random: Random, percent: number): boolean => random.below(100) < percent

interface WorkloadOptions {
  readonly random: Random
  readonly accounts: ReadonlyArray<Account>
  readonly messages: number
  /** Numbers with this beginning are free: eight more digits follow. */
  readonly prefix: string
}

/** Makes the requests for so many messages. The ones that take ten seconds and more are in the first half. */
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
    // A reference of before is the message of before, whatever else the send says.
    const repeated = refs.length > 0 && chance(random, 4)
    const ref = repeated ? refs[random.below(refs.length)]! : `mixed-${index}`
    if (!repeated) refs.push(ref)
    const slow = mode === 'test' && index < messages / 2 && chance(random, 3)
    const outcome = slow ? DEADLINES : chance(random, 40) ? OUTCOMES : null
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
    return { body, corrected: !repeated && digits === '12' }
  }

  while (made < messages) {
    const account = accounts[random.below(accounts.length)]!
    const mode = chance(random, 50) ? 'test' : 'live'
    const owner = `${account.id} ${mode}`
    const size = Math.min(messages - made, BATCH.least + random.below(BATCH.most - BATCH.least))
    for (let i = 0; i < Math.ceil(size / SINGLES) && made < messages; i++) {
      requests.push({ apiClient: account[mode], single: true, sends: [sendOf(mode, owner)] })
    }
    const sends = Array.from({ length: size }, () => sendOf(mode, owner))
    requests.push({ apiClient: account[mode], single: false, sends })
  }
  return requests
}

export interface WorkloadResult {
  /** Ids of what was accepted, a duplicate by the id that it has. */
  readonly accepted: Set<string>
  readonly corrections: Set<string>
  /** Elements and sends that were refused for good, by code. */
  readonly refused: Map<string, number>
  repeats: number
}

export const emptyWorkloadResult = (): WorkloadResult => ({
  accepted: new Set(),
  corrections: new Set(),
  refused: new Map(),
  repeats: 0,
})

/** Between a request that failed and its repeat. */
const REPEAT_AFTER_MS = 100

/** Sends a job until all of it has an answer: what failed on the way is repeated under the same references. */
export const sendRequest = async (
  { apiClient, sends, single }: WorkloadRequest,
  sent: WorkloadResult,
): Promise<void> => {
  const take = (send: Send, id: string): void => {
    sent.accepted.add(id)
    if (send.corrected) sent.corrections.add(id)
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
    const again: Array<Send> = []
    if (answer === null || answer.status === 429 || answer.status >= 500) {
      again.push(...left)
    } else if (single) {
      if (answer.status === 202) take(left[0]!, answer.body.id)
      else refuse(answer.body.error.code)
    } else {
      if (answer.status !== 202) throw new Error(`a batch was answered ${answer.status}`)
      for (const [i, result] of answer.body.results.entries()) {
        const send = left[i]!
        const id = result.message?.id ?? result.message_id
        if (id !== undefined) take(send, id)
        else if (['provider_unavailable', 'internal_error'].includes(result.error.code)) again.push(send)
        else refuse(result.error.code)
      }
    }
    left = again
    if (left.length > 0) {
      sent.repeats += 1
      await delay(REPEAT_AFTER_MS)
    }
  }
}
