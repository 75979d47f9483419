/** All pages of the console with something on them, and what a page must not have: anything that is cut off. */
import { eventually } from '@hub/testkit'
import type { Page } from 'playwright-core'
import { freshNumber } from '../support/hub-admin.ts'
import { type Console, idOf, sendAndWait, STEP_WITHIN_MS } from './support.ts'

/** Longer than what fits into a column of a list. */
const LONG = 'order-2026-11-21-of-the-shop-in-the-north-4711'

interface NamedPage {
  /** The name of its picture. */
  readonly name: string
  readonly address: string
}

/** Makes data, and returns every page of the console. */
export const allPages = async (console_: Console): Promise<ReadonlyArray<NamedPage>> => {
  const { account, receiver } = console_
  const message = await sendAndWait(account.live, 'otp', freshNumber(), LONG)
  const subscription = await account.test.post('/v1/webhook_endpoints', {
    url: receiver.url(`/accessible/${LONG}`),
  })
  const { id } = subscription.body as { readonly id: string }
  const tested = await account.test.post(`/v1/webhook_endpoints/${id}/test`, {})
  const template = await idOf(console_, 'templates', 'otp_code')
  await console_.admin.sql`INSERT INTO command.saved_views (id, name, list, filters, shared, owner_id, owner)
    VALUES (gen_random_uuid(), ${LONG}, 'messages', ${JSON.stringify({ account: account.id, status: 'undelivered' })}::text::jsonb,
            true, 'a test', 'Sam Support') ON CONFLICT DO NOTHING`
  return Object.entries({
    start: '/',
    insights: '/insights?mode=live&split=account',
    'insights-days': '/insights?by=day&split=template',
    'insights-nothing': '/insights?range=999',
    search: '/search',
    'search-nothing': '/search?q=no-such-reference',
    messages: '/messages',
    message: `/messages/${message}`,
    templates: '/moderation/templates',
    senders: '/moderation/senders',
    'senders-decided': '/moderation/senders?status=registered',
    template: `/moderation/templates/${template}`,
    webhooks: '/webhooks',
    webhook: `/webhooks/${id}`,
    attempt: `/attempts/${tested.body.id}`,
    stuck: '/stuck',
    'dead-letters': '/dead-letters',
    accounts: '/accounts',
    account: `/accounts/${account.id}`,
    usage: '/usage',
    'opt-outs': '/opt-outs',
    erasures: '/erasures',
    audit: '/audit',
    views: '/views',
    'not-found': '/nothing',
  }).map(([name, address]) => ({ name, address }))
}

/**
 * Opens a page and waits until everything on it is loaded. A server of a busy machine may answer 503: then the page
 * offers to try again, and is opened again.
 */
export const openPage = async (page: Page, address: string): Promise<void> => {
  await eventually(
    async () => {
      await page.goto(address)
      await page.getByRole('heading', { level: 1 }).waitFor()
      await eventually(async () => (await page.locator('.loading').count()) === 0, {
        withinMs: STEP_WITHIN_MS,
      })
      return (await page.getByRole('alert').count()) === 0
    },
    { withinMs: STEP_WITHIN_MS },
  )
}

/**
 * What is cut off or scrolls sideways, one line for each fault. A text that ends with an ellipsis is none if its
 * title has all of it, and neither is one that is only for screen readers.
 */
const FAULTS = `(() => {
  const faults = []
  const name = (element) =>
    [element.tagName.toLowerCase(), element.getAttribute('class') ?? '', (element.textContent ?? '').slice(0, 40)].join(' ')
  const root = document.documentElement
  if (root.scrollWidth > root.clientWidth) faults.push('the page scrolls sideways: ' + root.scrollWidth + ' px')
  for (const element of document.body.querySelectorAll('*')) {
    const box = element.getBoundingClientRect()
    // Only for screen readers, or not shown.
    if (box.width <= 1 || box.height <= 1 || element.closest('.skip, dialog, title') !== null) continue
    if (element.closest('.stacked thead') !== null) continue
    const style = getComputedStyle(element)
    if (style.visibility === 'hidden') continue
    if (box.right > root.clientWidth + 1 || box.left < -1) faults.push('outside of the window: ' + name(element))
    const hides = ['hidden', 'clip', 'auto', 'scroll'].includes(style.overflowX)
    const isEllipsis = style.textOverflow === 'ellipsis' && element.closest('[title]') !== null
    const isField = ['INPUT', 'SELECT', 'TEXTAREA'].includes(element.tagName)
    if (hides && !isEllipsis && !isField && element.scrollWidth > element.clientWidth + 1) {
      faults.push('cut off or scrolls sideways: ' + name(element))
    }
    if (element.tagName === 'text') {
      const frame = element.ownerSVGElement.getBoundingClientRect()
      const fits = box.left >= frame.left - 1 && box.right <= frame.right + 1 &&
        box.top >= frame.top - 1 && box.bottom <= frame.bottom + 1
      if (!fits) faults.push('cut off in a chart: ' + name(element))
    }
  }
  return faults
})()`

/** Measurements after which a page does not change any more. One is enough, unless the machine is busy. */
const SETTLED_AFTER = 5

/** Sets the width of the window, and returns what is cut off then. */
export const cutOff = async (page: Page, width: number): Promise<ReadonlyArray<string>> => {
  await page.setViewportSize({ width, height: 900 })
  let faults: ReadonlyArray<string> = []
  // Tables and charts measure their place after a change of the window, and then change themselves.
  for (let tries = 0; tries < SETTLED_AFTER; tries++) {
    await page.evaluate('new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))')
    faults = await page.evaluate<ReadonlyArray<string>>(FAULTS)
    if (faults.length === 0) break
  }
  return faults
}
