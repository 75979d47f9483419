/**
 * Who publishes the outbox: the flush itself, as long as all goes well, and the relay, as soon as one of its rows was left
 * behind. While the relay has rows of this process to publish, later ones go through it as well, so that no
 * `service` message overtakes an earlier one.
 *
 * Everything here is synchronous: whether a row is published directly is decided and recorded in one step.
 */
import { Context, Layer } from 'effect'

export class OutboxGate extends Context.Service<
  OutboxGate,
  {
    /** True while new rows are to be left to the relay. */
    readonly isHolding: () => boolean
    /** Leaves a row to the relay and wakes it. */
    readonly hold: (row: number) => void
    /** The highest row that waits for the relay (`null` until `limit` was called once), and how many were ever left to it. */
    readonly held: () => { readonly highest: number | null; readonly count: number }
    /** Says which rows were there at the start: up to this one they come first. */
    readonly limit: (row: number) => void
    /** Opens the gate, unless a row was held since `count` was read. True when it is open now. */
    readonly release: (count: number) => boolean
    /** Calls back whenever a row is held. One listener. */
    readonly onHold: (listener: () => void) => void
  }
>()('@hub/command-api/OutboxGate') {
  /** Holds from the start: what an earlier process left behind comes first. */
  static readonly layer: Layer.Layer<OutboxGate> = Layer.sync(OutboxGate, () => {
    let holding = true
    let started = false
    let highest = 0
    let count = 0
    let listener = (): void => {}
    return {
      isHolding: () => holding,
      hold: (row) => {
        highest = Math.max(highest, row)
        holding = true
        count++
        listener()
      },
      held: () => ({ highest: started ? highest : null, count }),
      limit: (row) => {
        highest = Math.max(highest, row)
        started = true
      },
      release: (seen) => {
        if (started && seen === count) holding = false
        return !holding
      },
      onHold: (call) => {
        listener = call
      },
    }
  })
}
