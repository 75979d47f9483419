/** Moderators decide about templates and senders. */
import { describe, expect, it } from 'vitest'
import { type Console, idOf, screenshot } from '../support.ts'

export const moderationTests = (console_: Console): void => {
  const { admin, signIn } = console_
  describe('moderation', () => {
    it('approves and declines with a comment, and shows the second person who decided and when', async () => {
      await admin.addTemplate(console_.account, 'live', {
        name: 'parcel_ready',
        class: 'service',
        body: 'Посылка {{number}} ждёт',
        status: 'pending_moderation',
      })
      await admin.addSender(console_.account, 'live', { name: 'SHOP', status: 'pending' })
      const first = await signIn(['moderator'])
      const second = await signIn(['moderator'])
      const id = await idOf(console_, 'templates', 'parcel_ready')
      for (const page of [first, second]) {
        await page.goto('/moderation/templates')
        await page.getByRole('link', { name: 'parcel_ready' }).click()
        await page.getByRole('heading', { name: 'parcel_ready' }).waitFor()
      }
      await screenshot(first, 'moderation')

      await first.getByRole('button', { name: 'Decline' }).click()
      const dialog = first.getByRole('dialog')
      await dialog.getByLabel('Comment for the client').fill('It names no sender')
      await dialog.getByRole('button', { name: 'Decline' }).click()
      await first.getByText('declined', { exact: true }).waitFor()
      await first.getByText('It names no sender').waitFor()

      // The second person still sees the undecided item, and is told who decided.
      await second.getByRole('button', { name: 'Decline' }).click()
      await second.getByRole('dialog').getByLabel('Comment for the client').fill('It names no sender')
      await second.getByRole('dialog').getByRole('button', { name: 'Decline' }).click()
      await second
        .getByRole('alert')
        .getByText(/already/u)
        .waitFor()

      expect((await console_.account.live.get(`/v1/templates/${id}`)).body).toMatchObject({
        status: 'declined',
        reason: 'It names no sender',
      })

      await first.goto('/moderation/senders')
      await first.getByRole('link', { name: 'SHOP' }).click()
      await first.getByRole('button', { name: 'Approve' }).click()
      await first.getByRole('dialog').getByRole('button', { name: 'Approve' }).click()
      await first.getByText('registered', { exact: true }).waitFor()
      for (const page of [first, second]) await page.context().close()
    })

    it('shows a template whose text cannot be rendered', async () => {
      await admin.addTemplate(console_.account, 'live', {
        name: 'broken_text',
        class: 'service',
        body: 'Order {{order',
        status: 'pending_moderation',
      })
      const page = await signIn(['moderator'])
      await page.goto('/moderation/templates')
      await page.getByRole('link', { name: 'broken_text' }).click()
      await page.getByText('The text cannot be rendered.').waitFor()
      await page.getByRole('button', { name: 'Decline' }).waitFor()
      await page.context().close()
    })
  })
}
