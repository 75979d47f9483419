/** All that a shard knows. The functions beside this module change it, one input at a time. */
import { TimerHeap } from '@hub/actor'
import { type LogFact, withEpoch } from '@hub/domain'
import type { AfterAppend, ShardEffect, SpecialCase, ShardSettings } from './effects.ts'
import { Handovers } from './handovers.ts'
import { DEFAULT_LIMITS, type ShardLimits } from './limits.ts'
import type { Message } from './message.ts'
import { OperatorQueues } from './operator-queues.ts'
import { ParkedReports } from './parked-reports.ts'
import { RecoveryOffsets } from './recovery-offsets.ts'

export class ShardState {
  readonly settings: ShardSettings
  readonly limits: ShardLimits
  readonly messages = new Map<string, Message>()
  /** Complete final messages, in the order in which they became final. */
  readonly finished = new Set<Message>()
  /** Messages that wait for a lookup in the read model. */
  readonly lookups = new Set<Message>()
  readonly timers = new TimerHeap<Message>()
  readonly queues: OperatorQueues
  readonly handovers = new Handovers()
  readonly recovery = new RecoveryOffsets()
  readonly parked = new ParkedReports()
  /** By `operatorKey`. */
  readonly byOperatorId = new Map<string, Message>()
  /**
   * Messages that were sent, or may have been sent, without a known operator id, by recipient. Also
   * those that expired without a report, until the shard forgets them.
   */
  readonly withoutIds = new Map<string, Set<Message>>()
  epoch = 0
  /** The next log offset that the shard reads. */
  logPosition = 0
  /** Offsets of own facts that are folded at their acknowledgement, but not read back yet. */
  readonly ownOffsets = new Set<number>()
  isOpen = false
  laneEnds: ReadonlyArray<number> = []
  /** After recovery, some messages still lack their lane records. */
  awaitsLaneRecords = false
  /** The time of the current input, ms since the epoch. */
  now = 0
  /** The effects of the current input. */
  effects: Array<ShardEffect> = []

  constructor(settings: ShardSettings) {
    this.settings = settings
    this.limits = settings.limits ?? DEFAULT_LIMITS
    this.queues = new OperatorQueues(this.limits.buffer, settings.onReady)
  }
}

export const count = (state: ShardState, what: SpecialCase, count = 1): void => {
  state.effects.push({ type: 'count', what, count })
}

/** Appends facts in order. `next` follows the acknowledgement of the last one. */
export const record = (
  state: ShardState,
  message: Message,
  facts: ReadonlyArray<LogFact>,
  next: AfterAppend | null,
): void => {
  // The pending facts decide what may happen next.
  if (message.laneRecord !== null) state.queues.block(message)
  message.pendingAppends += facts.length
  for (const fact of facts) {
    state.effects.push({ type: 'append', message, fact: withEpoch(fact, state.epoch), next })
  }
}
