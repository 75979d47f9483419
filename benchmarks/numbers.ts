/** Percentiles, the median, and the page that the figures end on. */

/** The value below which a share of a sorted list lies. */
export const percentile = (sorted: ReadonlyArray<number>, share: number): number =>
  sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? Number.NaN

/** The middle one, of an even number of values the upper of the two. */
export const median = (values: ReadonlyArray<number>): number =>
  percentile(
    values.toSorted((a, b) => a - b),
    0.5,
  )

export interface Page {
  readonly machine: string
  readonly seconds: number
  readonly rows: ReadonlyArray<readonly [what: string, figure: string, ratio: string]>
  readonly memory: ReadonlyArray<{
    readonly name: string
    readonly atRest: number
    readonly afterLoad: number
  }>
  /** What must hold: `value` at most `bar`. */
  readonly bars: ReadonlyArray<{ readonly what: string; readonly value: number; readonly bar: number }>
}

/** The results page. */
export const fold = (page: Page): string =>
  [
    '# Results',
    '',
    `Written by \`npm run bench\` in ${page.seconds.toFixed(0)} s on ${page.machine}, with servers, apps and load generator on the`,
    'same machine. Absolute figures belong to that machine; what can be compared are the ratios, measured in one run.',
    '',
    '| what | figure | against the limit |',
    '|---|---|---|',
    ...page.rows.map(([what, figure, ratio]) => `| ${what} | ${figure} | ${ratio} |`),
    '',
    '| memory (resident) | at rest | after the load |',
    '|---|---|---|',
    ...page.memory.map(
      ({ afterLoad, atRest, name }) => `| ${name} | ${atRest.toFixed(0)} MiB | ${afterLoad.toFixed(0)} MiB |`,
    ),
    '',
    '| bar | at most | measured | |',
    '|---|---|---|---|',
    ...page.bars.map(
      ({ bar, value, what }) =>
        `| ${what} | ${bar} | ${value.toFixed(1)} | ${value <= bar ? 'held' : '**missed**'} |`,
    ),
    '',
  ].join('\n')
