/** The effects that a shard returns as data, in order, and its settings. */
import type { LogFact, MessageAccepted, MessageState, Mode, OpenMessageCarried } from '@hub/domain'
import type { OpenSubmission } from '@hub/operator'
import type { MemoryBudget, ShardLimits } from './limits.ts'
import type { Message, PreparedSubmission } from './message.ts'

/** What the metric `hub_dispatcher_special_cases_total` counts. */
export type SpecialCase = (typeof SPECIAL_CASES)[number]

export const SPECIAL_CASES = [
  'duplicate_dropped',
  'known_dropped',
  'void_claim',
  'outcome_unknown',
  'assumed_sent',
  'report_duplicate',
  'report_unmatched',
  'report_impossible',
  'report_matched_by_recipient',
  'record_lost',
  'carried',
] as const

/** What the shard does after Kafka has acknowledged the last pending fact of a message. */
export type AfterAppend =
  | { readonly type: 'submit'; readonly submission: PreparedSubmission }
  | { readonly type: 'endHandover'; readonly notBefore: number }
  | { readonly type: 'unpinReport'; readonly offset: number }

/** Append a fact. Kafka's acknowledgement is the input `appended`, with this effect. */
export interface Append {
  readonly type: 'append'
  readonly message: Message
  readonly fact: LogFact
  readonly next: AfterAppend | null
}

/** Append the current knowledge about open messages to the log, in one record. */
export interface ReAppend {
  readonly type: 'reAppend'
  readonly at: number
  readonly open: ReadonlyArray<{ readonly message: Message; readonly fact: OpenMessageCarried }>
}

export type ShardEffect =
  | Append
  | ReAppend
  /** Submit a message whose claim is acknowledged. The answer is the input `answered`. */
  | { readonly type: 'submit'; readonly message: Message; readonly submission: PreparedSubmission }
  /** Tell an operator which messages still await reports, after recovery. */
  | { readonly type: 'resume'; readonly operator: string; readonly open: ReadonlyArray<OpenSubmission> }
  /** The payload of a message is damaged: its lane record goes to the dead letters. */
  | {
      readonly type: 'damaged'
      readonly recipient: string
      readonly offset: number
      readonly accepted: MessageAccepted
    }
  | { readonly type: 'count'; readonly what: SpecialCase; readonly count: number }

export type ShardEffects = ReadonlyArray<ShardEffect>

export interface ShardSettings {
  readonly operators: Readonly<Record<Mode, string>>
  /** Whether an operator recognizes a repeated submit by its reference. */
  readonly dedupes: (operator: string) => boolean
  /** The report deadline of a message sent at `at`. Without `submission`, its number is not known. */
  readonly reportDeadline: (state: MessageState, submission: PreparedSubmission | null, at: number) => number
  /** An account may have a message to take from now on, until `take` returns `null` for it. */
  readonly onReady: (lane: number, operator: string, account: string) => void
  readonly limits?: ShardLimits
  readonly memoryBudget?: MemoryBudget
}
