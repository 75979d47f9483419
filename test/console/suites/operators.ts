/** Operators on call and product owners: stuck work, dead letters, accounts and usage. */
import { readFileSync } from 'node:fs'
import { eventually } from '@hub/testkit'
import { describe, expect, it } from 'vitest'
import { freshNumber } from '../../support/hub-admin.ts'
import { type Console, screenshot, sendAndWait } from '../support.ts'

/** Only ends a wait that hangs. */
const WITHIN = { withinMs: 30_000 }

export const operatorTests = ({ account, signIn }: Console): void => {
  describe('stuck work', () => {
    it('shows the consumers, the oldest open messages and what waits', async () => {
      const page = await signIn(['operator'])
      await page.goto('/stuck')
      for (const consumer of ['dispatcher', 'projector', 'webhook-fanout']) {
        await page.getByRole('cell', { name: consumer, exact: true }).waitFor()
      }
      // The dispatcher reports its operators every five seconds.
      await eventually(async () => {
        await page.getByRole('button', { name: 'Reload' }).click()
        return (await page.getByRole('cell', { name: 'sandbox', exact: true }).count()) > 0 ? true : null
      }, WITHIN)
      await page.getByRole('cell', { name: /transceiver \d+ of \d+/u }).waitFor()
      // The findings of hubctl doctor.
      await page.getByRole('cell', { name: 'dead letters', exact: true }).waitFor()
      await page.getByRole('cell', { name: 'PostgreSQL', exact: true }).waitFor()
      await screenshot(page, 'stuck')
      await page.getByRole('link', { name: 'All dead letters' }).click()
      await page.getByText(/There are no dead letters|End of the list/u).waitFor()
      await page.context().close()
    })
  })

  describe('accounts and usage', () => {
    it('shows limits and keys, and exports the usage of the month', async () => {
      await sendAndWait(account.live, 'otp', freshNumber())
      const page = await signIn(['viewer'])
      await page.goto(`/accounts/${account.id}`)
      await page.getByRole('cell', { name: 'api rps' }).waitFor()
      await page.getByText(`…${account.keys.live.slice(-4)}`).waitFor()
      await page.getByRole('link', { name: 'otp_code' }).first().waitFor()
      await screenshot(page, 'account')
      await page.getByRole('main').getByRole('link', { name: 'Usage' }).click()
      await page.getByRole('cell', { name: 'otp_code' }).first().waitFor()
      await screenshot(page, 'usage')
      const [download] = await Promise.all([
        page.waitForEvent('download'),
        page.getByRole('link', { name: 'Download as CSV' }).click(),
      ])
      const lines = readFileSync(await download.path(), 'utf8')
        .trim()
        .split('\n')
      expect(lines[0]).toMatch(/^month,account,name/u)
      expect(lines.some((line) => line.includes(account.id) && line.includes('otp_code'))).toBe(true)
      await page.context().close()
    })
  })
}
