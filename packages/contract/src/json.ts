/** The types of parsed JSON. */
import { Schema } from 'effect'

/** A JSON value. */
export type Json = Schema.Json

/** A JSON object as it was parsed. Every name in it is an own property, `__proto__` too. */
export interface JsonObject {
  readonly [name: string]: Json
}
