/** Support: "the customer got no code". Support finds the message, and sees the reason. */
import { describe, expect, it } from 'vitest'
import { send } from '../../support/client.ts'
import { freshNumber } from '../../support/hub-admin.ts'
import { type Console, openRawReports, screenshot, sendAndWait, untilFinal } from '../support.ts'

/** The sandbox number whose messages are not delivered. */
const UNREACHABLE = '+79000000002'
const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736'

export const messageTests = ({ account, signIn }: Console): void => {
  describe('finding a message', () => {
    it('opens the message of a reference, of an id and of an event directly', async () => {
      const id = await sendAndWait(account.test, 'otp', freshNumber(), 'find-me-1')
      const { body } = await account.test.get('/v1/events?limit=1000')
      const event = body.data.find((one: any) => one.data.object.id === id).id as string
      const page = await signIn(['support'])
      for (const text of ['find-me-1', id, event]) {
        await page.getByRole('searchbox', { name: 'Search' }).fill(text)
        await page.keyboard.press('Enter')
        await page.getByRole('heading', { name: 'Message', exact: true }).waitFor()
        expect(new URL(page.url()).pathname).toBe(`/messages/${id}`)
        await page.goto('/messages')
      }
      await page.context().close()
    })

    it('finds the messages to a number, which is in no address and not in the history', async () => {
      const number = freshNumber()
      await sendAndWait(account.test, 'otp', number, 'by-number-1')
      await sendAndWait(account.test, 'service', number, 'by-number-2')
      const page = await signIn(['support'])
      const addresses: Array<string> = []
      page.on('request', (request) => addresses.push(request.url()))
      await page.getByRole('searchbox', { name: 'Search' }).fill(number)
      await page.keyboard.press('Enter')
      const links = page.getByRole('group', { name: 'Results' }).getByRole('link', { name: /^msg_/u })
      await links.nth(1).waitFor()
      expect(await links.count()).toBe(2)
      await screenshot(page, 'search')
      expect(page.url()).not.toContain(number.slice(1))
      expect(addresses.filter((address) => address.includes(number.slice(1)))).toEqual([])
      // A colleague gets a link with the hash.
      await page.getByRole('link', { name: /recipient hash instead/u }).click()
      await page.waitForURL(/q=[0-9a-f]{64}$/u)
      await links.nth(1).waitFor()
      await page.context().close()
    })

    it('explains why nothing was found', async () => {
      const page = await signIn(['viewer'])
      await page.goto('/search?q=no-such-reference')
      await page.getByText(/No message has this client_ref/u).waitFor()
      await page.goto('/search?q=msg_tooshort')
      await page.getByText(/a character may be missing/u).waitFor()
      await page.context().close()
    })
  })

  describe('the list of messages', () => {
    it('has its filters in the address, which shows a colleague the same list', async () => {
      const id = await sendAndWait(account.test, 'otp', UNREACHABLE)
      const page = await signIn(['viewer'])
      await page.goto('/messages')
      await page.getByLabel('Status').selectOption('undelivered')
      await page.waitForURL(/status=undelivered/u)
      await page.getByLabel('Account').fill(account.id)
      await page.getByRole('button', { name: 'Apply' }).click()
      await page.getByRole('link', { name: id }).waitFor()
      await screenshot(page, 'messages')
      const address = page.url()
      const colleague = await signIn(['viewer'])
      await colleague.goto(address)
      await colleague.getByRole('link', { name: id }).waitFor()
      const rows = colleague.getByRole('group', { name: 'Messages' })
      expect(await rows.getByText('undelivered', { exact: true }).count()).toBeGreaterThan(0)
      expect(await rows.getByText('delivered', { exact: true }).count()).toBe(0)
      await colleague.getByLabel('Reason').selectOption('recipient_blocked')
      await colleague
        .getByText(/No message passes these filters|Searched back to/u)
        .first()
        .waitFor()
      for (const one of [page, colleague]) await one.context().close()
    })
  })

  describe('the timeline of a message', () => {
    it('is found by the request, and shows each step with its time and who performed it', async () => {
      const { body, headers } = await account.live.post(
        '/v1/messages',
        send('otp', freshNumber(), 'order-4711'),
        { traceparent: `00-${TRACE}-00f067aa0ba902b7-01` },
      )
      await untilFinal(account.live, body.id)
      const page = await signIn(['support'])
      const request = headers.get('request-id') ?? ''
      await page.getByRole('searchbox', { name: 'Search' }).fill(request)
      await page.keyboard.press('Enter')
      await page.waitForURL(`**/messages/${body.id}`)
      // The request and the key are links.
      await page.getByRole('link', { name: request }).waitFor()
      await page.getByRole('link', { name: /^key_/u }).waitFor()
      expect(await page.getByRole('link', { name: TRACE }).getAttribute('href')).toBe(
        `https://traces.example/${TRACE}`,
      )
      await page.getByText('The SMS operator reported the delivery.', { exact: true }).waitFor()
      await page.getByText('The SMS operator took the message.', { exact: true }).waitFor()
      await page.getByRole('img', { name: /steps in/u }).waitFor()
      await page.getByText('by dispatcher').first().waitFor()
      await page.getByText('The hub recorded the event message.delivered.', { exact: true }).waitFor()
      // UTC on hover, the time of the viewer (Moscow) on the page.
      const time = page.locator('time').first()
      const [shown, hover] = [await time.textContent(), await time.getAttribute('title')]
      expect(hover).toMatch(/ UTC$/u)
      const hours = (text: string | null): number => Number(text?.slice(11, 13))
      expect((hours(shown) - hours(hover) + 24) % 24).toBe(3)
      await screenshot(page, 'timeline')
      await page.getByLabel('Raw facts').check()
      await page.getByText('"kind": "claimed"').waitFor()
      await page.context().close()
    })

    it('reveals number and text to support, with a reason in the audit trail', async () => {
      const number = freshNumber()
      const id = await sendAndWait(account.test, 'service', number)
      const page = await signIn(['support'])
      await page.goto(`/messages/${id}`)
      await page.getByRole('button', { name: 'Reveal number and text' }).click()
      const dialog = page.getByRole('dialog')
      await dialog.getByLabel('Reason or ticket').fill(`Ticket of ${number}`)
      await dialog.getByRole('button', { name: 'Reveal number and text' }).click()
      // The reason must not contain the number.
      await dialog.getByRole('alert').waitFor()
      await dialog.getByLabel('Reason or ticket').fill('Ticket 4711')
      await dialog.getByRole('button', { name: 'Reveal number and text' }).click()
      await page.getByText(number).waitFor()
      await page.getByText('Заказ A-17 готов').waitFor()
      await page.goto(`/messages/${id}`)
      await page.getByRole('heading', { name: 'Timeline' }).waitFor()
      expect(await page.getByText(number).count()).toBe(0)
      await page.context().close()

      const operator = await signIn(['operator'])
      await operator.goto('/audit?command=messages+reveal')
      const line = operator.getByRole('row', { name: new RegExp(id, 'u') })
      await line.getByText('Ticket 4711').waitFor()
      await line.getByText('support', { exact: true }).first().waitFor()
      expect(await operator.getByText(number).count()).toBe(0)
      await screenshot(operator, 'audit')
      await operator.context().close()
    })

    it('opens the raw reports of the SMS operator', async () => {
      const id = await sendAndWait(account.live, 'otp', freshNumber())
      const page = await signIn(['support'])
      await page.goto(`/messages/${id}`)
      await openRawReports(page)
      await page.locator('pre').first().waitFor()
      await page.context().close()
    })
  })
}
