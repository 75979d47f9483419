/**
 * The outbox mode of this process: `direct` (the acceptor appends its own records) or `relaying`
 * (the relay appends outbox rows in order). A process changes to relaying when one of its rows
 * stays in the outbox. Until the relay has appended all of these rows, later rows also go through
 * the relay, so that no `service` message overtakes an earlier one.
 *
 * All functions are synchronous: the decision about a row and its registration happen in one step.
 */
import { Context, Layer } from 'effect'

export class OutboxMode extends Context.Service<
  OutboxMode,
  {
    /** True while the process leaves new rows to the relay. */
    readonly isRelaying: () => boolean
    /** Leaves an outbox row to the relay, changes to relaying and wakes the relay. */
    readonly leaveToRelay: (row: number) => void
    /**
     * `highest`: the highest row that the relay must append before direct mode (`null` before
     * `relayExistingRows`). `count`: how many rows were ever left to the relay.
     */
    readonly relayBacklog: () => { readonly highest: number | null; readonly count: number }
    /** Sets the highest row at the start of the process. The relay appends rows up to it first. */
    readonly relayExistingRows: (highest: number) => void
    /** Changes to direct, unless `count` is outdated. True if the mode is direct now. */
    readonly switchToDirect: (count: number) => boolean
    /** Registers the only listener. It is called for each row that is left to the relay. */
    readonly onLeftToRelay: (listener: () => void) => void
  }
>()('@hub/command-api/OutboxMode') {
  /** Starts in relaying mode: rows of an earlier process must be appended first. */
  static readonly layer: Layer.Layer<OutboxMode> = Layer.sync(OutboxMode, () => {
    let relaying = true
    let started = false
    let highest = 0
    let count = 0
    let listener = (): void => {}
    return {
      isRelaying: () => relaying,
      leaveToRelay: (row) => {
        highest = Math.max(highest, row)
        relaying = true
        count++
        listener()
      },
      relayBacklog: () => ({ highest: started ? highest : null, count }),
      relayExistingRows: (row) => {
        highest = Math.max(highest, row)
        started = true
      },
      switchToDirect: (seen) => {
        if (started && seen === count) relaying = false
        return !relaying
      },
      onLeftToRelay: (call) => {
        listener = call
      },
    }
  })
}
