/**
 * Codes whose append has an unknown result in this process. The reconciler finds out within seconds
 * whether Kafka contains them.
 */
import { Context, Effect, Layer } from 'effect'

export interface AppendedCode {
  /** `msg_…` */
  readonly messageId: string
  /** Recipient hash. */
  readonly recipient: string
}

/** Codes in memory. The reconciler finds those above this number in the ledger, later. */
const MAX_CODES = 5000

export class UnprovenCodes extends Context.Service<UnprovenCodes>()('@hub/command-api/UnprovenCodes', {
  make: Effect.sync(() => {
    const unproven = new Set<AppendedCode>()
    return {
      add: (codes: ReadonlyArray<AppendedCode>): void => {
        for (const code of codes.slice(0, MAX_CODES - unproven.size)) unproven.add(code)
      },
      all: (): ReadonlyArray<AppendedCode> => [...unproven],
      /** The result of these codes is known now. */
      remove: (codes: ReadonlyArray<AppendedCode>): void => {
        for (const code of codes) unproven.delete(code)
      },
      isEmpty: () => unproven.size === 0,
    }
  }),
}) {
  static readonly layer = Layer.effect(this, this.make)
}
