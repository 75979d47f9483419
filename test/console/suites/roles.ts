/** What each role must not do: the console does not offer it, and the API refuses it. */
import { describe, expect, it } from 'vitest'
import { callFrom, type Console, idOf, type Role, sendAndWait } from '../support.ts'
import { freshNumber } from '../../support/hub-admin.ts'

interface Forbidden {
  readonly role: Role
  /** A page with the action, and the label of its button. */
  readonly page: string
  readonly button: string
  readonly call: string
  readonly body: unknown
}

export const roleTests = (console_: Console): void => {
  const { account, signIn } = console_

  describe('roles', () => {
    it.each(['viewer', 'support', 'moderator', 'operator'] as const)(
      'a %s gets no action of another role',
      async (role) => {
        const template = await idOf(console_, 'templates', 'otp_code')
        const message = await sendAndWait(account.test, 'otp', freshNumber())
        const all: ReadonlyArray<Forbidden> = [
          ...(['viewer', 'support', 'operator'] as const).map((one) => ({
            role: one,
            page: `/moderation/templates/${template}`,
            button: 'Decline',
            call: `/v1/moderation/templates/${template}/decline`,
            body: { reason: 'no' },
          })),
          ...(['viewer', 'moderator', 'operator'] as const).map((one) => ({
            role: one,
            page: `/messages/${message}`,
            button: 'Reveal number and text',
            call: `/v1/messages/${message}/reveal`,
            body: { reason: 'curious' },
          })),
          ...(['viewer', 'support', 'moderator'] as const).map((one) => ({
            role: one,
            page: '/erasures',
            button: 'Erase a recipient',
            call: '/v1/erasures',
            body: { recipient: freshNumber(), reason: 'no' },
          })),
          ...(['viewer', 'support', 'moderator'] as const).flatMap((one): ReadonlyArray<Forbidden> => [
            {
              role: one,
              page: `/accounts/${account.id}`,
              button: 'Issue a key',
              call: '/v1/keys',
              body: { account: account.id, mode: 'test' },
            },
            {
              role: one,
              page: `/accounts/${account.id}`,
              button: 'Rotate',
              call: '/v1/keys/key_01m7yt89qhe54swwc8wkxj6n8e/rotate',
              body: { overlap_seconds: 0, expires_after_seconds: null },
            },
            {
              role: one,
              page: `/accounts/${account.id}`,
              button: 'Networks',
              call: '/v1/keys/key_01m7yt89qhe54swwc8wkxj6n8e/allowed_addresses',
              body: { allowed_addresses: null },
            },
            {
              role: one,
              page: `/accounts/${account.id}`,
              button: 'Reset the spend',
              call: `/v1/accounts/${account.id}/reset_spend`,
              body: {},
            },
            {
              role: one,
              page: `/accounts/${account.id}`,
              button: 'Certify',
              call: `/v1/accounts/${account.id}/certification`,
              body: { confirmed: [] },
            },
            {
              role: one,
              page: `/accounts/${account.id}`,
              button: 'Issue the live key',
              call: '/v1/key_requests/00000000-0000-4000-8000-000000000000/confirm',
              body: {},
            },
            {
              role: one,
              page: '/dead-letters',
              button: 'Retry all that match',
              call: '/v1/dead_letters/retry',
              body: { id: 'hub.messages.v1.dead-letter/0/0' },
            },
            {
              role: one,
              page: '/accounts',
              button: 'Stop the hub',
              call: '/v1/hub/stop',
              body: { seconds: 0 },
            },
            {
              role: one,
              page: '/insights',
              button: 'Block a range',
              call: `/v1/accounts/${account.id}/ranges/912/block`,
              body: { seconds: 60, reason: 'no' },
            },
          ]),
        ]
        const page = await signIn([role])
        for (const forbidden of all.filter((one) => one.role === role)) {
          await page.goto(forbidden.page)
          await page.getByRole('heading', { level: 1 }).waitFor()
          await page.getByText('Loading …').first().waitFor({ state: 'detached' })
          expect(await page.getByRole('button', { name: forbidden.button }).count(), forbidden.button).toBe(0)
          expect(await callFrom(page, forbidden.call, forbidden.body)).toEqual({
            status: 403,
            code: 'forbidden',
          })
        }
        await page.context().close()
      },
    )

    it('who opens a page without its permission reads whom to ask', async () => {
      const page = await signIn(['viewer'])
      await page.goto('/audit')
      await page.getByText('Your role does not permit this.').waitFor()
      await page.getByText(/operator, admin/u).waitFor()
      await page.context().close()
    })
  })
}
