/**
 * An array as PostgreSQL writes it, of values that need no quotes: ids, numbers, moments, and words of the domain. The driver's own way looks
 * into every value for what must be quoted, which took a twentieth of the projector's time.
 */
export const array = (values: ReadonlyArray<string | number | null>): string =>
  `{${values.map((value) => value ?? 'NULL').join(',')}}`

/** The same of bytes in hexadecimal text. */
export const bytesArray = (values: ReadonlyArray<string>): string =>
  `{${values.map((hex) => `\\\\x${hex}`).join(',')}}`
