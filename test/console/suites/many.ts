/** Work with many: downloads of lists, and saved views. */
import { readFileSync } from 'node:fs'
import type { Page } from 'playwright-core'
import { describe, expect, it } from 'vitest'
import { accessibilityFaults, type Console, screenshot, sendAndWait, typeName } from '../support.ts'

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

export const manyTests = ({ admin, receiver, signIn }: Console): void => {
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
}
