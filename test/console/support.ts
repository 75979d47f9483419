/** One hub with its operations API, one browser, and a person of each role for the tests of the console. */
import { mkdirSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { encodeId } from '@hub/domain'
import { ROOT } from '@hub/local-stack'
import { eventually } from '@hub/testkit'
import type { Browser, BrowserContext, Locator, Page } from 'playwright-core'
import { startBrowser } from '../support/browser.ts'
import { type Client, send } from '../support/client.ts'
import { startHub, type TestHub } from '../support/hub.ts'
import { type Account, type HubAdmin, makeHubAdmin } from '../support/hub-admin.ts'
import { startWebhookReceiver, type WebhookReceiver } from '../support/webhook-receiver.ts'

export type Role = 'member' | 'viewer' | 'support' | 'moderator' | 'operator' | 'admin'

/** Runs its code if a text is ever used as HTML. Clients and SMS operators write such texts. */
export const SCRIPT = '<img src=x onerror="window.attacked = 1">'

/** Screenshots of the journeys: for people who look at a failed test, and for docs/console.md. */
export const SCREENSHOTS = join(ROOT, '.local/screenshots')

/** Only ends a step that hangs: the machine may be busy. */
export const STEP_WITHIN_MS = 120_000

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

/** WCAG 2.2 AA, and the best practices that axe knows. */
const RULES = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']

/** What a browser tells of its owner. */
interface Profile {
  readonly dark?: boolean
  /** A language of the browser, such as `ru-RU`. */
  readonly locale?: string
}

export interface Console {
  /** A client of the hub. */
  readonly account: Account
  readonly hub: TestHub
  readonly admin: HubAdmin
  readonly receiver: WebhookReceiver
  /** The address of the operations API and the console. */
  readonly url: string
  /** A page of a new browser profile in which a person with these roles is signed in. */
  readonly signIn: (roles: ReadonlyArray<Role>, options?: Profile) => Promise<Page>
  /** A new browser profile without a session. */
  readonly newContext: (options?: Profile) => Promise<BrowserContext>
  readonly close: () => Promise<void>
}

/** Starts a hub and a browser. Returns the reason if no browser runs on this machine. */
export const startConsole = async (): Promise<Console | { readonly missing: string }> => {
  const browser = await startBrowser()
  if ('missing' in browser) return browser
  return startWith(browser)
}

const startWith = async (browser: Browser): Promise<Console> => {
  const receiver = await startWebhookReceiver(200)
  const hub = await startHub({
    // An erasure and a live key need two persons.
    environment: {
      ...receiver.environment,
      HUB_ERASURE_PERSONS: '2',
      HUB_LIVE_KEY_PERSONS: '2',
      // Only requests with a sampled parent are traced. Nothing receives the traces.
      HUB_OTLP_URL: 'http://127.0.0.1:9',
      HUB_TRACE_RATIO: '0',
      HUB_TRACE_URL: 'https://traces.example/{trace_id}',
    },
    apiRps: 10_000,
    operations: true,
  })
  const admin = makeHubAdmin(hub)
  const url = hub.describe().operations_url ?? ''
  const newContext: Console['newContext'] = async ({ dark = false, locale = 'en-GB' } = {}) => {
    const context = await browser.newContext({
      baseURL: url,
      colorScheme: dark ? 'dark' : 'light',
      locale,
      timezoneId: 'Europe/Moscow',
      viewport: { width: 1280, height: 900 },
    })
    context.setDefaultTimeout(STEP_WITHIN_MS)
    return context
  }
  return {
    account: await admin.createAccount(),
    hub,
    admin,
    receiver,
    url,
    newContext,
    signIn: async (roles, options) => {
      const page = await (await newContext(options)).newPage()
      await page.goto(hub.loginLink(roles.join('-'), roles))
      await page.locator('header nav').waitFor()
      return page
    },
    close: async () => {
      await browser.close()
      await admin.close()
      await hub.stop()
      await receiver.close()
    },
  }
}

/** What axe finds on the page, one line for each fault. */
export const accessibilityFaults = async (page: Page): Promise<ReadonlyArray<string>> => {
  await page.evaluate(AXE)
  const { violations } = await page.evaluate<{
    readonly violations: ReadonlyArray<{
      readonly id: string
      readonly help: string
      readonly nodes: ReadonlyArray<{ readonly html: string }>
    }>
  }>(`axe.run(document, { runOnly: { type: 'tag', values: ${JSON.stringify(RULES)} } })`)
  return violations.map(
    ({ help, id, nodes }) => `${id}: ${help}: ${nodes.map(({ html }) => html).join(' | ')}`,
  )
}

/** Keeps a picture of the page. A name may have a folder. */
export const screenshot = async (page: Page, name: string): Promise<void> => {
  const path = join(SCREENSHOTS, `${name}.png`)
  mkdirSync(dirname(path), { recursive: true })
  await page.screenshot({ path, fullPage: true })
}

/** The public id of a live template or sender. */
export const idOf = async (
  { admin }: Pick<Console, 'admin'>,
  kind: 'templates' | 'senders',
  name: string,
): Promise<string> => {
  const [row] = await admin.sql<{ id: string }[]>`
    SELECT id FROM ${admin.sql(`command.${kind}`)} WHERE name = ${name} AND mode = 'live' ORDER BY created_at DESC LIMIT 1`
  if (row === undefined) throw new Error(`there is no live row ${name} in ${kind}`)
  return encodeId(kind === 'templates' ? 'tpl' : 'snd', row.id)
}

/** Waits until a message has its final status. */
export const untilFinal = (client: Client, id: string): Promise<unknown> =>
  eventually(
    async () => {
      const { body } = await client.get(`/v1/messages/${id}`)
      return body.final === true ? body : null
    },
    { withinMs: STEP_WITHIN_MS },
  )

/** Sends a message and waits for its final status. Returns its id. */
export const sendAndWait = async (
  client: Client,
  messageClass: 'otp' | 'service',
  to: string,
  clientRef?: string,
): Promise<string> => {
  const { body, status, text } = await client.post('/v1/messages', send(messageClass, to, clientRef))
  if (status !== 202) throw new Error(`a send was refused with ${status} ${text}`)
  await untilFinal(client, body.id)
  return body.id as string
}

/** Opens the raw reports on the page of a message. */
export const openRawReports = async (page: Page): Promise<void> => {
  await page.getByRole('button', { name: 'Open raw reports' }).click()
  await page.getByRole('dialog').getByLabel('Reason or ticket').fill('Ticket 4712')
  await page.getByRole('dialog').getByRole('button', { name: 'Open raw reports' }).click()
  await page.getByRole('heading', { name: 'Answers and reports of the SMS operator' }).waitFor()
}

/** Types the name that a dialog asks for before an action that cannot be undone. */
export const typeName = async (dialog: Locator): Promise<void> =>
  dialog.getByLabel(/To confirm, type/u).fill((await dialog.locator('.to-type').textContent()) ?? '')

/** Calls the API from a page, with its session and token, as the console does. */
export const callFrom = (
  page: Page,
  path: string,
  body: unknown,
): Promise<{ readonly status: number; readonly code: string | null }> =>
  page.evaluate(`(async () => {
    const me = await (await fetch('/v1/me')).json()
    const answer = await fetch(${JSON.stringify(path)}, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-csrf-token': me.csrf_token },
      body: ${JSON.stringify(JSON.stringify(body))},
    })
    return { status: answer.status, code: (await answer.json()).error?.code ?? null }
  })()`)
