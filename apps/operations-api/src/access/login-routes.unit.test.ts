import { describe, expect, it } from 'vitest'
import { returnPath } from './login-routes.ts'

const CONSOLE = 'https://operations.example.com'

describe('the address that a sign-in opens', () => {
  it('is the page of the console where it began', () => {
    expect(returnPath('/messages/msg_1?a=1#part', CONSOLE)).toBe('/messages/msg_1?a=1#part')
  })

  it.each([
    'https://evil.example/',
    '//evil.example/',
    '/\\evil.example/',
    '/.//evil.example/',
    '/%2e//evil.example/',
    '/messages/..//evil.example/',
    '/./\\evil.example/',
  ])('is never of another host: %s', (given) => {
    expect(returnPath(given, CONSOLE)).toBe('/')
  })

  it.each(['/v1/me', '/login', '/login/callback?code=1'])('is no path of the API: %s', (given) => {
    expect(returnPath(given, CONSOLE)).toBe('/')
  })
})
