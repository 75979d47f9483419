/** Engineers of a client: they see their account, and nothing of another one. */
import { describe, expect, it } from 'vitest'
import { cutOff, openPage } from '../pages.ts'
import { freshNumber } from '../../support/hub-admin.ts'
import { accessibilityFaults, callFrom, type Console, idOf, screenshot, sendAndWait } from '../support.ts'

const IDENTITY = 'link|member'

export const memberTests = (console_: Console): void => {
  const { account, admin, signIn } = console_

  describe('a member', () => {
    it('gets an account from hub staff, works with it, and sees no other', async () => {
      const other = await admin.createAccount()
      const theirs = await sendAndWait(other.live, 'service', freshNumber())
      const own = await sendAndWait(account.live, 'service', freshNumber())
      const staff = await signIn(['operator'])
      const page = await signIn(['member'])

      // Without an account, the page says what to do.
      await page.getByRole('heading', { name: 'Your accounts' }).waitFor()
      await page.getByText('You are a member of no account.').waitFor()
      await page.getByText(IDENTITY).waitFor()
      expect(await accessibilityFaults(page)).toEqual([])
      const added = { account: account.id, person: IDENTITY, name: 'Max of the shop' }
      expect(await callFrom(staff, '/v1/members', added)).toEqual({ status: 200, code: null })

      await page.reload()
      await page.locator(`a[href="/accounts/${account.id}"]`).first().waitFor()
      await screenshot(page, 'member-start')
      expect(await page.getByRole('link', { name: 'Stuck work' }).count()).toBe(0)
      expect(await page.getByRole('link', { name: 'Audit trail' }).count()).toBe(0)

      const template = await idOf(console_, 'templates', 'otp_code')
      for (const address of [
        '/',
        '/insights',
        '/messages',
        `/messages/${own}`,
        '/moderation/templates',
        '/moderation/senders?status=registered',
        '/webhooks',
        '/accounts',
        `/accounts/${account.id}`,
        '/usage',
        '/search?q=no-such-reference',
      ]) {
        await openPage(page, address)
        expect(await page.getByText('Your role does not permit this.').count(), address).toBe(0)
        expect(await page.getByText(other.id).count(), address).toBe(0)
        expect(await accessibilityFaults(page), address).toEqual([])
        expect(await cutOff(page, 1280), address).toEqual([])
      }
      await page.goto('/messages')
      await page.locator(`a[href="/messages/${own}"]`).first().waitFor()
      expect(await page.locator(`a[href="/messages/${theirs}"]`).count()).toBe(0)

      // The message of another client is like one that does not exist.
      await page.goto(`/messages/${theirs}`)
      await page.getByText(`There is no message ${theirs}.`).waitFor()
      await page.goto(`/search?q=${theirs}`)
      await page.getByText('The hub has nothing with this id.').waitFor()
      for (const [path, body] of [
        [`/v1/messages/${theirs}/reveal`, { reason: 'curious' }],
        [`/v1/moderation/templates/${template}/approve`, {}],
        ['/v1/keys', { account: account.id, mode: 'test' }],
        ['/v1/members', { ...added, account: other.id }],
        [`/v1/accounts/${account.id}/reset_spend`, {}],
      ] as const) {
        expect(await callFrom(page, path, body), path).toEqual({ status: 403, code: 'forbidden' })
      }

      // The account is taken away while the page is open.
      const { name: _, ...removed } = added
      expect(await callFrom(staff, '/v1/members/remove', removed)).toEqual({ status: 200, code: null })
      await page.goto(`/messages/${own}`)
      await page.getByText(`There is no message ${own}.`).waitFor()
      await page.context().close()
      await staff.context().close()
    })
  })
}
