/**
 * The outbox mode of this process: `direct` (the acceptor appends its own records) or `relaying`
 * (the relay appends outbox rows in order). A process changes to relaying when one of its rows
 * stays in the outbox. Until the relay has appended all of these rows, later rows also go through
 * the relay, so that no `service` message overtakes an earlier one.
 *
 * Synchronous: the decision about a row and its registration are one step.
 */
import { Context, Effect, Layer } from 'effect'

export class OutboxMode extends Context.Service<OutboxMode>()('@hub/command-api/OutboxMode', {
  make: Effect.sync(() => {
    /** Rows of an earlier process must be appended first. */
    let relaying = true
    let started = false
    let highest = 0
    let count = 0
    let listener = (): void => {}
    return {
      /** True while the process leaves new rows to the relay. */
      isRelaying: () => relaying,
      /** Leaves an outbox row to the relay, changes to relaying and wakes the relay. */
      leaveToRelay: (row: number): void => {
        highest = Math.max(highest, row)
        relaying = true
        count++
        listener()
      },
      /**
       * `highest`: the highest row that the relay must append before direct mode (`null` before
       * `relayExistingRows`). `count`: how many rows were ever left to the relay.
       */
      relayBacklog: () => ({ highest: started ? highest : null, count }),
      /** Sets the highest row at the start of the process. The relay appends rows up to it first. */
      relayExistingRows: (row: number): void => {
        highest = Math.max(highest, row)
        started = true
      },
      /** Changes to direct, unless `seen` is an outdated count. True if the mode is direct now. */
      switchToDirect: (seen: number): boolean => {
        if (started && seen === count) relaying = false
        return !relaying
      },
      /** Registers the only listener. It is called for each row that is left to the relay. */
      onLeftToRelay: (call: () => void): void => {
        listener = call
      },
    }
  }),
}) {
  static readonly layer = Layer.effect(this, this.make)
}
