/** The language, the charts, ids and times, and the head of a table. */
import { describe, expect, it } from 'vitest'
import { freshNumber } from '../../support/hub-admin.ts'
import { openPage } from '../pages.ts'
import { type Console, sendAndWait, STEP_WITHIN_MS } from '../support.ts'

export const appearanceTests = ({ account, signIn, url }: Console): void => {
  describe('the language', () => {
    it('is that of the browser, until the menu chooses another one for all pages', async () => {
      const page = await signIn(['viewer'], { locale: 'ru-RU' })
      await page.getByRole('heading', { name: 'Обзор', level: 1 }).waitFor()
      expect(await page.evaluate('document.documentElement.lang')).toBe('ru')
      await page.goto('/messages?status=undelivered')
      await page.getByLabel('Язык').selectOption('English')
      await page.getByRole('heading', { name: 'Messages', level: 1 }).waitFor()
      expect(await page.evaluate('document.documentElement.lang')).toBe('en')
      // The page and its filters stay.
      expect(page.url()).toBe(`${url}/messages?status=undelivered`)
      await page.goto('/usage')
      await page.getByRole('heading', { name: /^Usage/u, level: 1 }).waitFor()
      await page.context().close()
    })

    it('writes dates, numbers and plural forms', async () => {
      await sendAndWait(account.live, 'otp', freshNumber())
      const page = await signIn(['viewer'], { locale: 'ru-RU' })
      await openPage(page, '/messages')
      await page.getByText(/^Конец списка \(\d+ стро(ка|ки|к)\)\.$/u).waitFor()
      const time = page.locator('tbody time').first()
      expect(await time.textContent()).toMatch(/^(сейчас|.*назад)$/u)
      expect(await time.getAttribute('title')).toMatch(/^\d\d\.\d\d\.\d{4} \d\d:\d\d:\d\d \(.* UTC\)$/u)
      await openPage(page, '/usage')
      await page
        .getByRole('cell', { name: /\d,\d\d RUB$/u })
        .first()
        .waitFor()
      await page.context().close()
    })
  })

  describe('a chart', () => {
    it('shows a minute under the crosshair, hides a series, and has its numbers in a table', async () => {
      await sendAndWait(account.live, 'otp', freshNumber())
      const page = await signIn(['viewer'])
      const chart = page.getByRole('region', { name: 'Codes (otp)' })
      const plot = chart.getByRole('slider')
      await chart.getByRole('button', { name: /^sent [1-9]/u }).waitFor()
      expect(await plot.getAttribute('aria-valuetext')).toMatch(
        /^last hour: sent \d+, delivered \d+, failed \d+$/u,
      )
      await plot.focus()
      await page.keyboard.press('Home')
      await expect
        .poll(() => plot.getAttribute('aria-valuetext'), { timeout: STEP_WITHIN_MS })
        .toMatch(/^\d\d:\d\d: sent \d+/u)
      await chart.locator('.cross').waitFor({ state: 'attached' })
      expect(await plot.getAttribute('aria-valuenow')).toBe('0')
      await plot.hover()
      await expect.poll(() => plot.getAttribute('aria-valuenow'), { timeout: STEP_WITHIN_MS }).not.toBe('0')

      await chart.getByRole('button', { name: /^sent/u }).click()
      await chart.locator('polyline.sent').waitFor({ state: 'detached' })
      await chart.locator('polyline.delivered').waitFor({ state: 'attached' })
      expect(await chart.getByRole('button', { name: /^sent/u }).getAttribute('aria-pressed')).toBe('false')
      await chart.getByText('messages per minute', { exact: true }).waitFor()

      await chart.getByText('Show the numbers').click()
      expect(await chart.getByRole('row').count()).toBe(61)
      await page.context().close()
    })
  })

  describe('a list', () => {
    it('shortens an id, copies the whole of it, and names the account', async () => {
      const id = await sendAndWait(account.test, 'otp', freshNumber())
      const page = await signIn(['viewer'])
      await page.context().grantPermissions(['clipboard-read', 'clipboard-write'])
      await openPage(page, '/messages')
      const row = page.getByRole('row', { name: new RegExp(id, 'u') })
      const link = row.getByRole('link', { name: id, exact: true })
      expect(await link.getAttribute('title')).toBe(id)
      // A whole id is 30 characters wide.
      expect((await link.boundingBox())?.width).toBeLessThan(150)
      await row.getByRole('button', { name: `Copy ${id}` }).click()
      await page.getByRole('status').getByText('Copied.').waitFor()
      expect(await page.evaluate('navigator.clipboard.readText()')).toBe(id)
      const name = () => row.locator(`a[href="/accounts/${account.id}"]`).textContent()
      await expect.poll(name, { timeout: STEP_WITHIN_MS }).toMatch(/^Test account/u)
      await page.context().close()
    })

    it('keeps the head of its table in sight', async () => {
      for (let i = 0; i < 5; i++) await sendAndWait(account.test, 'otp', freshNumber())
      const page = await signIn(['viewer'])
      await openPage(page, '/messages')
      await page.setViewportSize({ width: 1280, height: 400 })
      await page.evaluate('window.scrollTo(0, document.body.scrollHeight)')
      const head = await page.getByRole('columnheader').first().boundingBox()
      const first = await page.getByRole('cell').first().boundingBox()
      expect(head?.y).toBe(0)
      expect(first?.y).toBeLessThan(0)
      await page.context().close()
    })

    it('shows its month in the field of the month', async () => {
      const page = await signIn(['viewer'])
      await openPage(page, '/usage')
      expect(await page.getByLabel('Month (UTC)').inputValue()).toBe(new Date().toISOString().slice(0, 7))
      await page.context().close()
    })
  })
}
