/**
 * How far this process has compared the ledger with the read model. The reconciler moves it; lists
 * of messages add what the read model may not contain yet.
 */
import { LONGEST_LIFETIME_SECONDS } from '@hub/config'
import type { MessageClass } from '@hub/domain'
import { Context, Layer } from 'effect'

/** A late message that the read model does not contain. */
export interface LateMessage {
  readonly class: MessageClass
  readonly partition: number
}

/**
 * The read model contains every acceptance up to the cursor, except the late messages. Acceptances that
 * are older than the start of the scan are not compared.
 */
export class LedgerScan extends Context.Service<
  LedgerScan,
  {
    /** UUID of the last acceptance that was compared; `null` before the first. */
    cursor: string | null
    /** By UUID of the message. The reconciler bounds their number. */
    readonly lateMessages: Map<string, LateMessage>
  }
>()('@hub/command-api/LedgerScan') {
  static readonly layer = Layer.sync(LedgerScan, () =>
    LedgerScan.of({ cursor: null, lateMessages: new Map() }),
  )
}

/** Hours that the scan looks back at the start of a process: the longest lifetime, and one hour. */
export const LOOK_BACK_HOURS = LONGEST_LIFETIME_SECONDS.service / 3600 + 1
