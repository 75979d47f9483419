/** The session, the keyboard, and an API that does not answer. */
import { describe, expect, it } from 'vitest'
import { accessibilityFaults, type Console, screenshot, STEP_WITHIN_MS } from '../support.ts'

export const sessionTests = ({ admin, hub, signIn }: Console): void => {
  describe('the start page', () => {
    it('shows live values, and each number links to its list', async () => {
      const page = await signIn(['viewer'])
      await page.getByRole('heading', { name: 'Overview' }).waitFor()
      await page.getByRole('link', { name: /Templates in moderation/u }).waitFor()
      await screenshot(page, 'start')
      await page.getByRole('link', { name: /Templates in moderation/u }).click()
      await page.getByRole('heading', { name: 'Moderation' }).waitFor()
      expect(new URL(page.url()).pathname).toBe('/moderation/templates')
      await page.context().close()
    })
  })

  describe('the session', () => {
    it('that ended while a page was open leads to the sign-in, and then back to the page', async () => {
      const page = await signIn(['moderator'])
      await page.goto('/moderation/senders?status=registered')
      await page.getByRole('heading', { name: 'Moderation' }).waitFor()
      // A list that is still loading would show the sign-in before the click.
      await page.getByText('End of the list').waitFor()
      await admin.sql`UPDATE command.operations_sessions SET ended_at = now()`
      await page.getByRole('link', { name: 'Templates' }).click()
      await page.getByRole('heading', { name: 'Your session has ended' }).waitFor()
      expect(await accessibilityFaults(page)).toEqual([])
      await page.goto(hub.loginLink('moderator', ['moderator']))
      await page.getByRole('heading', { name: 'Moderation' }).waitFor()
      expect(new URL(page.url()).pathname).toBe('/moderation/templates')
      await page.context().close()
    })

    it('ends with the sign-out, also for the cookie of the browser', async () => {
      const page = await signIn(['viewer'])
      const cookies = await page.context().cookies()
      await page.getByRole('button', { name: 'Sign out' }).click()
      await page.getByRole('heading', { name: 'Sign in' }).waitFor()
      await page.context().addCookies(cookies)
      await page.goto('/messages')
      await page.getByRole('heading', { name: 'Sign in' }).waitFor()
      await page.context().close()
    })

    it('shows that the API does not answer, and continues when it does', async () => {
      const page = await signIn(['moderator'])
      await page.getByRole('heading', { name: 'Overview' }).waitFor()
      hub.operationsApi().kill('SIGKILL')
      await hub.operationsApi().exited()
      await page.getByRole('link', { name: 'Moderation', exact: true }).click()
      await page.getByText('The API does not answer.').waitFor()
      expect(await accessibilityFaults(page)).toEqual([])
      await hub.operationsApi().restart()
      await hub.operationsApi().waitReady()
      await page.getByRole('button', { name: 'Try again' }).click()
      await page.getByText(/Nothing waits for a decision|End of the list/u).waitFor()
      await page.context().close()
    })
  })

  describe('the keyboard', () => {
    it('opens the search, the help and pages, and can be turned off', async () => {
      const page = await signIn(['viewer'])
      await page.getByRole('heading', { name: 'Overview' }).waitFor()
      await page.keyboard.press('/')
      await expect.poll(() => page.evaluate('document.activeElement.id')).toBe('search')
      await page.keyboard.type('g')
      await page.keyboard.press('Escape')
      await page.evaluate('document.activeElement.blur()')
      await page.keyboard.press('?')
      await page.getByRole('dialog').getByText('Keyboard and times').waitFor()
      expect(await accessibilityFaults(page)).toEqual([])
      await page.keyboard.press('Escape')
      // On a busy machine, the second key can come too late.
      const opensModeration = async () => {
        await page.keyboard.press('g')
        await page.keyboard.press('t')
        return page.getByRole('heading', { name: 'Moderation' }).isVisible()
      }
      await expect.poll(opensModeration, { timeout: STEP_WITHIN_MS }).toBe(true)
      // The heading has the focus, so a screen reader announces the page.
      await expect.poll(() => page.evaluate('document.activeElement.textContent')).toBe('Moderation')
      await page.keyboard.press('?')
      await page.getByLabel('Keyboard shortcuts are on').uncheck()
      await page.getByRole('button', { name: 'Close' }).click()
      await page.keyboard.press('?')
      expect(await page.getByRole('dialog').count()).toBe(0)
      await page.context().close()
    })
  })
}
