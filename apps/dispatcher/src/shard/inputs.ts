/** What happens to a shard: one value for each change that comes from outside. */
import type { Fence, OpenedShard } from '@hub/actor'
import type { LogFact, MessageAccepted } from '@hub/domain'
import type { SubmitOutcome } from '@hub/operator'
import type { Append, ReAppend } from './effects.ts'
import type { ReadModelMessage, Message, Preparation, PreparedSubmission, DeliveryReport } from './message.ts'
import type { ParkedReport } from './parked-reports.ts'

export type ShardInput =
  | FactRead
  /** Recovery is complete, and the fence names this member as the owner. */
  | ({ readonly type: 'opened' } & Omit<OpenedShard, 'now'>)
  /** Kafka has acknowledged an effect. */
  | { readonly type: 'appended'; readonly effect: Append | ReAppend; readonly offset: number }
  | LaneRecordRead
  /** The read model's answer: whether the message was sent or finished before. */
  | { readonly type: 'messageLookedUp'; readonly message: Message; readonly sentOrFinal: boolean }
  /** The payload of a taken message is decrypted, or cannot be. */
  | { readonly type: 'prepared'; readonly message: Message; readonly preparation: Preparation }
  /** The operator's answer to a submit. */
  | {
      readonly type: 'answered'
      readonly message: Message
      readonly outcome: SubmitOutcome
      readonly submission: PreparedSubmission
    }
  | { readonly type: 'report'; readonly report: DeliveryReport }
  /** The read model's answer for a parked report: its message, or `null` if there is none. */
  | {
      readonly type: 'reportLookedUp'
      readonly parked: ParkedReport
      readonly known: ReadModelMessage | null
    }
  /** Time has passed. */
  | { readonly type: 'tick' }
  /** The low-water marks were committed. `logPosition` is the next log offset to read. */
  | { readonly type: 'committed'; readonly lanes: ReadonlyArray<number>; readonly logPosition: number }

/** A fact of the log: before `opened` for recovery, and later a fact of another member. */
export interface FactRead {
  readonly type: 'fact'
  readonly offset: number
  readonly recipient: string
  readonly fact: LogFact
  readonly fence: Fence
}

/** A lane record that the shard keeps. `appendedAt` is the time at which Kafka received it. */
export interface LaneRecordRead {
  readonly type: 'accepted'
  readonly lane: number
  readonly offset: number
  readonly appendedAt: number
  readonly accepted: MessageAccepted
}
