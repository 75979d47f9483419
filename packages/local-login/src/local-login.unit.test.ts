import { describe, expect, it } from 'vitest'
import { localLoginUrl, readLocalLogin } from './index.ts'

const SECRET = 'a secret of at least 32 characters'
const NOW = Date.parse('2026-11-21T09:30:00.000Z')
const HOUR_MS = 3_600_000

const tokenAt = (now: number): string =>
  new URL(
    localLoginUrl('http://127.0.0.1:7305', SECRET, { name: 'Anna', roles: ['support'] }, now),
  ).searchParams.get('token') ?? ''

describe('a local login link', () => {
  it('names a person with roles until its time is over', () => {
    const token = tokenAt(NOW)
    expect(readLocalLogin(token, SECRET, NOW + 11 * HOUR_MS)).toMatchObject({
      name: 'Anna',
      roles: ['support'],
    })
    expect(readLocalLogin(token, SECRET, NOW + 12 * HOUR_MS)).toBeNull()
  })

  it('has its own id', () => {
    const [first, second] = [tokenAt(NOW), tokenAt(NOW)].map((token) => readLocalLogin(token, SECRET, NOW))
    expect(first?.id).not.toBe(second?.id)
  })

  it('is refused with another secret or a changed content', () => {
    const [content = '', signature] = tokenAt(NOW).split('.')
    expect(readLocalLogin(tokenAt(NOW), `${SECRET}!`, NOW)).toBeNull()
    const admin = { ...JSON.parse(Buffer.from(content, 'base64url').toString('utf8')), roles: ['admin'] }
    const changed = Buffer.from(JSON.stringify(admin)).toString('base64url')
    expect(readLocalLogin(`${changed}.${signature}`, SECRET, NOW)).toBeNull()
    for (const token of ['', '.', content, `${content}.`, 'x.y.z']) {
      expect(readLocalLogin(token, SECRET, NOW)).toBeNull()
    }
  })
})
