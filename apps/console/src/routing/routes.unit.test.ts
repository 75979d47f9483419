import { describe, expect, it } from 'vitest'
import {
  exportPath,
  filtersOf,
  isPhoneNumber,
  matchRoute,
  pageOfId,
  returnAddress,
  ROUTES,
  withFilters,
} from './routes.ts'

const ID = '06e9c2v5k4r8x1m7n3p0q2s6tw'

describe('routes', () => {
  it('every pattern leads to its screen', () => {
    for (const { pattern, screen } of ROUTES) {
      expect(matchRoute(pattern.replaceAll(/:\w+/gu, 'x'))?.screen).toBe(screen)
    }
  })

  it('contain decoded parameters, and ignore a slash at the end', () => {
    expect(matchRoute('/messages/msg_1')).toEqual({ screen: 'message', params: { id: 'msg_1' } })
    expect(matchRoute('/moderation/templates/a%20b/')).toEqual({
      screen: 'moderationItem',
      params: { kind: 'templates', id: 'a b' },
    })
  })

  it('of nothing are null', () => {
    for (const path of ['/nothing', '/messages/a/b', '/messages//', '/messages/%E0%A4%A', '//evil.example']) {
      expect(matchRoute(path), path).toBeNull()
    }
  })
})

describe('filters', () => {
  it('survive the way through an address', () => {
    const filters = { status: 'rejected', template: 'a&b=c d', created_after: '2026-11-21T09:30:00.000Z' }
    const address = withFilters('/messages', filters)
    expect(filtersOf(address.slice('/messages'.length), Object.keys(filters))).toEqual(filters)
  })

  it('have one order, so that equal lists have equal addresses', () => {
    expect(withFilters('/messages', { b: '2', a: '1', c: '', d: null })).toBe('/messages?a=1&b=2')
    expect(withFilters('/messages', {})).toBe('/messages')
  })

  it('that the list does not know are left out', () => {
    expect(filtersOf('?status=sent&evil=1&mode=', ['status', 'mode'])).toEqual({ status: 'sent' })
  })
})

describe('the export of a list', () => {
  it('has its filters, and all of its pages', () => {
    expect(exportPath('/v1/messages?limit=100&status=sent&template=a%26b')).toBe(
      '/v1/messages.csv?status=sent&template=a%26b',
    )
    expect(exportPath('/v1/accounts?limit=100')).toBe('/v1/accounts.csv')
  })
})

describe('ids', () => {
  it('lead to the page of what they identify', () => {
    expect(pageOfId(`msg_${ID}`)).toBe(`/messages/msg_${ID}`)
    expect(pageOfId(`bat_${ID}`)).toBe(`/messages?batch=bat_${ID}`)
    expect(pageOfId(`we_${ID}`)).toBe(`/webhooks/we_${ID}`)
    expect(pageOfId(`whd_${ID}`)).toBe(`/attempts/whd_${ID}`)
    expect(pageOfId(`req_${ID}`)).toBe(`/search?q=req_${ID}`)
  })

  it('are no other text', () => {
    for (const text of ['order-1', 'msg_', `msg_${ID}x`, `MSG_${ID}`, '', `<b>msg_${ID}`]) {
      expect(pageOfId(text), text).toBeNull()
    }
  })
})

describe('phone numbers', () => {
  it('are recognised in the forms that people type', () => {
    for (const text of ['+79001234567', '+7 (900) 123-45-67', '89001234567', ' +7900 1234567 ']) {
      expect(isPhoneNumber(text), text).toBe(true)
    }
  })

  it('do not become part of an address if they are pasted from a page or a contact', () => {
    for (const text of [
      '(900) 123-45-67',
      '8.900.123.45.67',
      '+7\u00a0900\u00a0123\u201345\u201367',
      'tel:+79001234567',
      'Anna, 8 900 123-45-67',
    ]) {
      expect(isPhoneNumber(text), text).toBe(true)
    }
  })

  it('are no other text', () => {
    for (const text of ['order-79001234567', `msg_${ID}`, '12345', 'abc', '']) {
      expect(isPhoneNumber(text), text).toBe(false)
    }
  })
})

describe('returnAddress', () => {
  it('is an address of the console, and never of another site', () => {
    expect(returnAddress('/messages', '?status=sent')).toBe('/messages?status=sent')
    expect(returnAddress('//evil.example/messages', '')).toBe('/')
    expect(returnAddress('/login', '')).toBe('/')
  })
})
