/** Requests of recipients: opt-outs, and an erasure by two persons. */
import { describe, expect, it } from 'vitest'
import { freshNumber } from '../../support/hub-admin.ts'
import { type Console, screenshot, sendAndWait, typeName } from '../support.ts'

export const peopleTests = ({ account, signIn }: Console): void => {
  describe('opt-outs', () => {
    it('are checked by number, recorded and lifted, with their history', async () => {
      const number = freshNumber()
      const page = await signIn(['operator'])
      await page.goto('/opt-outs')
      await page.getByLabel('Phone number, hash or receipt').fill(number)
      await page.getByRole('button', { name: 'Check' }).click()
      await page.getByRole('heading', { name: 'Not opted out' }).waitFor()
      await page.getByRole('button', { name: 'Opt out' }).click()
      await page.getByRole('dialog').getByRole('button', { name: 'Opt out' }).click()
      await page.getByRole('heading', { name: 'Opted out', exact: true }).waitFor()
      await page.getByRole('cell', { name: 'hub staff' }).first().waitFor()
      await screenshot(page, 'opt-outs')
      expect(page.url()).not.toContain(number.slice(1))
      const refused = await account.live.post('/v1/messages', {
        to: number,
        class: 'service',
        template: 'order_ready',
        variables: { order: '1' },
      })
      expect(refused.body.error.code).toBe('recipient_opted_out')

      await page.getByRole('button', { name: 'Lift the opt-out' }).click()
      const dialog = page.getByRole('dialog')
      const lift = dialog.getByRole('button', { name: 'Lift the opt-out' })
      expect(await lift.isDisabled()).toBe(true)
      await typeName(dialog)
      await lift.click()
      await page.getByRole('heading', { name: 'Not opted out' }).waitFor()
      await page.context().close()
    })
  })

  describe('an erasure', () => {
    it('needs two persons, and gives a receipt', async () => {
      const number = freshNumber()
      const id = await sendAndWait(account.test, 'service', number)
      const first = await signIn(['operator'])
      await first.goto('/erasures')
      await first.getByRole('button', { name: 'Erase a recipient' }).click()
      const dialog = first.getByRole('dialog')
      await dialog.getByLabel('Phone number, hash or receipt').fill(number)
      await dialog.getByLabel('Reason or ticket').fill('Letter of 2026-11-20')
      await dialog.getByLabel(/To confirm, type/u).fill('erase')
      await dialog.getByRole('button', { name: 'Erase a recipient' }).click()
      await first.getByText('Another person must confirm it within a week.').waitFor()

      const confirm = async (page: typeof first): Promise<void> => {
        await page.getByRole('button', { name: 'Confirm' }).first().click()
        const form = page.getByRole('dialog')
        await typeName(form)
        await form.getByRole('button', { name: 'Erase a recipient' }).click()
      }
      await confirm(first)
      await first
        .getByRole('dialog')
        .getByText(/Another person must confirm it/u)
        .waitFor()

      const second = await signIn(['operator', 'viewer'])
      await second.goto('/erasures')
      await confirm(second)
      await second.getByRole('heading', { name: 'Receipt' }).waitFor()
      await screenshot(second, 'erasure')
      expect((await account.test.get(`/v1/messages/${id}`)).body).toMatchObject({ to: '', text: null })
      for (const page of [first, second]) await page.context().close()
    })
  })
}
