/** What attackers try: code in texts, foreign forms, prepared sessions and frames. */
import type { Page } from 'playwright-core'
import { describe, expect, it } from 'vitest'
import { freshNumber } from '../../support/hub-admin.ts'
import { type Console, idOf, openRawReports, SCRIPT, sendAndWait } from '../support.ts'

const wasAttacked = (page: Page): Promise<unknown> => page.evaluate('window.attacked ?? null')

export const attackTests = (console_: Console): void => {
  const { account, admin, hub, signIn } = console_
  const operatorWrites = async (behaviour: object): Promise<void> => {
    const { ok } = await fetch(`${hub.describe().operator_url}/behaviour`, {
      method: 'PUT',
      body: JSON.stringify(behaviour),
    })
    expect(ok).toBe(true)
  }
  describe('attacks', () => {
    it('with HTML in the texts of a client run no code', async () => {
      await admin.addTemplate(account, 'live', {
        name: SCRIPT,
        class: 'service',
        body: `${SCRIPT} {{order}}`,
        status: 'pending_moderation',
      })
      const page = await signIn(['admin'])
      await page.goto('/moderation/templates')
      await page.getByText(SCRIPT).first().waitFor()
      await page.getByRole('link', { name: SCRIPT }).click()
      await page.getByRole('heading', { name: SCRIPT }).waitFor()
      expect(await page.getByText(SCRIPT).count()).toBeGreaterThan(1)
      expect(await page.locator('img').count()).toBe(0)
      expect(await wasAttacked(page)).toBeNull()
      await page.context().close()
    })

    it("with HTML in a client_ref, and in the code and the text of an operator's report, run no code", async () => {
      await operatorWrites({ receipt_error: SCRIPT, receipt_text: `${SCRIPT}2` })
      const id = await sendAndWait(account.live, 'otp', freshNumber(), `${SCRIPT}1`)
      await operatorWrites({ receipt_error: null, receipt_text: '' })
      const page = await signIn(['support'])
      await page.goto(`/messages/${id}`)
      await page.getByText(`${SCRIPT}1`).first().waitFor()
      await openRawReports(page)
      await page.getByText(`err:${SCRIPT} text:${SCRIPT}2`).first().waitFor()
      await page.getByLabel('Raw facts').check()
      await page.getByText('"kind": "claimed"').waitFor()
      expect(await page.locator('img').count()).toBe(0)
      expect(await wasAttacked(page)).toBeNull()
      await page.context().close()
    })

    it('with an inline script are stopped by the policy', async () => {
      const page = await signIn(['viewer'])
      const violated = await page.evaluate(`new Promise((resolve) => {
        addEventListener('securitypolicyviolation', (event) => resolve(event.effectiveDirective))
        const script = document.createElement('script')
        script.textContent = 'window.attacked = 1'
        document.body.append(script)
      })`)
      expect(violated).toBe('script-src-elem')
      expect(await wasAttacked(page)).toBeNull()
      await page.context().close()
    })

    it('with a foreign form or without the token change nothing (CSRF)', async () => {
      const page = await signIn(['admin'])
      const id = await idOf(console_, 'templates', 'otp_code')
      const path = `/v1/moderation/templates/${id}/decline`
      const statuses = await page.evaluate(`(async () => {
        const body = JSON.stringify({ reason: 'no' })
        const json = { 'content-type': 'application/json' }
        const send = async (headers) => (await fetch('${path}', { method: 'POST', headers, body })).status
        return [await send(json), await send({ ...json, 'x-csrf-token': 'guess' })]
      })()`)
      expect(statuses).toEqual([403, 403])

      // A page of another site (here: another port and host name) sends a form with the cookie jar of the browser.
      const foreign = await page.context().newPage()
      await foreign.route('http://localhost:1/**', (route) =>
        route.fulfill({
          contentType: 'text/html',
          body: `<form method="post" action="${console_.url}${path}" enctype="text/plain"><input name='{"reason":"no","a":"' value='"}'></form>`,
        }),
      )
      await foreign.goto('http://localhost:1/attack')
      const [answer] = await Promise.all([
        foreign.waitForResponse((response) => response.url().endsWith(path)),
        foreign.evaluate('document.forms[0].submit()'),
      ])
      expect(answer.status()).toBeGreaterThanOrEqual(401)
      expect((await account.live.get(`/v1/templates/${id}`)).body.status).not.toBe('declined')
      await page.context().close()
    })

    it('with a prepared session do not sign in (session fixation)', async () => {
      const context = await console_.newContext()
      const name = `hub_operations_${new URL(console_.url).port}`
      const value = 'a'.repeat(43)
      await context.addCookies([{ name, value, url: console_.url, httpOnly: true, sameSite: 'Strict' }])
      const page = await context.newPage()
      await page.goto(hub.loginLink('viewer', ['viewer']))
      await page.getByRole('navigation', { name: 'Pages' }).waitFor()
      const session = (await context.cookies(console_.url)).find((cookie) => cookie.name === name)
      expect(session).toMatchObject({ httpOnly: true, sameSite: 'Strict', path: '/' })
      expect(session?.value).not.toBe(value)
      // Script cannot read it.
      expect(await page.evaluate('document.cookie')).not.toContain(name)
      await context.close()
    })

    it('with a frame show nothing (clickjacking)', async () => {
      const page = await (await console_.newContext()).newPage()
      const response = await page.goto('/')
      expect(response?.headers()).toMatchObject({
        'x-frame-options': 'DENY',
        'content-security-policy': expect.stringContaining("frame-ancestors 'none'"),
        'referrer-policy': 'no-referrer',
        'x-content-type-options': 'nosniff',
      })
      await page.route('http://localhost:1/**', (route) =>
        route.fulfill({ contentType: 'text/html', body: `<iframe src="${console_.url}/"></iframe>` }),
      )
      await page.goto('http://localhost:1/attack')
      await page.locator('iframe').waitFor()
      // The browser shows its own page of an error instead.
      const [, frame] = page.frames()
      expect(frame?.url()).not.toContain(console_.url)
      await page.context().close()
    })

    it('with a link to another site after the sign-in stay on the console', async () => {
      const page = await (await console_.newContext()).newPage()
      await page.goto(`${console_.url}/login?return_to=https://evil.example/`)
      expect(new URL(page.url()).origin).toBe(console_.url)
      await page.context().close()
    })
  })
}
