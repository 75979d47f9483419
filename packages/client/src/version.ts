/** The version of this package, for the `User-Agent` header. A test compares it with `package.json`. */
export const VERSION = '0.4.0'
