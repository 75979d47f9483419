/** Work with many: downloads of lists, saved views, and actions on many items. */
import { readFileSync } from 'node:fs'
import { deadLetterRecord, topicNames } from '@hub/kafka'
import { eventually } from '@hub/testkit'
import type { Locator, Page } from 'playwright-core'
import { describe, expect, it } from 'vitest'
import { appendRecords } from '../../support/append-records.ts'
import { freshNumber } from '../../support/hub-admin.ts'
import { readTopic } from '../../support/read-topic.ts'
import {
  accessibilityFaults,
  callFrom,
  type Console,
  screenshot,
  sendAndWait,
  STEP_WITHIN_MS,
  typeName,
} from '../support.ts'

/** The sandbox number whose messages are not delivered. */
const UNREACHABLE = '+79000000002'

/** Clicks a link that downloads a file. Returns the name of the file and its lines. */
const download = async (page: Page, name: RegExp | string) => {
  const [file] = await Promise.all([page.waitForEvent('download'), page.getByRole('link', { name }).click()])
  expect(await file.failure()).toBeNull()
  const lines = readFileSync(await file.path(), 'utf8')
    .trimEnd()
    .split('\n')
  return { name: file.suggestedFilename(), lines }
}

export const manyTests = ({ account, admin, hub, receiver, signIn }: Console): void => {
  describe('a download of a list', () => {
    it('has the failed messages of a time, and no others', async () => {
      const account = await admin.createAccount()
      const failed = [
        await sendAndWait(account.test, 'otp', UNREACHABLE, '=1+1'),
        await sendAndWait(account.test, 'otp', UNREACHABLE, 'failed-2'),
      ]
      await sendAndWait(account.test, 'otp', '+79000000001', 'delivered-1')
      const page = await signIn(['viewer'])
      await page.getByRole('link', { name: 'Messages', exact: true }).first().click()
      await page.getByLabel('Account').fill(account.id)
      await page.getByLabel('After').fill('2026-01-01T00:00')
      await page.getByRole('button', { name: 'Apply' }).click()
      await page.waitForURL(/created_after/u)
      await page.getByLabel('Status').selectOption('undelivered')
      await page.waitForURL(/status=undelivered/u)
      await page.getByRole('link', { name: failed[0]! }).waitFor()
      const { lines, name } = await download(page, 'Download as CSV: Messages')
      expect(name).toMatch(/^messages-\d{4}-\d{2}-\d{2}\.csv$/u)
      const columns = lines[0]!.split(',')
      const rows = lines.slice(1).map((line) => line.split(','))
      expect(rows.map((row) => row[columns.indexOf('id')])).toEqual(failed.toReversed())
      expect(rows.map((row) => row[columns.indexOf('status')])).toEqual(['undelivered', 'undelivered'])
      expect(rows.map((row) => row[columns.indexOf('client_ref')])).toEqual(['failed-2', "'=1+1"])
      await page.context().close()
    })

    it('is offered by every list that has rows', async () => {
      const account = await admin.createAccount()
      await account.test.post('/v1/webhook_endpoints', { url: receiver.url('/download') })
      const page = await signIn(['admin'])
      for (const [address, file] of [
        [`/webhooks?account=${account.id}`, 'webhook_endpoints'],
        ['/accounts', 'accounts'],
        ['/moderation/senders?status=registered', 'moderation-senders'],
      ] as const) {
        await page.goto(address)
        const { lines, name } = await download(page, /^Download as CSV/u)
        expect(name.startsWith(`${file}-`), name).toBe(true)
        expect(lines.length, address).toBeGreaterThan(1)
      }
      await page.context().close()
    })
  })

  describe('a saved view', () => {
    /** Saves the list of the page. */
    const save = async (page: Page, name: string, shared: boolean): Promise<void> => {
      await page.getByRole('button', { name: 'Save as view' }).click()
      const dialog = page.getByRole('dialog')
      await dialog.getByLabel('Name').fill(name)
      if (shared) await dialog.getByLabel('Share with all hub staff').check()
      expect(await accessibilityFaults(page)).toEqual([])
      await dialog.getByRole('button', { name: 'Save as view' }).click()
    }
    const row = (page: Page, name: string) =>
      page.getByRole('row').filter({ has: page.getByRole('link', { name, exact: true }) })

    it('opens its list for a colleague, is renamed and deleted', async () => {
      const account = await admin.createAccount()
      const page = await signIn(['support'])
      await page.goto(`/messages?account=${account.id}&status=undelivered`)
      await save(page, 'Failures of a shop', true)
      await page.getByText('Saved:').waitFor()

      const colleague = await signIn(['viewer'])
      await colleague.getByRole('link', { name: 'Saved views' }).click()
      const link = colleague.getByRole('link', { name: 'Failures of a shop', exact: true })
      await link.waitFor()
      expect(await row(colleague, 'Failures of a shop').getByRole('button').count()).toBe(0)
      await link.click()
      await colleague.waitForURL(/\/messages\?/u)
      expect(new URL(colleague.url()).search).toBe(`?account=${account.id}&status=undelivered`)
      await colleague.getByText(/No message passes these filters/u).waitFor()

      await page.goto('/views')
      await row(page, 'Failures of a shop').getByRole('button', { name: 'Rename or share' }).click()
      const change = page.getByRole('dialog')
      await change.getByLabel('Name').fill('Failures of the shop')
      await change.getByRole('button', { name: 'Rename or share' }).click()
      await row(page, 'Failures of the shop').waitFor()
      await screenshot(page, 'views')
      await row(page, 'Failures of the shop').getByRole('button', { name: 'Delete' }).click()
      const dialog = page.getByRole('dialog')
      await typeName(dialog)
      await dialog.getByRole('button', { name: 'Delete' }).click()
      await row(page, 'Failures of the shop').waitFor({ state: 'detached' })
      for (const one of [page, colleague]) await one.context().close()
    })

    it('stays private without the box, and its name is taken once', async () => {
      const page = await signIn(['operator'])
      await page.goto('/audit?command=keys')
      await save(page, 'My keys', false)
      await page.getByText('Saved:').waitFor()
      await save(page, 'my keys', false)
      await page.getByText(/Another view has this name/u).waitFor()
      const colleague = await signIn(['admin'])
      await colleague.goto('/views')
      await colleague.getByRole('heading', { level: 1 }).waitFor()
      await colleague.locator('.loading').waitFor({ state: 'detached' })
      expect(await colleague.getByRole('link', { name: 'My keys' }).count()).toBe(0)
      for (const one of [page, colleague]) await one.context().close()
    })

    it('says what is wrong with a filter that is not valid any more, and after it was deleted', async () => {
      const page = await signIn(['support'])
      await page.goto('/messages?status=undelivered&mode=test')
      await save(page, 'Of another version', false)
      const link = page.getByRole('link', { name: 'Of another version' })
      const address = (await link.getAttribute('href')) ?? ''
      await admin.sql`UPDATE command.saved_views SET filters = '{"status": "lost", "mode": "test"}'
        WHERE name = 'Of another version'`
      await page.goto(address)
      await page.getByText('The value of the filter "status" is not valid any more.').waitFor()
      expect(await accessibilityFaults(page)).toEqual([])
      await page.getByRole('link', { name: 'Open the list without this filter' }).click()
      await page.waitForURL(/\/messages\?mode=test$/u)
      await admin.sql`DELETE FROM command.saved_views WHERE name = 'Of another version'`
      await page.goto(address)
      await page.getByText('There is no such view. Its owner may have deleted it.').waitFor()
      await page.getByRole('link', { name: 'All saved views' }).click()
      await page.getByRole('heading', { name: 'Saved views' }).waitFor()
      await page.context().close()
    })
  })

  describe('an action on many items', () => {
    /** Webhook batches of a new subscription that were delivered, each with one event. */
    const BATCHES = 7

    /** The address of the attempts of a subscription with so many batches. */
    const deliveredBatches = async (name: string): Promise<string> => {
      const account = await admin.createAccount()
      const path = `/many-${name}`
      const made = await account.test.post('/v1/webhook_endpoints', {
        url: receiver.url(path),
        event_types: ['message.accepted'],
      })
      await sendAndWait(account.test, 'otp', freshNumber())
      const { body } = await account.test.get('/v1/events?limit=1000')
      const event = body.data.find(({ type }: any) => type === 'message.accepted').id as string
      const subscription = made.body.id as string
      // One event at a time has a batch of its own.
      const page = await signIn(['support'])
      for (let batch = 1; batch < BATCHES; batch++) {
        const { status } = await callFrom(page, `/v1/webhook_endpoints/${subscription}/redeliver_event`, {
          event,
        })
        expect(status).toBe(200)
      }
      await eventually(
        async () => {
          const address = `/v1/webhook_attempts?webhook_endpoint=${subscription}&status=succeeded`
          const attempts = await (await page.request.get(address)).json()
          return new Set(attempts.data.map((one: any) => one.event_batch)).size === BATCHES
        },
        { withinMs: STEP_WITHIN_MS },
      )
      await page.context().close()
      return `/webhooks/${subscription}?status=succeeded`
    }

    /** Counts, and begins the action of a button. Returns the region with its progress. */
    const begin = async (page: Page, button: string, action: string, items: number) => {
      await page.getByRole('button', { name: button }).click()
      const dialog = page.getByRole('dialog')
      await dialog.getByRole('heading', { name: new RegExp(`\\b${items}\\b`, 'u') }).waitFor()
      const submit = dialog.getByRole('button', { name: action })
      expect(await submit.isDisabled()).toBe(true)
      await typeName(dialog)
      await submit.click()
      await dialog.waitFor({ state: 'detached' })
    }
    const resendAll = (page: Page) => begin(page, 'Send all that match again', 'Send them again', BATCHES)
    const region = (page: Page) => page.getByRole('region', { name: 'Webhook batches sent again' })
    const received = (name: string): number =>
      receiver.received.filter(({ path }) => path === `/many-${name}`).length

    /** Waits for the end. A busy machine may deliver too late: then the failed ones are tried again. */
    const untilDone = async (progress: Locator, done: number, total: number): Promise<void> => {
      await eventually(async () => {
        if ((await progress.getByText('Finished.').count()) === 0) return false
        const again = progress.getByRole('button', { name: /that failed again$/u })
        if ((await again.count()) > 0) await again.click()
        return (await progress.getByText(`${done} of ${total} done`).count()) > 0
      })
      await progress.getByText('Finished.').waitFor()
    }

    it('sends the batches that match the filters again, each with its line in the audit trail', async () => {
      const address = await deliveredBatches('all')
      const before = received('all')
      const page = await signIn(['support'])
      await page.goto(address)
      await resendAll(page)
      // The progress is on every page.
      await page.getByRole('link', { name: 'Messages', exact: true }).first().click()
      await untilDone(region(page), BATCHES, BATCHES)
      expect(received('all')).toBeGreaterThanOrEqual(before + BATCHES)
      expect(await accessibilityFaults(page)).toEqual([])
      await screenshot(page, 'many')
      const [lines] = await admin.sql<
        { count: number }[]
      >`SELECT count(*)::integer AS count FROM command.audit
        WHERE command = 'deliveries resend' AND outcome = 'done'
          AND run IN (SELECT run FROM command.audit WHERE arguments ->> 'subscription' = ${address.split(/[/?]/u)[2]!})`
      expect(lines?.count).toBe(BATCHES)
      await region(page).getByRole('button', { name: 'Close' }).click()
      await region(page).waitFor({ state: 'detached' })
      await page.context().close()
    })

    it('stops, and continues with the others', async () => {
      const address = await deliveredBatches('stopped')
      const page = await signIn(['support'])
      const gate = Promise.withResolvers<void>()
      await page.route(/\/resend$/u, async (route) => {
        await gate.promise
        await route.continue()
      })
      await page.goto(address)
      const asked = page.waitForRequest(/\/resend$/u)
      await resendAll(page)
      await asked
      await region(page).getByRole('button', { name: 'Stop' }).click()
      await region(page).getByText('Stopping after those in progress.').waitFor()
      gate.resolve()
      await region(page).getByText('Stopped. Nothing is in progress.').waitFor()
      const goOn = region(page).getByRole('button', { name: /^Continue with the other \d+$/u })
      expect(Number(/\d+$/u.exec((await goOn.textContent()) ?? '')?.[0])).toBeGreaterThan(0)
      expect(await accessibilityFaults(page)).toEqual([])
      await goOn.click()
      await untilDone(region(page), BATCHES, BATCHES)
      await page.context().close()
    })

    it('says what is done after its page was closed, and continues', async () => {
      const address = await deliveredBatches('closed')
      const page = await signIn(['support'])
      // The answers never come, so the page ends while items are in progress.
      await page.route(/\/resend$/u, () => {})
      await page.goto(address)
      const asked = page.waitForRequest(/\/resend$/u)
      await resendAll(page)
      await asked
      const context = page.context()
      await page.close()
      const later = await context.newPage()
      await later.goto('/messages')
      await region(later)
        .getByText(/^Interrupted: the page was closed/u)
        .waitFor()
      const unknown = region(later).getByText(/^\d were in progress when the page was closed/u)
      const inProgress = Number(((await unknown.textContent()) ?? '')[0])
      expect(await accessibilityFaults(later)).toEqual([])
      const before = received('closed')
      await region(later)
        .getByRole('button', { name: `Continue with the other ${BATCHES - inProgress}` })
        .click()
      await untilDone(region(later), BATCHES - inProgress, BATCHES)
      expect(received('closed')).toBeGreaterThanOrEqual(before + BATCHES - inProgress)
      await context.close()
    })

    it('retries the dead letters that nobody has handled', async () => {
      await sendAndWait(account.test, 'otp', freshNumber())
      // Records that the consumers have applied, so that they drop those that are retried.
      const applied = (await readTopic(hub.describe().kafka.brokers, topicNames().messages)).slice(-3)
      await appendRecords(
        hub,
        applied.map((record) => deadLetterRecord(record, 'many_of_a_test')),
      )
      const page = await signIn(['operator'])
      await page.goto('/dead-letters?topic=hub.messages.v1')
      await begin(page, 'Retry all that match', 'Retry them', applied.length)
      const progress = page.getByRole('region', { name: 'Retry of dead letters' })
      await untilDone(progress, applied.length, applied.length)
      // The list shows only what nobody has handled.
      await page.getByText(/There are no dead letters/u).waitFor()
      await page.context().close()
    })

    it('is not offered to a role that may not do it', async () => {
      const address = await deliveredBatches('forbidden')
      const page = await signIn(['viewer'])
      await page.goto(address)
      await page.getByRole('link', { name: 'Download as CSV: Attempts' }).waitFor()
      expect(await page.getByRole('button', { name: 'Send all that match again' }).count()).toBe(0)
      await page.context().close()
    })
  })
}
