/** The dispatcher's store in memory, over a model of what a projector has applied. */
import {
  type AppliedWords,
  decideOptOut,
  type MessageAccepted,
  type MessageState,
  type OptOut,
} from '@hub/domain'
import { topicNames } from '@hub/kafka'
import type { StorageError } from '@hub/store'
import { Effect } from 'effect'
import type {
  AccountWeight,
  DispatcherStoreShape,
  RecipientWord,
  ReportQuestion,
} from '../store/store.port.ts'

export interface LookedUpMessage {
  readonly id: string
  readonly accepted: Pick<MessageAccepted, 'recipient' | 'class'> | null
  readonly state: Pick<
    MessageState,
    'status' | 'reason' | 'attempts' | 'seen' | 'operator' | 'operatorIds'
  > | null
}

/** What the look-ups of a dispatcher read. */
export interface LookedUpModel {
  /** The next offset that is applied. The topic has no deployment prefix. */
  readonly position: (topic: string, partition: number) => number
  readonly messages: {
    readonly get: (id: string) => LookedUpMessage | undefined
    readonly values: () => Iterable<LookedUpMessage>
  }
}

/** Runs a statement in the server: at once, or as a request that can fail. */
type Run = <A>(name: string, execute: () => A) => Effect.Effect<A, StorageError>

const TOPICS = topicNames()
const LANES = [TOPICS.acceptedOtp, TOPICS.acceptedService]

/** The tables that the dispatchers write. */
export class DispatcherTables {
  /** The ids of the stored inbound messages. */
  readonly inbound = new Set<string>()
  /** By recipient hash. */
  readonly optOuts = new Map<string, OptOut>()
  readonly weights: Array<AccountWeight> = []
  readonly #applied = new Map<string, AppliedWords>()
  readonly #onChange: (recipient: string, isOptedOut: boolean) => void

  constructor(onChange: (recipient: string, isOptedOut: boolean) => void = () => {}) {
    this.#onChange = onChange
  }

  /** Hub staff opt a recipient out. An earlier start word that is applied later does not lift it. */
  optOut(recipient: string, at: number): void {
    if (this.optOuts.has(recipient)) return
    this.optOuts.set(recipient, { source: 'operator', createdAt: at })
    this.#onChange(recipient, true)
  }

  applyWords(words: ReadonlyArray<RecipientWord>) {
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

export const memoryStore = (
  model: LookedUpModel,
  tables: DispatcherTables,
  run: Run = (_name, execute) => Effect.sync(execute),
): DispatcherStoreShape => {
  /** The newest message with the operator's id, if the question has no reference. */
  const find = ({ operator, operatorId, recipient, reference }: ReportQuestion) =>
    reference === null
      ? [...model.messages.values()].findLast(
          ({ accepted, state }) =>
            state?.operator === operator &&
            state.operatorIds.includes(operatorId) &&
            (recipient === null || accepted?.recipient === recipient),
        )
      : model.messages.get(reference)
  return {
    sentOrFinal: (questions) =>
      run('read whether messages were sent or finished', () =>
        questions.map(({ id, lane, laneOffset, logOffset, shard }) => {
          const isProjected =
            model.position(LANES[lane]!, shard) > laneOffset &&
            model.position(TOPICS.messages, shard) >= logOffset
          if (!isProjected) return null
          return (model.messages.get(id)?.state?.status ?? 'accepted') !== 'accepted'
        }),
      ),
    reportedOn: (questions) =>
      run('read messages of reports', () =>
        questions.map((question) => {
          if (model.position(TOPICS.messages, question.shard) < question.logOffset) return null
          const { accepted = null, id = '', state = null } = find(question) ?? {}
          if (accepted === null || state === null) return 'notFound'
          if (question.recipient !== null && question.recipient !== accepted.recipient) return 'notFound'
          const { attempts, operator, operatorIds, reason, seen, status } = state
          return {
            id,
            recipient: accepted.recipient,
            class: accepted.class,
            status,
            reason,
            attempts,
            seen,
            operator: operator ?? question.operator,
            operatorIds: operatorIds.length > 0 ? operatorIds : [question.operatorId],
          }
        }),
      ),
    recipients: (questions) =>
      run('read recipients', () => questions.map((question) => find(question)?.accepted?.recipient ?? null)),
    storeInbound: (messages) =>
      messages.length === 0
        ? Effect.void
        : run('store inbound messages', () => {
            for (const { id } of messages) tables.inbound.add(id)
          }),
    applyWords: (words) =>
      words.length === 0 ? Effect.succeed([]) : run('apply words', () => tables.applyWords(words)),
    weights: run('read weights', () => [...tables.weights]),
  }
}
