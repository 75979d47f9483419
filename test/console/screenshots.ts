/**
 * Makes the pictures of docs/console.md: runs the journeys of the console, copies their screenshots, and puts those of
 * all pages on one sheet for each theme and width.
 *
 *   node scripts/run.mjs test/console/screenshots.ts [--made]
 *
 * With `--made`, the pictures of the last run of the tests are used.
 */
import { spawnSync } from 'node:child_process'
import { copyFileSync, mkdirSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { ROOT } from '@hub/local-stack'
import type { Browser } from 'playwright-core'
import { startBrowser } from '../support/browser.ts'
import { SCREENSHOTS } from './support.ts'

const PAGE = join(ROOT, 'docs/console.md')
const PICTURES = join(ROOT, 'docs/images/console')
const PAGES = join(SCREENSHOTS, 'pages')

/** Pixels of a sheet, and of the beginning of a page on it. */
const SHEET_WIDTH = 1400
const SIZES = { 1280: { width: 330, height: 232 }, 390: { width: 165, height: 330 } } as const

const sheetOf = (theme: string, width: keyof typeof SIZES): string => {
  const size = SIZES[width]
  const pictures = readdirSync(PAGES)
    .filter((name) => name.endsWith(`-${theme}-${width}.png`))
    .map((name) => {
      const picture = readFileSync(join(PAGES, name)).toString('base64')
      return `<img src="data:image/png;base64,${picture}">`
    })
  return `<style>
    body { margin: 8px; display: flex; flex-wrap: wrap; gap: 8px; background: #888; }
    img { width: ${size.width}px; height: ${size.height}px; object-fit: cover; object-position: top; }
  </style>${pictures.join('')}`
}

const makeSheets = async (browser: Browser): Promise<void> => {
  const page = await browser.newPage({ viewport: { width: SHEET_WIDTH, height: 100 } })
  for (const theme of ['light', 'dark']) {
    for (const width of [1280, 390] as const) {
      await page.setContent(sheetOf(theme, width))
      const path = join(PICTURES, `pages-${theme}-${width}.jpg`)
      await page.screenshot({ path, fullPage: true, type: 'jpeg', quality: 70 })
    }
  }
  await browser.close()
}

if (process.argv[2] !== '--made') {
  const run = spawnSync(process.execPath, [join(ROOT, 'scripts/test.ts'), 'e2e', 'test/console'], {
    cwd: ROOT,
    stdio: 'inherit',
  })
  if (run.status !== 0) process.exit(run.status ?? 1)
}

mkdirSync(PICTURES, { recursive: true })
const names = [...readFileSync(PAGE, 'utf8').matchAll(/\(images\/console\/([a-z-]+)\.png\)/gu)].map(
  ([, name]) => name ?? '',
)
for (const name of names) copyFileSync(join(SCREENSHOTS, `${name}.png`), join(PICTURES, `${name}.png`))
const browser = await startBrowser()
if ('missing' in browser) throw new Error(browser.missing)
await makeSheets(browser)
console.log(`${names.length} pictures and 4 sheets are in ${PICTURES}`)
