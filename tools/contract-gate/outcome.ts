/** What the gate tells about an API. Pure. */
import { type Change, isBreaking } from './document.ts'

export interface Outcome {
  /** One line, also for many additions: nobody reads a list of them at each run. */
  readonly note: string
  readonly additions: ReadonlyArray<string>
  /** What makes the gate fail. */
  readonly errors: ReadonlyArray<string>
}

const lineOf = (change: Change): string => `  ${change.rule}: ${change.where}`

export const outcomeOf = ({
  changes,
  folder,
  isStale,
  sinceCommit,
}: {
  readonly folder: string
  /** Since the accepted baseline. */
  readonly changes: ReadonlyArray<Change>
  readonly sinceCommit: ReadonlyArray<Change>
  /** The description differs from its file. */
  readonly isStale: boolean
}): Outcome => {
  const breaks = new Set([...changes, ...sinceCommit].filter(isBreaking).map(lineOf))
  const additions = changes.filter((change) => !isBreaking(change)).map(lineOf)
  const count = additions.length === 0 ? 'no change' : `${additions.length} additive change(s), allowed,`
  return {
    note: `${count} in ${folder} since the accepted baseline.`,
    additions,
    errors: [
      ...(isStale ? [`${folder}/openapi.json is stale. Run: npm run generate`] : []),
      ...(breaks.size === 0
        ? []
        : [
            `${breaks.size} breaking change(s) in ${folder}. Restore the previous definition, or add a new path version.\n${[...breaks].join('\n')}`,
          ]),
    ],
  }
}
