/**
 * The console in a browser: when its first page is interactive and how many bytes it has, and how a list
 * of many messages scrolls. It starts a hub of its own and fills its read models.
 *
 *   npm run bench -- console [messages]
 */
import type { Browser, Page } from 'playwright-core'
import postgres from 'postgres'
import { startBrowser } from '../test/support/browser.ts'
import { startHub, type TestHub } from '../test/support/hub.ts'
import { FILL_CONNECTION, fillSearch } from './fill-search.ts'
import { latenciesOf, latencyText, percentile } from './numbers.ts'

const DEFAULT_MESSAGES = 1_000_000
/** First pages that are opened, each in a browser profile without a cache. */
const OPENED = 20
const KILOBYTE = 1000
const MEBIBYTE = 2 ** 20

/**
 * Notes the time, since the navigation began, at which the navigation and the heading are painted and the
 * page is free to react, and the time at which the page has its values.
 */
const WATCH = `
  const note = (name, isThere) => {
    const observer = new MutationObserver(() => {
      if (!isThere()) return
      observer.disconnect()
      requestAnimationFrame(() => setTimeout(() => {
        window[name] = performance.now()
        document.documentElement.toggleAttribute(name, true)
      }))
    })
    observer.observe(document, { childList: true, subtree: true, characterData: true })
  }
  const has = (selector) => document.querySelector(selector) !== null
  note('interactiveAt', () => has('nav a') && has('main h1') && has('#search'))
  note('shownAt', () => has('main h1') && !has('main .loading') && has('main a, main table'))`

interface Opened {
  readonly interactive: number
  readonly shown: number
  /** Compressed bytes of the files of the console, with their headers. */
  readonly bytes: number
}

const open = async (page: Page, path: string): Promise<Opened> => {
  await page.addInitScript(WATCH)
  await page.goto(path)
  // The policy of the console forbids to wait for an expression.
  await page.locator('html[interactiveAt][shownAt]').waitFor({ state: 'attached' })
  return page.evaluate(`({
    interactive: window.interactiveAt,
    shown: window.shownAt,
    bytes: [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]
      .filter(({ name }) => !new URL(name).pathname.startsWith('/v1/'))
      .reduce((sum, { transferSize }) => sum + transferSize, 0),
  })`)
}

/** Opens a page in new browser profiles with the session of a viewer. */
const measureOpening = async (
  browser: Browser,
  hub: TestHub,
  path: string,
): Promise<ReadonlyArray<Opened>> => {
  const baseURL = hub.describe().operations_url ?? ''
  const signedIn = await browser.newContext()
  await (await signedIn.newPage()).goto(hub.loginLink('viewer', ['viewer']))
  const storageState = await signedIn.storageState()
  const opened: Array<Opened> = []
  for (let i = 0; i < OPENED; i++) {
    const context = await browser.newContext({ baseURL, storageState })
    opened.push(await open(await context.newPage(), path))
    await context.close()
  }
  await signedIn.close()
  return opened
}

interface Scrolled {
  readonly rows: number
  readonly seconds: number
  /** Milliseconds between two frames, in the order of time. */
  readonly frames: ReadonlyArray<number>
  /** Rows whose place did not follow the one before. */
  readonly gaps: number
}

/** Scrolls to the end of the list, again after each page, until it has this many rows. */
const scrollTo = (page: Page, rows: number): Promise<Scrolled> =>
  page.evaluate(`new Promise((resolve) => {
    const frames = []
    const began = performance.now()
    let [last, seen, gaps] = [began, 0, 0]
    const step = () => {
      const now = performance.now()
      frames.push(now - last)
      last = now
      const places = [...document.querySelectorAll('tbody tr[aria-rowindex]')].map((row) => Number(row.ariaRowIndex) - 1)
      places.forEach((place, i) => { if (i > 0 && place !== places[i - 1] + 1) gaps += 1 })
      seen = Math.max(seen, places.at(-1) ?? 0)
      if (seen >= ${rows}) return resolve({ rows: seen, seconds: (now - began) / 1000, frames, gaps })
      window.scrollTo(0, document.documentElement.scrollHeight)
      requestAnimationFrame(step)
    }
    requestAnimationFrame(step)
  })`)

/** The memory of the page after a garbage collection, and its elements. */
const sizeOf = async (page: Page): Promise<string> => {
  const devTools = await page.context().newCDPSession(page)
  await devTools.send('Performance.enable')
  await devTools.send('HeapProfiler.collectGarbage')
  const { metrics } = await devTools.send('Performance.getMetrics')
  const value = (name: string): number => metrics.find((metric) => metric.name === name)?.value ?? Number.NaN
  return `${(value('JSHeapUsedSize') / MEBIBYTE).toFixed(1)} MiB of JavaScript, ${value('Nodes')} nodes`
}

const framesText = (frames: ReadonlyArray<number>): string => {
  const sorted = frames.toSorted((a, b) => a - b)
  return `a frame takes ${latencyText(latenciesOf(frames), 1)}, the longest ${percentile(sorted, 1).toFixed(0)} ms`
}

export const runConsole = async (
  log: (line: string) => void,
  [given = String(DEFAULT_MESSAGES)]: ReadonlyArray<string>,
): Promise<void> => {
  const messages = Number(given)
  const browser = await startBrowser()
  if ('missing' in browser) throw new Error(browser.missing)
  const hub = await startHub({ operations: true, report: log })
  try {
    const sql = postgres(hub.describe().database_url, {
      max: 2,
      onnotice: () => {},
      connection: FILL_CONNECTION,
    })
    await fillSearch(sql, messages)
    await sql.end()
    log(`filled the read models with ${messages} messages`)

    for (const path of ['/', '/messages']) {
      const opened = await measureOpening(browser, hub, path)
      const bytes = Math.max(...opened.map((one) => one.bytes))
      log(`${path}: interactive ${latencyText(latenciesOf(opened.map((one) => one.interactive)))}`)
      log(`${path}: values shown ${latencyText(latenciesOf(opened.map((one) => one.shown)))}`)
      log(`${path}: ${(bytes / KILOBYTE).toFixed(1)} kB of files, compressed`)
    }

    const context = await browser.newContext({ viewport: { width: 1280, height: 900 } })
    const page = await context.newPage()
    await page.goto(hub.loginLink('viewer', ['viewer']))
    await page.goto(`${hub.describe().operations_url}/messages`)
    await page.locator('tbody tr').first().waitFor()
    log(`the first page: ${await sizeOf(page)}`)
    for (const part of [0.01, 0.1, 0.5, 1]) {
      const rows = Math.floor(messages * part)
      const { frames, gaps, seconds, ...seen } = await scrollTo(page, rows)
      log(`scrolled to row ${seen.rows} in ${seconds.toFixed(1)} s: ${framesText(frames)}, ${gaps} gaps`)
      log(`at row ${seen.rows}: ${await sizeOf(page)}`)
    }
    await context.close()
  } finally {
    await browser.close()
    await hub.stop()
  }
}
