import { describe, expect, it } from 'vitest'
import { type Session, withoutSession } from './client.ts'
import type { Me } from './types.ts'

const signedIn: Session = { state: 'signed_in', me: {} as Me }

describe('a session that ended while a page was open', () => {
  it('has expired, also after the answers of further requests', () => {
    const once = withoutSession(signedIn)
    expect([once.state, withoutSession(once).state]).toEqual(['expired', 'expired'])
  })

  it('did not expire if nobody was signed in', () => {
    expect(withoutSession({ state: 'unknown' }).state).toBe('signed_out')
    expect(withoutSession({ state: 'signed_out' }).state).toBe('signed_out')
  })
})
