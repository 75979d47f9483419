/** The shape of `results.json`: what `npm run bench` measured. */

/** One requirement: `value` must be at most `atMost`. */
export interface Target {
  readonly what: string
  readonly value: number
  readonly atMost: number
}

export const target = (what: string, value: number, atMost: number): Target => ({ what, value, atMost })

/** What one section of the benchmark measured. */
export interface Section {
  /** Raw figures by name. The generated pages read these. */
  readonly figures: Readonly<Record<string, number>>
  /** Lines of the table in `RESULTS.md`. `ratio` compares with the bare limit of the run. */
  readonly rows: ReadonlyArray<readonly [what: string, figure: string, ratio: string]>
  readonly targets: ReadonlyArray<Target>
}

/** The sections of `RESULTS.md`, in the order in which `npm run bench` measures them. */
export const SECTIONS = ['acceptance', 'dispatching', 'recovery', 'webhooks'] as const
export type SectionName = (typeof SECTIONS)[number]

export interface Results {
  /** Cores, memory and Node version of the machine. */
  readonly machine: string
  readonly seconds: number
  readonly sections: Readonly<Record<SectionName, Section>>
  /** Figures of `disk`, `scaling` and a profile, which have no section. */
  readonly alone: Readonly<Record<string, Readonly<Record<string, number>>>>
}
