/** Webhooks: which attempts failed, what was signed, and how to send it again. */
import { eventually } from '@hub/testkit'
import { describe, expect, it } from 'vitest'
import { freshNumber } from '../../support/hub-admin.ts'
import { eventsIn } from '../../support/webhook-receiver.ts'
import { type Console, screenshot, sendAndWait } from '../support.ts'

/** Only ends a wait that hangs. */

const DAY_MS = 86_400_000

export const webhookTests = ({ admin, receiver, signIn }: Console): void => {
  /** Waits until a batch that begins with this event comes after the first `requests`. */
  const received = (requests: number, event: string): Promise<true> =>
    eventually(() =>
      eventsIn(receiver.received.slice(requests)).some(({ id }) => id === event) ? (true as const) : null,
    )

  describe('webhooks', () => {
    it('shows the attempts of a subscription, the signed body, and sends it again', async () => {
      const account = await admin.createAccount()
      const created = await account.test.post('/v1/webhook_endpoints', { url: receiver.url('/console') })
      expect(created.status).toBe(201)
      await sendAndWait(account.test, 'otp', freshNumber())
      const before = await eventually(() => {
        const requests = receiver.received.filter(({ path }) => path === '/console')
        return requests.length > 0 ? requests : null
      })
      const page = await signIn(['support'])
      await page.goto(`/webhooks?account=${account.id}`)
      await page.getByRole('link', { name: receiver.url('/console') }).click()
      await page.getByRole('heading', { name: 'Attempts' }).waitFor()
      const attempts = page.getByRole('link', { name: /^whd_/u })
      // The fan-out records attempts in groups.
      await eventually(async () => {
        await page.reload()
        await page.getByRole('heading', { name: 'Attempts' }).waitFor()
        await page.getByText('Loading …').waitFor({ state: 'detached' })
        return (await attempts.count()) > 0 ? true : null
      })
      await screenshot(page, 'webhooks')
      await attempts.last().click()
      await page.getByRole('heading', { name: 'Signed body' }).waitFor()
      await page.getByLabel('Exact bytes').check()
      const shown = await page.locator('pre').textContent()
      expect(before.map(({ body }) => body.toString('utf8'))).toContain(shown)
      await screenshot(page, 'attempt')

      const count = receiver.received.length
      await page.getByRole('button', { name: 'Send again' }).click()
      await page.getByRole('dialog').getByRole('button', { name: 'Send again' }).click()
      await page.getByText(/The receiver answered 200/u).waitFor()
      expect(receiver.received.slice(count).map(({ body }) => body.toString('utf8'))).toContain(shown)

      const [event] = JSON.parse(shown ?? '[]') as ReadonlyArray<{ readonly id: string }>
      const batches = receiver.received.length
      await page
        .getByRole('listitem')
        .filter({ hasText: event!.id })
        .getByRole('button', { name: 'Send only this event' })
        .click()
      await page.getByRole('dialog').getByRole('button', { name: 'Send only this event' }).click()
      await page.getByText('The event is queued.').waitFor()
      await received(batches, event!.id)

      await page.getByRole('link', { name: 'Back to the subscription' }).click()
      await page.getByRole('button', { name: 'Send a test delivery' }).click()
      await page.getByRole('dialog').getByRole('button', { name: 'Send a test delivery' }).click()
      await page.getByText(/The receiver answered 200/u).waitFor()

      const beforePeriod = receiver.received.length
      await page.getByRole('button', { name: 'Deliver a period again' }).click()
      const period = page.getByRole('dialog')
      const yesterday = new Date(Date.now() - DAY_MS).toISOString().slice(0, 'YYYY-MM-DDTHH:mm'.length)
      await period.getByLabel('After').fill(yesterday)
      await period.getByRole('button', { name: 'Deliver a period again' }).click()
      await page.getByText('The redelivery is queued').waitFor()
      await received(beforePeriod, event!.id)
      await page.context().close()
    })

    it('shows what failed, and enables a disabled subscription', async () => {
      const account = await admin.createAccount()
      const created = await account.test.post('/v1/webhook_endpoints', { url: receiver.url('/disabled') })
      await admin.sql`UPDATE webhooks.endpoints
        SET status = 'disabled_by_failures', disabled_at = now(), disabled_reason = 'http_status'
        WHERE account = ${account.uuid}`
      const page = await signIn(['support'])
      await page.goto('/webhooks?status=disabled_by_failures')
      await page.getByRole('link', { name: receiver.url('/disabled') }).click()
      await page.getByRole('button', { name: 'Enable' }).click()
      await page.getByRole('dialog').getByRole('button', { name: 'Enable' }).click()
      await page.getByText('enabled', { exact: true }).waitFor()
      const { body } = await account.test.get(`/v1/webhook_endpoints/${created.body.id}`)
      expect(body.status).toBe('enabled')
      await page.context().close()
    })
  })
}
