/** Operators on call and product owners: stuck work, dead letters, accounts and usage. */
import { readFileSync } from 'node:fs'
import { deadLetterRecord, topicNames } from '@hub/kafka'
import { eventually } from '@hub/testkit'
import { describe, expect, it } from 'vitest'
import { appendRecords } from '../../support/append-records.ts'
import { send } from '../../support/client.ts'
import { freshNumber } from '../../support/hub-admin.ts'
import { readTopic } from '../../support/read-topic.ts'
import { accessibilityFaults, type Console, screenshot, sendAndWait, typeName } from '../support.ts'

/** Only ends a wait that hangs. */

export const operatorTests = ({ account, admin, hub, signIn }: Console): void => {
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
      })
      await page.getByRole('cell', { name: /transceiver \d+ of \d+/u }).waitFor()
      // The findings of hubctl doctor.
      await page.getByRole('cell', { name: 'dead letters', exact: true }).waitFor()
      await page.getByRole('cell', { name: 'PostgreSQL', exact: true }).waitFor()
      await screenshot(page, 'stuck')
      await page.getByRole('link', { name: 'All dead letters' }).click()
      await page.getByText(/There are no dead letters|End of the list/u).waitFor()
      await page.context().close()
    })

    it('retries a dead letter, and drops another one with a reason', async () => {
      await sendAndWait(account.test, 'otp', freshNumber())
      // Records that the consumers have applied, so that they drop the one that is retried.
      const applied = await readTopic(hub.describe().kafka.brokers, topicNames().messages)
      const [retried, dropped] = await appendRecords(
        hub,
        applied.slice(-2).map((record) => deadLetterRecord(record, 'made_by_a_test')),
      ).then((positions) =>
        positions.map(({ offset, partition, topic }) => `${topic}/${partition}/${offset}`),
      )
      const page = await signIn(['operator'])
      await page.goto('/dead-letters')
      await page.getByRole('link', { name: retried!, exact: true }).click()
      await page.getByText('made_by_a_test').first().waitFor()
      await screenshot(page, 'dead-letter')
      const dialog = page.getByRole('dialog')
      await page.getByRole('button', { name: 'Retry' }).click()
      await dialog.getByRole('button', { name: 'Retry' }).click()
      await page.getByText('retried', { exact: true }).waitFor()
      const again = await readTopic(hub.describe().kafka.brokers, topicNames().messages)
      expect(again.filter(({ id }) => id === applied.at(-2)?.id)).toHaveLength(2)

      await page.getByRole('link', { name: 'Back to the dead letters' }).click()
      await page.getByRole('link', { name: dropped!, exact: true }).click()
      await page.getByRole('button', { name: 'Drop' }).click()
      await dialog.getByLabel('Why it needs no retry').fill('Ticket 4713')
      await typeName(dialog)
      await dialog.getByRole('button', { name: 'Drop' }).click()
      await page.getByText('dropped', { exact: true }).waitFor()
      // The list shows only what nobody has handled.
      await page.getByRole('link', { name: 'Back to the dead letters' }).click()
      await page.getByRole('heading', { name: 'Dead letters' }).waitFor()
      await page.getByText(/There are no dead letters|End of the list/u).waitFor()
      expect(await page.getByText('made_by_a_test').count()).toBe(0)
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
      await page
        .getByRole('cell', { name: new Date().toISOString().slice(0, 7) })
        .first()
        .waitFor()
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

    it('changes limits, resets the spend, and issues, rotates, limits and revokes a test key', async () => {
      const own = await admin.createAccount()
      await admin.sql`INSERT INTO command.spend_periods (account, period, spent)
        VALUES (${own.uuid}, date_trunc('month', now() AT TIME ZONE 'UTC')::date, 12.50)`
      const page = await signIn(['operator'])
      await page.goto(`/accounts/${own.id}`)
      await page.getByRole('button', { name: 'Change live settings' }).click()
      const settings = page.getByRole('dialog')
      await settings.getByLabel('weight').fill('7')
      await settings.getByLabel('spend limit').fill('90000')
      await settings.getByRole('button', { name: 'Change', exact: true }).click()
      await page.getByRole('cell', { name: '90000.00 *' }).waitFor()
      await page.getByRole('cell', { name: '7 *' }).waitFor()

      await page.getByText('12.50').waitFor()
      await page.getByRole('button', { name: 'Reset the spend' }).click()
      const reset = page.getByRole('dialog')
      await typeName(reset)
      await reset.getByRole('button', { name: 'Reset the spend' }).click()
      await page.getByText('12.50').waitFor({ state: 'detached' })

      await page.getByRole('button', { name: 'Issue a key' }).click()
      const form = page.getByRole('dialog')
      await form.getByLabel(/Stops working/u).fill('30')
      await form.getByRole('button', { name: 'Issue a key' }).click()
      await page.getByRole('heading', { name: 'The new key' }).waitFor()
      const key = (await page.locator('.revealed code').first().textContent()) ?? ''
      expect(key).toMatch(/^hub_test_/u)
      const row = page.getByRole('row').filter({ hasText: `…${key.slice(-4)}` })
      await row.getByRole('button', { name: 'Networks' }).click()
      const networks = page.getByRole('dialog')
      await networks.getByLabel('Allowed addresses or networks').fill('192.0.2.0/24 2001:db8::/32')
      expect(await accessibilityFaults(page)).toEqual([])
      await networks.getByRole('button', { name: 'Change' }).click()
      await row.getByText('192.0.2.0/24, 2001:db8::/32').waitFor()

      await row.getByRole('button', { name: 'Rotate' }).click()
      const rotation = page.getByRole('dialog')
      expect(await rotation.getByLabel(/works for so many hours more/u).inputValue()).toBe('24')
      expect(await accessibilityFaults(page)).toEqual([])
      await typeName(rotation)
      await rotation.getByRole('button', { name: 'Rotate' }).click()
      await page.getByText('The old key ends').waitFor()
      // The list shows the end of the old key, too.
      const end = (await page.locator('.revealed time').getAttribute('datetime')) ?? ''
      await row.locator(`time[datetime="${end}"]`).waitFor()
      const next = (await page.locator('.revealed code').first().textContent()) ?? ''
      const nextRow = page.getByRole('row').filter({ hasText: `…${next.slice(-4)}` })
      await nextRow.getByText('192.0.2.0/24, 2001:db8::/32').waitFor()
      await nextRow.getByRole('button', { name: 'Networks' }).click()
      await networks.getByLabel('Allow any address').check()
      await networks.getByRole('button', { name: 'Change' }).click()
      await nextRow.getByText('anywhere').waitFor()

      // The old key still works.
      await row.getByRole('button', { name: 'Revoke' }).click()
      const dialog = page.getByRole('dialog')
      const revoke = dialog.getByRole('button', { name: 'Revoke' })
      expect(await revoke.isDisabled()).toBe(true)
      await typeName(dialog)
      await revoke.click()
      await row.getByText('revoked').waitFor()
      await page.context().close()
    })

    it('certifies an account, and issues and rotates a live key by two persons', async () => {
      const own = await admin.createAccount()
      const first = await signIn(['operator'])
      await first.goto(`/accounts/${own.id}`)
      await first.getByRole('button', { name: 'Certify' }).click()
      const checklist = first.getByRole('dialog')
      for (const box of await checklist.getByRole('checkbox').all()) await box.check()
      await checklist.getByRole('button', { name: 'Certify' }).click()
      // The hub has not seen what the account must do first.
      await checklist.getByText(/These points are open/u).waitFor()
      await checklist.getByRole('button', { name: 'Cancel' }).click()
      await admin.sql`INSERT INTO command.certifications (account, granted_by, confirmed)
        VALUES (${own.uuid}, 'a test', '{}')`

      await first.getByRole('button', { name: 'Issue a key' }).click()
      const form = first.getByRole('dialog')
      await form.getByLabel('Mode').selectOption('live')
      await form.getByRole('button', { name: 'Issue a key' }).click()
      await first.getByText('Another person must confirm it within a week.').waitFor()
      const confirm = async (page: typeof first): Promise<void> => {
        await page.getByRole('button', { name: 'Confirm' }).click()
        const dialog = page.getByRole('dialog')
        await typeName(dialog)
        await dialog.getByRole('button', { name: 'Issue the live key' }).click()
      }
      await confirm(first)
      await first
        .getByRole('dialog')
        .getByText(/Another person must confirm it/u)
        .waitFor()

      const second = await signIn(['operator', 'viewer'])
      await second.goto(`/accounts/${own.id}`)
      await confirm(second)
      await second.getByRole('heading', { name: 'The new key' }).waitFor()
      const key = (await second.locator('.revealed code').first().textContent()) ?? ''
      expect(key).toMatch(/^hub_live_/u)

      const old = second.getByRole('row').filter({ hasText: `…${key.slice(-4)}` })
      await old.getByRole('button', { name: 'Rotate' }).click()
      const rotation = second.getByRole('dialog')
      await rotation.getByLabel(/works for so many hours more/u).fill('2')
      await typeName(rotation)
      await rotation.getByRole('button', { name: 'Rotate' }).click()
      await second.getByText('Another person must confirm it within a week.').waitFor()
      await first.reload()
      await first.getByRole('button', { name: 'Confirm' }).click()
      const rotated = first.getByRole('dialog')
      await rotated.getByText(/then ends after 2 h/u).waitFor()
      expect(await accessibilityFaults(first)).toEqual([])
      await typeName(rotated)
      await rotated.getByRole('button', { name: 'Issue the live key' }).click()
      await first.getByText('The old key ends').waitFor()
      expect(await first.locator('.revealed code').first().textContent()).toMatch(/^hub_live_/u)
      await screenshot(first, 'account-keys')
      await second.getByRole('button', { name: 'Withdraw the certification' }).click()
      const dialog = second.getByRole('dialog')
      await typeName(dialog)
      await dialog.getByRole('button', { name: 'Withdraw the certification' }).click()
      await second.getByRole('button', { name: 'Certify' }).waitFor()
      for (const page of [first, second]) await page.context().close()
    })

    // Source: docs/console.md. A batch that begins below the limit is accepted in whole.
    it('shows by how much the day is above its limit', async () => {
      const page = await signIn(['operator'])
      const shown = async () => (await page.request.get('/v1/hub')).json()
      const sendOne = () => account.test.post('/v1/messages', send('otp', freshNumber()))
      try {
        // The limit is reached, so that the batch below is accepted only when the higher limit holds.
        await admin.setHubSettings({ daily_limit: (await shown()).accepted_today })
        await eventually(async () => (await sendOne()).status === 429)
        const { accepted_today: before } = await shown()
        await admin.setHubSettings({ daily_limit: before + 2 })
        const messages = Array.from({ length: 5 }, (_, i) => send('service', freshNumber(), `above-${i}`))
        await eventually(async () => {
          const { body, status } = await account.test.post('/v1/messages/batch', { messages })
          if (status === 202) expect(body.counts).toMatchObject({ accepted: 5, rejected: 0 })
          return status === 202
        })
        expect((await sendOne()).status).toBe(429)
        expect(await shown()).toMatchObject({ accepted_today: before + 5, above_limit: 3 })
        await page.goto('/accounts')
        await page.getByText(`${before + 5}, 3 above the limit`, { exact: true }).waitFor()
      } finally {
        await admin.setHubSettings({})
      }
      await eventually(async () => (await sendOne()).status === 202)
      await page.context().close()
    })

    it('stops the hub, and ends the stop', async () => {
      const page = await signIn(['operator'])
      await page.goto('/accounts')
      await page.getByRole('button', { name: 'Stop the hub' }).click()
      const dialog = page.getByRole('dialog')
      await dialog.getByLabel('For so many minutes').fill('5')
      await dialog.getByLabel(/To confirm, type/u).fill('hub')
      await dialog.getByRole('button', { name: 'Stop the hub' }).click()
      await page.getByText('stopped', { exact: true }).waitFor()
      await page.getByRole('button', { name: 'End the stop' }).click()
      await page.getByRole('dialog').getByRole('button', { name: 'End the stop' }).click()
      await page.getByText('accepts messages', { exact: true }).waitFor()
      // The tests behind this one send messages.
      await eventually(async () => {
        const { status } = await account.test.post('/v1/messages', send('otp', freshNumber()))
        return status === 202 ? true : null
      })
      await page.context().close()
    })
  })
}
