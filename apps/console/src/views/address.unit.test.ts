import { describe, expect, it } from 'vitest'
import { matchRoute } from '../routing/routes.ts'
import { viewAddress, withoutFilter } from './address.ts'

describe('the address of a saved view', () => {
  it('is that of its list with its filters', () => {
    expect(viewAddress('messages', { status: 'undelivered', account: 'acc_1' })).toBe(
      '/messages?account=acc_1&status=undelivered',
    )
    expect(viewAddress('attempts', { webhook_endpoint: 'we_1', status: 'failed' })).toBe(
      '/webhooks/we_1?status=failed',
    )
  })

  it('is a page of the console', () => {
    for (const list of ['webhooks', 'templates', 'senders', 'dead_letters', 'usage', 'opt_outs', 'audit']) {
      expect(matchRoute(viewAddress(list, {}) ?? '')?.screen, list).toBeDefined()
    }
  })

  it('does not exist for a list of another version, or without the subscription of attempts', () => {
    expect(viewAddress('insights', {})).toBeNull()
    expect(viewAddress('toString', {})).toBeNull()
    expect(viewAddress('attempts', {})).toBeNull()
  })

  it('can leave out a filter that is not valid any more', () => {
    expect(withoutFilter({ account: 'acc_1', status: 'sent' }, 'account')).toEqual({ status: 'sent' })
  })
})
