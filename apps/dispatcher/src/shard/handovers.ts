/** The handovers of a shard that are in progress: from the take of a message until its result is in the log. */
import type { Message } from './message.ts'

export class Handovers {
  readonly #counts = new Map<string, number>()
  readonly #unacknowledged = new Set<Message>()

  get count(): number {
    let sum = 0
    for (const count of this.#counts.values()) sum += count
    return sum
  }

  countAt(operator: string): number {
    return this.#counts.get(operator) ?? 0
  }

  /** The number of taken messages whose claim Kafka has not acknowledged yet. */
  get unacknowledged(): number {
    return this.#unacknowledged.size
  }

  begin(message: Message): void {
    message.inHandover = true
    this.#unacknowledged.add(message)
    this.#counts.set(message.route, this.countAt(message.route) + 1)
  }

  claimAppended(message: Message): void {
    this.#unacknowledged.delete(message)
  }

  end(message: Message): void {
    message.inHandover = false
    this.#unacknowledged.delete(message)
    this.#counts.set(message.route, this.countAt(message.route) - 1)
  }
}
