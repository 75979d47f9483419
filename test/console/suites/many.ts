/** Work with many: downloads of lists. */
import { readFileSync } from 'node:fs'
import type { Page } from 'playwright-core'
import { describe, expect, it } from 'vitest'
import { type Console, sendAndWait } from '../support.ts'

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
}
