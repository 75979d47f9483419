/**
 * The day of the end of a deprecated part, `x-sunset` (`2027-06-30`). A field or parameter with `deprecated: true`
 * needs it, an operation may have it. Until that day, clients may rely on the part, and afterwards until there is a
 * newer version of the path. Pure.
 */
import { isJsonObject, type Json, type JsonObject } from '@hub/contract'
import { additive, breaking, type Change, type Context, resolve } from './document.ts'

/** Days from the announcement to the end. Source: VER-9. */
export const DEPRECATION_DAYS = 90

const SUNSET = 'x-sunset'
const DAY_MS = 86_400_000
const DATE = /^\d{4}-\d{2}-\d{2}$/u

/** The date of the end; `null` without a valid one. */
export const sunsetOf = (part: JsonObject): string | null => {
  const date = part[SUNSET]
  return typeof date === 'string' && DATE.test(date) && !Number.isNaN(Date.parse(date)) ? date : null
}

const isDeprecated = (part: JsonObject): boolean => part['deprecated'] === true

/** A keyword beside a reference wins. A schema may also be `true`. */
const partIn = (document: JsonObject, part: Json | undefined): JsonObject =>
  isJsonObject(part) ? resolve(document, part) : {}

interface Place {
  /** The name of the part in rules: `field` or `parameter`. */
  readonly what: 'field' | 'parameter'
  readonly where: string
}

/**
 * A removed part must have been deprecated, its date must have come, and clients must have a newer
 * version of its path. Source: VER-9.
 */
export const compareSunsetRemoval = (
  { base, hasNewerVersion, today }: Context,
  part: Json | undefined,
  { what, where }: Place,
): Change => {
  const was = partIn(base, part)
  if (!isDeprecated(was)) return breaking(`${what}-removed`, where)
  const sunset = sunsetOf(was)
  if (sunset === null || today < sunset) return breaking(`${what}-removed-too-early`, where)
  return hasNewerVersion
    ? additive(`deprecated-${what}-removed`, where)
    : breaking(`${what}-removed-without-new-version`, where)
}

/** Whether clients learn of the end too late. */
const isTooEarly = (sunset: string, today: string): boolean =>
  Date.parse(sunset) - Date.parse(today) < DEPRECATION_DAYS * DAY_MS

/** The day of the end of a deprecated operation, which may be added later. Source: VER-9. */
export const compareOperationSunset = (
  base: JsonObject,
  next: JsonObject,
  today: string,
  where: string,
): ReadonlyArray<Change> => {
  const [promised, sunset] = [sunsetOf(base), sunsetOf(next)]
  if (sunset === null) {
    if (next[SUNSET] !== undefined) return [breaking('operation-sunset-wrong', where)]
    // Without its day, the operation could be removed at once.
    return promised === null ? [] : [breaking('operation-sunset-withdrawn', where)]
  }
  if (promised !== null) return sunset < promised ? [breaking('operation-sunset-brought-forward', where)] : []
  return [
    isTooEarly(sunset, today)
      ? breaking('operation-sunset-too-early', where)
      : additive('operation-sunset-stated', where),
  ]
}

/** `base` is `undefined` for a part that is new. */
export const compareSunset = (
  context: Context,
  base: Json | undefined,
  next: Json | undefined,
  { what, where }: Place,
): ReadonlyArray<Change> => {
  const [was, is] = [partIn(context.base, base), partIn(context.next, next)]
  if (!isDeprecated(is)) return isDeprecated(was) ? [additive(`${what}-deprecation-withdrawn`, where)] : []
  const sunset = sunsetOf(is)
  if (sunset === null) return [breaking(`${what}-deprecation-without-sunset`, where)]
  const promised = isDeprecated(was) ? sunsetOf(was) : null
  if (promised !== null) return sunset < promised ? [breaking(`${what}-sunset-brought-forward`, where)] : []
  return isTooEarly(sunset, context.today)
    ? [breaking(`${what}-sunset-too-early`, where)]
    : [additive(`${what}-deprecated`, where)]
}
