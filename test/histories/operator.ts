/**
 * The SMS operator of a run: the message centre of the operator simulator, in this process. It records
 * each message that it accepted, and each report that the hub acknowledged.
 */
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { type Behaviour, DEFAULT_BEHAVIOUR } from '../../infra/local/operator-simulator/behaviour.ts'
import { makeOperator, type Operator } from '../../infra/local/operator-simulator/operator.ts'
import { makeSmsc } from '../../infra/local/operator-simulator/smpp/smsc.ts'
import type { Recorder } from './recorder.ts'
import { refIn } from './refs.ts'

export const SYSTEM_ID = 'hub'
export const PASSWORD = 'histories'.slice(0, 8)

/** A repeated report comes this much later. */
const REPEATED_AFTER_MS = 1500

export interface TestOperator {
  readonly port: number
  readonly behave: (change: Partial<Behaviour>) => void
  /** Each acknowledged report comes once more, from now on or no longer. */
  readonly repeatReports: (repeats: boolean) => void
  /** Ends all binds and accepts none until `appear`. */
  readonly disappear: () => Promise<void>
  readonly appear: () => Promise<void>
  /** Reports and inbound messages that the hub has not acknowledged. */
  readonly unacknowledged: () => number
  /** Whether the hub has acknowledged a report that a message to this recipient was delivered. */
  readonly hasReported: (number: string) => boolean
  /** Whether the operator has accepted a message for this recipient. */
  readonly hasMessageFor: (number: string) => boolean
  /** A recipient sends a text. */
  readonly receive: (from: string, text: string) => void
  /** Records what is incomplete, and stops. */
  readonly stop: () => Promise<void>
}

export const startOperator = async (recorder: Recorder): Promise<TestOperator> => {
  // It is never restarted, so it needs no journal, and its secret protects nothing.
  const inner = makeOperator(null, 'no journal')
  /** The numbers of parts whose message is not complete, by operator id. */
  const open = new Map<string, string>()
  const repeated = new Set<string>()
  const recipients = new Set<string>()
  const delivered = new Set<string>()
  let repeats = false
  const operator: Operator = {
    ...inner,
    submitPart: (part, now) => {
      const answer = inner.submitPart(part, now)
      if (answer.status === 'accepted') open.set(answer.operatorId, part.to)
      return answer
    },
    recordMessage: (to, text, operatorIds) => {
      for (const id of operatorIds) open.delete(id)
      if (operatorIds.length > 0) {
        recipients.add(to)
        recorder.record({
          kind: 'submit',
          at: Date.now(),
          ref: refIn(text),
          number: to,
          parts: operatorIds.length,
        })
      }
      inner.recordMessage(to, text, operatorIds)
    },
    acknowledgeReceipts: (receipts) => {
      inner.acknowledgeReceipts(receipts)
      for (const receipt of receipts) {
        const { operator_id, status, to } = receipt
        recorder.record({ kind: 'report', at: Date.now(), number: to, status })
        if (status === 'delivered') delivered.add(to)
        if (repeats && !repeated.has(operator_id)) {
          repeated.add(operator_id)
          inner.queueReceipt(receipt, Date.now() + REPEATED_AFTER_MS)
        }
      }
    },
  }
  const smsc = makeSmsc(operator, { systemId: SYSTEM_ID, password: PASSWORD })
  smsc.server.listen(0, '127.0.0.1')
  await once(smsc.server, 'listening')
  const { port } = smsc.server.address() as AddressInfo
  const ending = new AbortController()
  const running = smsc.run(ending.signal)
  return {
    port,
    behave: (change) => {
      const changed = inner.setBehaviour({ ...DEFAULT_BEHAVIOUR, ...change })
      if ('error' in changed) throw new Error(changed.error)
    },
    repeatReports: (wanted) => {
      repeats = wanted
    },
    disappear: async () => {
      const closed = once(smsc.server, 'close')
      smsc.server.close()
      smsc.dropBinds()
      await closed
    },
    appear: async () => {
      smsc.server.listen(port, '127.0.0.1')
      await once(smsc.server, 'listening')
    },
    unacknowledged: smsc.unacknowledged,
    hasReported: (number) => delivered.has(number),
    hasMessageFor: (number) => recipients.has(number),
    receive: (from, text) => {
      if (smsc.receive({ from, to: 'HUB', text }) === null) throw new Error('too many inbound messages wait')
    },
    stop: async () => {
      const parts = Map.groupBy(open.values(), (number) => number)
      for (const [number, all] of parts) {
        recorder.record({ kind: 'incomplete', at: Date.now(), number, parts: all.length })
      }
      ending.abort()
      await running
      inner.close()
    },
  }
}
