/**
 * Stands in for the projector: it folds lanes and log into the state of each message, some time
 * after the records were appended.
 */
import { epochOf, evolve, type MessageAccepted, type MessageState } from '@hub/domain'
import {
  carriedFact,
  decodeFact,
  decodeOpenMessagesCarried,
  decodeShardOpened,
  type IncomingRecord,
  isFactType,
  type TopicNames,
} from '@hub/kafka'
import { type SimulatedBroker } from '@hub/kafka/testing'
import type { MessageFact } from '@hub/domain'
import { Result } from 'effect'
import type { Simulation } from '../world/simulation.ts'

export interface ProjectedMessage {
  readonly id: string
  accepted: MessageAccepted | null
  state: MessageState | null
  readonly facts: Array<MessageFact>
}

/** Folds the records of lanes and log. A claim behind the fence of another owner is void. */
export class ReadModel {
  readonly messages = new Map<string, ProjectedMessage>()
  readonly #broker: SimulatedBroker
  readonly #topics: ReadonlyArray<string>
  readonly #log: string
  readonly #positions = new Map<string, number>()
  /** The highest epoch of each shard. */
  readonly #epochs = new Map<number, number>()
  readonly #onFact: (message: ProjectedMessage, fact: MessageFact, before: MessageState | null) => void

  constructor(
    broker: SimulatedBroker,
    topics: TopicNames,
    onFact: (message: ProjectedMessage, fact: MessageFact, before: MessageState | null) => void = () => {},
  ) {
    this.#broker = broker
    this.#log = topics.messages
    this.#topics = [topics.acceptedOtp, topics.acceptedService, topics.messages]
    this.#onFact = onFact
  }

  position(topic: string, partition: number): number {
    return this.#positions.get(`${topic}/${partition}`) ?? 0
  }

  /** Applies the next records of all partitions, at most this many of each. */
  advance(limit: number): void {
    for (const topic of this.#topics) {
      for (let partition = 0; partition < this.#broker.partitions; partition++) {
        const from = this.position(topic, partition)
        const records = this.#broker.fetch(topic, partition, from, limit)
        for (const record of records) this.#apply(record)
        this.#positions.set(`${topic}/${partition}`, from + records.length)
      }
    }
  }

  #apply(record: IncomingRecord): void {
    if (record.topic === this.#log) {
      const fence = this.#epochs.get(record.partition) ?? 0
      if (record.type === 'ShardOpened') {
        const opened = decodeShardOpened(record)
        if (Result.isSuccess(opened))
          this.#epochs.set(record.partition, Math.max(fence, opened.success.epoch))
        return
      }
      if (record.type === 'OpenMessagesCarried') {
        const carried = decodeOpenMessagesCarried(record)
        if (Result.isFailure(carried)) return
        for (const one of carried.success.messages) this.#fold(carriedFact(carried.success, one))
        return
      }
      if (!isFactType(record.type)) return
      const fact = decodeFact(record)
      if (Result.isFailure(fact)) return
      const epoch = epochOf(fact.success)
      if (epoch !== null && epoch < fence) return
      return this.#fold(fact.success)
    }
    const fact = decodeFact(record)
    if (Result.isSuccess(fact)) this.#fold(fact.success)
  }

  #fold(fact: MessageFact): void {
    let message = this.messages.get(fact.messageId)
    if (message === undefined) {
      message = { id: fact.messageId, accepted: null, state: null, facts: [] }
      this.messages.set(fact.messageId, message)
    }
    const before = message.state
    message.state = evolve(before, fact)
    message.facts.push(fact)
    if (fact.type === 'MessageAccepted') message.accepted ??= fact
    this.#onFact(message, fact, before)
  }
}

/** Longer than the dispatcher remembers a final message. */
const LONGEST_STALL_MS = 40_000

/** Lets a read model follow lanes and log with a delay, as a projector does. */
export const follow = (simulation: Simulation, model: ReadModel): void => {
  const random = simulation.random('projection')
  const { faults, world } = simulation
  const stallRate = random.pick([0, 0, 0.01, 0.03])
  const project = () => {
    model.advance(random.between(1, 40))
    const isStalled = !faults.isOver && random.chance(stallRate)
    world.afterQuiet(isStalled ? random.between(5000, LONGEST_STALL_MS) : random.between(20, 700), project)
  }
  project()
}
