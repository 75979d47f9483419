/**
 * Patch: only the first connection of a process queries the types of arrays.
 *
 * - postgres 3.4.9: each new connection queries these types before its first statement, and no code
 *   awaits the result. If the connection breaks during that query, the rejection is unhandled.
 * - Why the hub needs more: the unhandled rejection ends the process.
 * - Fails without the patch: `pool.int.test.ts`, "a connection that breaks > fails only its callers
 *   if it breaks while it is opened" (an unhandled rejection).
 * - Unnecessary when: the driver handles a failure of its query for array types.
 *
 * The setting `fetch_types: false` alone is not sufficient: the hub reads and writes arrays, and
 * the type numbers of its enumerations differ between databases. The first connections of a process
 * still query the types, so a break in that moment ends a process that has just started.
 *
 * Not patched: postgres 3.4.9 reads a NULL inside an array as the text `NULL`. So no statement may
 * return an array that contains one. The columns with arrays contain none, and `array_agg` is used
 * only with columns that are NOT NULL.
 */
import type postgres from 'postgres'

/** The fields of the driver's options that its types omit. */
interface DriverOptions extends Pick<postgres.ParsedOptions, 'parsers' | 'serializers'> {
  readonly shared: { readonly typeArrayMap: Record<number, number> }
  fetch_types: boolean
}

const optionsOf = (pool: postgres.Sql) => pool.options as unknown as DriverOptions

export class ArrayTypes {
  #known: DriverOptions | null = null

  /** A statement of the pool has a result, so its connection has queried the types before. */
  learnFrom(pool: postgres.Sql): void {
    if (this.#known !== null) return
    this.#known = optionsOf(pool)
    this.#known.fetch_types = false
  }

  /** Gives the known types to a new pool. */
  applyTo(pool: postgres.Sql): void {
    if (this.#known === null) return
    const options = optionsOf(pool)
    options.fetch_types = false
    Object.assign(options.parsers, this.#known.parsers)
    Object.assign(options.serializers, this.#known.serializers)
    Object.assign(options.shared.typeArrayMap, this.#known.shared.typeArrayMap)
  }
}
