/**
 * Inbound messages: recipients send stop and start words, and the tables of PostgreSQL in which the
 * dispatchers store and apply them.
 */
import type { InboundMessages, OptOuts } from '@hub/dispatcher'
import { type AppliedWords, decideOptOut, type OptOut, recipientHash } from '@hub/domain'
import { decodeInboundMessageReceived, topicNames } from '@hub/kafka'
import { Effect, Result } from 'effect'
import type { SimulatedProcess } from '../world/process.ts'
import type { Simulation } from '../world/simulation.ts'
import { statement } from '../world/statement.ts'
import type { OperatorServer } from './operator-server.ts'

const TEXTS = ['STOP', 'STOP', 'START', 'hello']

export class InboundTables {
  /** The ids of the stored messages. */
  readonly stored = new Set<string>()
  /** By recipient hash. */
  readonly optOuts = new Map<string, OptOut>()
  /** The recipients whom hub staff have opted out at some time. */
  readonly byStaff = new Set<string>()
  readonly #applied = new Map<string, AppliedWords>()
  readonly #onChange: (recipient: string, isOptedOut: boolean) => void

  constructor(onChange: (recipient: string, isOptedOut: boolean) => void = () => {}) {
    this.#onChange = onChange
  }

  /** Hub staff opt a recipient out. An earlier start word that is applied later does not lift it. */
  optOut(recipient: string, at: number): void {
    this.byStaff.add(recipient)
    if (this.optOuts.has(recipient)) return
    this.optOuts.set(recipient, { source: 'operator', createdAt: at })
    this.#onChange(recipient, true)
  }

  apply(words: Parameters<OptOuts['Service']['apply']>[0]) {
    return words.map((word) => {
      const { recipient } = word
      const { applied, change } = decideOptOut(
        this.optOuts.get(recipient) ?? null,
        this.#applied.get(recipient) ?? null,
        word,
      )
      this.#applied.set(recipient, applied)
      if (change === 'recorded') {
        this.optOuts.set(recipient, { source: 'inbound', createdAt: word.receivedAt })
        this.#onChange(recipient, true)
      } else if (change === 'lifted') {
        this.optOuts.delete(recipient)
        this.#onChange(recipient, false)
      }
      return change
    })
  }
}

/** The ports of a dispatcher process to the tables. */
export const inboundStores = (
  { network }: Simulation,
  process: SimulatedProcess,
  tables: InboundTables,
): { readonly optOuts: OptOuts['Service']; readonly inboundMessages: InboundMessages['Service'] } => ({
  optOuts: {
    apply: (words) =>
      words.length === 0
        ? Effect.succeed([])
        : statement(network, process, 'apply words', () => tables.apply(words)),
  },
  inboundMessages: {
    store: (messages) =>
      messages.length === 0
        ? Effect.void
        : statement(network, process, 'store inbound messages', () => {
            for (const { id } of messages) tables.stored.add(id)
          }),
  },
})

/** Recipients send words within a time. */
export const sendWords = (
  simulation: Simulation,
  operator: OperatorServer,
  { numbers, withinMs }: { readonly numbers: ReadonlyArray<string>; readonly withinMs: number },
): void => {
  const random = simulation.random('inbound')
  const count = random.pick([0, 0, 2, 6])
  for (let i = 0; i < count; i++) {
    simulation.world.after(random.between(0, withinMs), () =>
      operator.sendInbound(random.pick(numbers), random.pick(TEXTS)),
    )
  }
}

/** Every acknowledged message is stored, and the last word of each recipient has its effect. */
export const checkWords = (
  { broker, violations }: Simulation,
  operator: OperatorServer,
  tables: InboundTables,
  hashSecret: string,
): void => {
  const seen = new Set<string>()
  const isOptedOut = new Map<string, boolean>()
  const received = new Set<string>()
  for (const record of broker.topic(topicNames().operatorReports).flat()) {
    if (record.type !== 'InboundMessageReceived') continue
    const message = decodeInboundMessageReceived(record)
    if (Result.isFailure(message)) continue
    const { operatorId, recipient } = message.success
    received.add(operatorId)
    // The operator repeats a message under its id.
    if (seen.has(record.id)) continue
    seen.add(record.id)
    if (!tables.stored.has(record.id)) violations.add('an inbound message is not stored', operatorId)
    const text = operator.inbound.get(operatorId)?.text
    if (text === 'STOP' || text === 'START') isOptedOut.set(recipient, text === 'STOP')
  }
  for (const [operatorId, { from, isAcknowledged }] of operator.inbound) {
    if (isAcknowledged && !received.has(operatorId)) {
      violations.add('an acknowledged inbound message is lost', operatorId)
    }
    const recipient = recipientHash(hashSecret, from)
    // Whether a start word lifts it depends on the clock of the dispatcher.
    if (tables.byStaff.has(recipient)) continue
    const expected = isOptedOut.get(recipient) ?? false
    if (tables.optOuts.has(recipient) !== expected) {
      violations.add('a stop or start word has no effect', `${operatorId}: ${expected ? 'not ' : ''}opted in`)
    }
  }
}
