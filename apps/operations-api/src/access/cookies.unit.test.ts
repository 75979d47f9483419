import { describe, expect, it } from 'vitest'
import { makeCookies } from './cookies.ts'

describe('the cookies', () => {
  it.each([
    ['in production', 'https://operations.example.com', false],
    ['with TLS, whatever the host', 'https://127.0.0.1:7305', true],
    ['without login links', 'http://127.0.0.1:7305', false],
    ['of a host that others can reach', 'http://operations.example.com', true],
    ['of a host with a name like the loopback address', 'http://127.0.0.1.example.com', true],
  ])('are only for this host and secure connections %s', (_, operationsUrl, hasLoginLinks) => {
    const { expired, login, names, session } = makeCookies({ operationsUrl, hasLoginLinks })
    expect(names).toEqual({ session: '__Host-hub_operations', login: '__Host-hub_login' })
    expect(session('t')).toBe('__Host-hub_operations=t; Path=/; HttpOnly; Secure; SameSite=Strict')
    expect(login('s', 9)).toBe('__Host-hub_login=s; Path=/; HttpOnly; Secure; SameSite=Lax; Max-Age=9')
    expect(expired('session')).toBe('__Host-hub_operations=; Path=/; HttpOnly; Secure; Max-Age=0')
  })

  it.each(['http://127.0.0.1:7305', 'http://localhost:7305', 'http://[::1]:7305'])(
    'of a local hub at %s are also stored by browsers that want TLS for secure cookies',
    (operationsUrl) => {
      const { expired, login, session } = makeCookies({ operationsUrl, hasLoginLinks: true })
      expect(session('t')).toBe('hub_operations_7305=t; Path=/; HttpOnly; SameSite=Strict')
      expect(login('s', 9)).toBe('hub_login_7305=s; Path=/; HttpOnly; SameSite=Lax; Max-Age=9')
      expect(expired('session')).toBe('hub_operations_7305=; Path=/; HttpOnly; Max-Age=0')
    },
  )

  // RFC 6265, section 8.5: cookies do not provide isolation by port.
  it('of two local hubs on one machine do not replace each other', () => {
    const [one, other] = ['http://127.0.0.1:7305', 'http://127.0.0.1:7405'].map((operationsUrl) =>
      makeCookies({ operationsUrl, hasLoginLinks: true }),
    )
    const jar = [one!.session('a'), other!.session('b'), one!.login('c', 9), other!.login('d', 9)]
      .map((line) => line.split(';', 1)[0])
      .join('; ')
    expect([one!.read(jar, 'session'), other!.read(jar, 'session')]).toEqual(['a', 'b'])
    expect([one!.read(jar, 'login'), other!.read(jar, 'login')]).toEqual(['c', 'd'])
  })

  it('are found by their whole name', () => {
    const cookies = makeCookies({ operationsUrl: 'http://127.0.0.1:7305', hasLoginLinks: true })
    const header = 'not_hub_operations_7305=1; hub_operations_7305 = a=b ; __Host-hub_operations=2'
    expect(cookies.read(header, 'session')).toBe('a=b')
    expect(cookies.read(header, 'login')).toBeNull()
    expect(cookies.read(undefined, 'session')).toBeNull()
  })
})
