/**
 * How equally accounts that all wait share an operator: Jain's index over the last minute. Pure.
 *
 * Source: R. Jain, D. Chiu, W. Hawe, "A Quantitative Measure of Fairness and Discrimination for
 * Resource Allocation in Shared Computer Systems", DEC-TR-301, 1984.
 */

/** The number of samples, one for each second. */
const SAMPLES = 60

/** 1 if all have the same, 1/n if one of n has everything. */
export const jainIndex = (values: ReadonlyArray<number>): number => {
  let sum = 0
  let squares = 0
  for (const value of values) {
    sum += value
    squares += value * value
  }
  return squares === 0 ? 1 : (sum * sum) / (values.length * squares)
}

interface Account {
  /** What it had in each second, as a ring. */
  readonly amounts: Float64Array
  /** The samples in a row in which it waited. */
  waited: number
}

export class FairnessWindow {
  readonly #accounts = new Map<string, Account>()
  #second = 0

  /** The operator has accepted a message. `amount`: its parts, divided by the weight of the account. */
  accepted(account: string, amount: number): void {
    this.#of(account).amounts[this.#second]! += amount
  }

  /**
   * A second has passed. `waiting`: the accounts with waiting messages. Returns the index of those
   * that waited all the time; 1 if there are fewer than two. Others had all that they asked for.
   */
  sample(waiting: ReadonlySet<string>): number {
    for (const account of waiting) this.#of(account)
    const amounts: Array<number> = []
    for (const [name, account] of this.#accounts) {
      account.waited = waiting.has(name) ? account.waited + 1 : 0
      const sum = account.amounts.reduce((total, amount) => total + amount, 0)
      if (account.waited >= SAMPLES) amounts.push(sum)
      else if (account.waited === 0 && sum === 0) this.#accounts.delete(name)
    }
    this.#second = (this.#second + 1) % SAMPLES
    for (const { amounts: ring } of this.#accounts.values()) ring[this.#second] = 0
    return jainIndex(amounts)
  }

  #of(name: string): Account {
    let account = this.#accounts.get(name)
    if (account === undefined) {
      account = { amounts: new Float64Array(SAMPLES), waited: 0 }
      this.#accounts.set(name, account)
    }
    return account
  }
}
