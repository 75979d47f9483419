/** axe finds no fault on any page, in both themes, and nothing is cut off on a large and on a small screen. */
import { describe, expect, it } from 'vitest'
import { allPages, cutOff, openPage } from '../pages.ts'
import { accessibilityFaults, type Console, screenshot } from '../support.ts'

/** A small laptop, and a phone. */
const LARGE = 1280
const WIDTHS = [LARGE, 390]

/** The smallest width that WCAG 2.2 names (1.4.10). */
const SMALLEST = 320

/** See `openPage`. */
const SERVER_IS_BUSY = /status of 503/u

export const accessibilityTests = (console_: Console): void => {
  describe('accessibility', () => {
    // Colours do not depend on the language, and widths not on the theme.
    it.each([
      ['light', 'en-GB'],
      ['dark', 'ru-RU'],
    ])('has no fault on any page in the %s theme (%s), and nothing is cut off', async (theme, locale) => {
      const page = await console_.signIn(['admin'], { dark: theme === 'dark', locale })
      const faults: Array<string> = []
      const errors: Array<string> = []
      page.on('console', (line) => {
        if (line.type() === 'error' && !SERVER_IS_BUSY.test(line.text())) errors.push(line.text())
      })
      page.on('pageerror', (error) => errors.push(error.message))
      for (const { address, name } of await allPages(console_)) {
        await openPage(page, address)
        for (const width of WIDTHS) {
          for (const fault of await cutOff(page, width)) faults.push(`${address} ${width} px: ${fault}`)
          // Cards are hard to compare: the longest list has its columns side by side on a large screen.
          const stacked = await page.locator('table.stacked').count()
          if (width === LARGE && name === 'messages' && stacked > 0) faults.push(`${address}: rows are cards`)
          for (const fault of await accessibilityFaults(page)) faults.push(`${address} ${width} px: ${fault}`)
          await screenshot(page, `pages/${name}-${theme}-${width}`)
        }
        for (const fault of await cutOff(page, SMALLEST)) faults.push(`${address} ${SMALLEST} px: ${fault}`)
      }
      expect(faults).toEqual([])
      expect(errors).toEqual([])
      await page.context().close()
    })
  })
}
