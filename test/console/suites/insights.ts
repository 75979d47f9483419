/** On call: "codes for one network fail". From the start page to the failed messages and their reason. */
import { eventually } from '@hub/testkit'
import type { Locator, Page } from 'playwright-core'
import { describe, expect, it } from 'vitest'
import { send } from '../../support/client.ts'
import { freshNumber } from '../../support/hub-admin.ts'
import { writeRangeTraffic } from '../../support/range-traffic.ts'
import { accessibilityFaults, type Console, screenshot, sendAndWait, STEP_WITHIN_MS } from '../support.ts'

/** Sandbox numbers, all of the range 900: one that is delivered, and one that is not. */
const DELIVERED = '+79000000001'
const UNREACHABLE = '+79000000002'

/** Reloads until a part of the page is shown, or no longer: a read of a busy server can fail. */
const shown = (page: Page, part: Locator, expected: boolean) =>
  eventually(
    async () => {
      await page.reload()
      await page.getByRole('heading', { level: 1 }).waitFor()
      await eventually(async () => (await page.locator('.loading').count()) === 0, {
        withinMs: STEP_WITHIN_MS,
      })
      return (await part.count()) > 0 === expected
    },
    { withinMs: STEP_WITHIN_MS },
  )

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
        await shown(page, page.getByRole('listitem').filter({ hasText: sentence }), true)
        expect(await accessibilityFaults(page)).toEqual([])
        await page.getByRole('link', { name: /912$/u }).first().click()
        await page.getByRole('heading', { level: 1 }).waitFor()
        const filters = new URL(page.url()).searchParams
        expect(filters.get('range')).toBe('912')
        expect(filters.get('account')).toBe(account.id)
        await page.context().close()
      }
    })

    it('lead from an attack to the block of its range, and back', async () => {
      const account = await admin.createAccount()
      const number = () => freshNumber().replace(/^\+7\d{3}/u, '+7912')
      for (const range of ['910', '911', '912', '913']) {
        const usual = { accepted: 30, delivered: 29 }
        const now = range === '912' ? { accepted: 400, delivered: 120 } : usual
        await writeRangeTraffic(admin, { account: account.uuid, range, now, before: usual, hours: 3 })
      }
      const codeOf = async (): Promise<string> => {
        const { body } = await account.live.post('/v1/messages', send('otp', number()))
        return (body as { error?: { code: string } }).error?.code ?? 'accepted'
      }
      const page = await signIn(['operator'])
      await page.keyboard.press('g')
      await page.keyboard.press('i')
      const suspicious = page.getByRole('region', { name: 'Suspicious requests' })
      // Three hours, or two if the hour has just begun.
      const row = suspicious.getByRole('row', { name: /912 (?:1,200|800) \d+ 30 % 96\.7 %/u })
      await shown(page, row, true)
      expect(await accessibilityFaults(page)).toEqual([])
      await screenshot(page, 'suspicious-requests')
      await row.getByRole('button', { name: 'Block' }).click()
      const dialog = page.getByRole('dialog')
      await dialog.getByLabel('Hours').fill('12')
      await dialog.getByLabel('Reason').fill('Attack on the sign-up form')
      expect(await accessibilityFaults(page)).toEqual([])
      await dialog.getByRole('button', { name: 'Block' }).click()
      await dialog.waitFor({ state: 'detached' })
      const blocks = page.getByRole('group', { name: 'Blocked ranges' })
      const blocked = blocks.getByRole('row').filter({ hasText: 'Attack on the sign-up form' })
      await shown(page, blocked, true)
      await shown(page, row.getByText('blocked', { exact: true }), true)
      expect(await accessibilityFaults(page)).toEqual([])
      await eventually(async () => (await codeOf()) === 'recipient_range_blocked', {
        withinMs: STEP_WITHIN_MS,
      })

      // A viewer sees it and changes nothing.
      const viewer = await signIn(['viewer'])
      await viewer.goto('/insights')
      await shown(viewer, viewer.getByRole('group', { name: 'Blocked ranges' }), true)
      expect(await viewer.getByRole('button', { name: /^(?:Block|Lift)/u }).count()).toBe(0)
      await viewer.context().close()

      await blocked.getByRole('button', { name: 'Lift' }).click()
      await dialog.getByRole('button', { name: 'Lift' }).click()
      await dialog.waitFor({ state: 'detached' })
      await shown(page, blocked, false)
      await eventually(async () => (await codeOf()) === 'accepted', { withinMs: STEP_WITHIN_MS })
      const trail = await admin.sql`
        SELECT command FROM command.audit
         WHERE arguments->>'account' = ${account.id} AND outcome = 'done' ORDER BY place`
      expect(trail.map(({ command }) => command)).toEqual(['ranges block', 'ranges unblock'])
      await page.context().close()
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
