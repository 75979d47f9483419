/** Writes the charts of a page into `benchmarks/charts`. */
import { readdirSync, rmSync, writeFileSync } from 'node:fs'

export interface ChartFile {
  readonly title: string
  /** Relative to `benchmarks`. */
  readonly file: string
}

const CHARTS = new URL('../charts/', import.meta.url)

/** Replaces the charts of a section, `charts/<section>-<number>.svg`. */
export const writeCharts = (
  section: string,
  charts: ReadonlyArray<{ readonly title: string; readonly svg: string }>,
): ReadonlyArray<ChartFile> => {
  for (const name of readdirSync(CHARTS)) {
    if (name.replace(/-\d+\.svg$/u, '') === section) rmSync(new URL(name, CHARTS))
  }
  return charts.map(({ svg, title }, i) => {
    const name = `${section}-${i + 1}.svg`
    writeFileSync(new URL(name, CHARTS), `${svg}\n`)
    return { title, file: `charts/${name}` }
  })
}
