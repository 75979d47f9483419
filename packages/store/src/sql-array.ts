/**
 * Array literals of PostgreSQL for statements that use `unnest`. The values must not need quotes:
 * UUIDs, numbers, timestamps and words of the domain. The driver's own conversion inspects every
 * value, which took a twentieth of the projector's time.
 */

/** An array literal; `null` becomes the element `NULL`. */
export const sqlArray = (values: ReadonlyArray<string | number | boolean | null>): string =>
  `{${values.map((value) => value ?? 'NULL').join(',')}}`

/** An array literal of `bytea` elements, given as hexadecimal texts. */
export const sqlBytesArray = (values: ReadonlyArray<string>): string =>
  `{${values.map((hex) => `\\\\x${hex}`).join(',')}}`
