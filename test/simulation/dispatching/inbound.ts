/** Inbound messages: recipients send stop and start words, which the dispatchers store and apply. */
import { DispatcherTables } from '@hub/dispatcher/testing'
import { recipientHash } from '@hub/domain'
import { decodeInboundMessageReceived, topicNames } from '@hub/kafka'
import { Result } from 'effect'
import type { Simulation } from '../world/simulation.ts'
import type { OperatorServer } from './operator-server.ts'

const TEXTS = ['STOP', 'STOP', 'START', 'hello']

/** The tables of the dispatchers, with the recipients whom hub staff have opted out at some time. */
export class InboundTables extends DispatcherTables {
  readonly byStaff = new Set<string>()

  override optOut(recipient: string, at: number): void {
    this.byStaff.add(recipient)
    super.optOut(recipient, at)
  }
}

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
    if (!tables.inbound.has(record.id)) violations.add('an inbound message is not stored', operatorId)
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
