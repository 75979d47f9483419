/** Finds unknown variables that look like settings of the hub, and the settings that they may mean. */
import { catalogue } from './catalogue/index.ts'
import { fileVariable } from './secret-file.ts'
import { mayBeInFile } from './setting.ts'

interface UnknownVariable {
  readonly name: string
  /** The most similar setting. */
  readonly nearest: string | null
}

/** Damerau-Levenshtein distance of two texts. */
const distance = (a: string, b: string): number => {
  let before: ReadonlyArray<number> = []
  let last = Array.from({ length: b.length + 1 }, (_, index) => index)
  for (let i = 1; i <= a.length; i++) {
    const row = [i]
    for (let j = 1; j <= b.length; j++) {
      const changed = (last[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1)
      let least = Math.min(changed, (last[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1)
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) {
        least = Math.min(least, (before[j - 2] ?? 0) + 1)
      }
      row.push(least)
    }
    before = last
    last = row
  }
  return last[b.length] ?? 0
}

/** A name is similar if at most this share of its letters differs. */
const MAX_DIFFERENCE = 1 / 3

const PREFIX = /^(?:HUB(?:CTL)?|OTEL)_/u

/** The sentence about an unknown variable. */
export const describeUnknown = ({ name, nearest }: UnknownVariable): string =>
  nearest === null
    ? `${name} is no setting of the hub and has no effect`
    : `${name} is no setting of the hub and has no effect; ${nearest} is`

/** Returns the names that begin like settings, with `HUB_`, `HUBCTL_` or `OTEL_`, and are none. */
export const unknownVariables = (names: ReadonlyArray<string>): ReadonlyArray<UnknownVariable> => {
  const known = new Set(
    catalogue.flatMap((setting) =>
      mayBeInFile(setting) ? [setting.name, fileVariable(setting.name)] : [setting.name],
    ),
  )
  return names
    .filter((name) => PREFIX.test(name) && !known.has(name))
    .sort()
    .map((name) => {
      const near = [...known]
        .map((other) => ({ other, steps: distance(name, other) }))
        .toSorted((a, b) => a.steps - b.steps)[0]
      const isNear = near !== undefined && near.steps <= name.replace(PREFIX, '').length * MAX_DIFFERENCE
      return { name, nearest: isNear ? near.other : null }
    })
}
