/** The types of parsed JSON. */
import { Predicate, type Schema } from 'effect'

export type Json = Schema.Json

/** A parsed JSON object. All names are own properties, `__proto__` too. */
export interface JsonObject {
  readonly [name: string]: Json
}

export const isJsonObject = (value: unknown): value is JsonObject => Predicate.isObject(value)
