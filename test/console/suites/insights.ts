/** On call: "codes for one network fail". From the start page to the failed messages and their reason. */
import { eventually } from '@hub/testkit'
import { describe, expect, it } from 'vitest'
import { writeRangeTraffic } from '../../support/range-traffic.ts'
import { accessibilityFaults, type Console, screenshot, sendAndWait, STEP_WITHIN_MS } from '../support.ts'

/** Sandbox numbers, all of the range 900: one that is delivered, and one that is not. */
const DELIVERED = '+79000000001'
const UNREACHABLE = '+79000000002'

export const insightTests = ({ admin, signIn }: Console): void => {
  describe('insights', () => {
    it('lead from the start page to the failed messages of a range', async () => {
      const account = await admin.createAccount()
      const failed = await sendAndWait(account.test, 'otp', UNREACHABLE)
      for (let i = 0; i < 3; i++) await sendAndWait(account.test, 'otp', DELIVERED)
      const page = await signIn(['viewer'])
      await page.keyboard.press('g')
      await page.keyboard.press('i')
      await page.getByRole('heading', { name: 'Insights', level: 1 }).waitFor()
      await page.getByLabel('Account').fill(account.id)
      await page.getByLabel('Mode').selectOption('test')
      await page.getByLabel('Split by').selectOption('range')
      await page.waitForURL(/split=range/u)
      // The projection may be behind the status of the message.
      await eventually(
        async () => {
          await page.reload()
          await page.getByRole('table', { name: 'Delivery rate by range and hour' }).waitFor()
          return (await page.getByText('75 %').count()) > 0
        },
        { withinMs: STEP_WITHIN_MS },
      )
      await screenshot(page, 'insights')
      const groups = page.getByRole('group', { name: 'Split' })
      expect(await groups.getByRole('row', { name: /^900 4/u }).count()).toBe(1)
      await page
        .getByRole('region', { name: 'Failures by reason' })
        .getByRole('link', { name: 'recipient unreachable' })
        .click()
      await page.getByRole('link', { name: failed }).waitFor()
      expect(new URL(page.url()).searchParams.get('reason')).toBe('recipient_unreachable')

      // The same from the cell of the heat map, with the keyboard.
      await page.goBack()
      const cell = page.getByRole('link', { name: /^900, .*: 75 %, 4 messages$/u })
      await cell.focus()
      await page.keyboard.press('Enter')
      await page.getByRole('heading', { name: 'Messages', level: 1 }).waitFor()
      expect(new URL(page.url()).searchParams.get('range')).toBe('900')
      await page.getByRole('link', { name: failed }).waitFor()
      expect(await page.getByRole('link', { name: /^msg_/u }).count()).toBe(4)
      await page.context().close()
    })

    it('begin with what is unusual, and lead to its messages', async () => {
      const account = await admin.createAccount()
      await writeRangeTraffic(admin, {
        account: account.uuid,
        range: '912',
        now: { accepted: 100, delivered: 61 },
        before: { accepted: 100, delivered: 97 },
        hours: 3,
      })
      for (const [locale, sentence] of [
        ['en-GB', /^unusual Since .*\d:00 the delivery rate of range 912 is 61 %, usually 97 %\./u],
        ['ru-RU', /^необычно С .*\d:00 доля доставленных в диапазоне 912 — 61 %, обычно 97 %\./u],
      ] as const) {
        const page = await signIn(['viewer'], { locale })
        await page.goto(`/insights?account=${account.id}`)
        await page.getByRole('listitem').filter({ hasText: sentence }).waitFor()
        expect(await accessibilityFaults(page)).toEqual([])
        await page.getByRole('link', { name: /912$/u }).first().click()
        await page.getByRole('heading', { level: 1 }).waitFor()
        const filters = new URL(page.url()).searchParams
        expect(filters.get('range')).toBe('912')
        expect(filters.get('account')).toBe(account.id)
        await page.context().close()
      }
    })

    it('say what an impossible filter is, and keep the filters', async () => {
      const page = await signIn(['viewer'])
      await page.goto('/insights?split=template')
      await page
        .getByText(/The statistics have templates by day only/u)
        .first()
        .waitFor()
      await page.getByLabel('By', { exact: true }).selectOption('day')
      await page.waitForURL(/by=day/u)
      await page.getByRole('img', { name: /^Delivery rate by day/u }).waitFor()
      await page.goto('/insights?range=12')
      await page.getByRole('alert').waitFor()
      await page.context().close()
    })
  })
}
