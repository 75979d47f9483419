/** axe finds no fault on any page, in both themes, and the pages fit on a small screen. */
import { describe, expect, it } from 'vitest'
import { freshNumber } from '../../support/hub-admin.ts'
import { accessibilityFaults, type Console, idOf, sendAndWait } from '../support.ts'

export const accessibilityTests = (console_: Console): void => {
  const { account, receiver, signIn } = console_

  /** Every page, with something on it. */
  const allPages = async (): Promise<ReadonlyArray<string>> => {
    const message = await sendAndWait(account.live, 'otp', freshNumber(), 'accessible-1')
    const subscription = await account.test.post('/v1/webhook_endpoints', {
      url: receiver.url('/accessible'),
    })
    const { id } = subscription.body as { readonly id: string }
    const tested = await account.test.post(`/v1/webhook_endpoints/${id}/test`, {})
    const template = await idOf(console_, 'templates', 'otp_code')
    return [
      '/',
      '/search',
      '/search?q=no-such-reference',
      '/messages',
      `/messages/${message}`,
      '/moderation/templates',
      '/moderation/senders',
      `/moderation/templates/${template}`,
      '/webhooks',
      `/webhooks/${id}`,
      `/attempts/${tested.body.id}`,
      '/stuck',
      '/dead-letters',
      '/accounts',
      `/accounts/${account.id}`,
      '/usage',
      '/opt-outs',
      '/erasures',
      '/audit',
      '/nothing',
    ]
  }

  describe('accessibility', () => {
    it.each([
      ['light', false],
      ['dark', true],
    ])('has no fault on any page in the %s theme', async (_, dark) => {
      const page = await signIn(['admin'], { dark })
      const faults: Array<string> = []
      const errors: Array<string> = []
      page.on('console', (line) => line.type() === 'error' && errors.push(line.text()))
      page.on('pageerror', (error) => errors.push(error.message))
      for (const address of await allPages()) {
        await page.goto(address)
        await page.getByRole('heading', { level: 1 }).waitFor()
        await page.getByText('Loading …').first().waitFor({ state: 'detached' })
        for (const fault of await accessibilityFaults(page)) faults.push(`${address}: ${fault}`)
        // Only tables and charts may be wider than the window.
        await page.setViewportSize({ width: 320, height: 700 })
        const width = await page.evaluate<number>('document.documentElement.scrollWidth')
        if (width > 320) faults.push(`${address}: ${width} px wide in a window of 320 px`)
        await page.setViewportSize({ width: 1280, height: 900 })
      }
      expect(faults).toEqual([])
      expect(errors).toEqual([])
      await page.context().close()
    })
  })
}
