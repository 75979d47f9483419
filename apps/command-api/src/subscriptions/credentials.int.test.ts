/** Static headers and client certificates of subscriptions, over HTTP. No answer and no table shows them. */
import { X509Certificate } from 'node:crypto'
import { decodeId } from '@hub/domain'
import { makeCertificateAuthority } from '@hub/testkit'
import { decryptClientCertificate, decryptHeaders } from '@hub/webhooks'
import { Effect, Redacted } from 'effect'
import { describe, expect, it } from 'vitest'
import { type Account, type Api, call, type Deployment, startBeforeTests } from '../testing/harness.ts'

let deployment: Deployment
let api: Api
let account: Account
startBeforeTests((started) => ({ deployment, api, account } = started))

const authority = await makeCertificateAuthority()
const [own, other, expired] = await Promise.all([
  authority.issue(['hub']),
  authority.issue(['hub']),
  authority.issue(['hub'], { expired: true }),
])
const pemOf = ({ cert, key }: typeof own) => ({ certificate: cert, private_key: key })

const TOKEN = 'Bearer 7Xq2mZ9pLw'
const HEADERS = { Authorization: TOKEN, 'x-tenant': 'Shop 7' }
const PATH = '/v1/webhook_endpoints'

type Body = any

const request = (method: string, path: string, body?: unknown) =>
  call(api.url, path, { key: account.keys.live, method, body }) as Promise<{ status: number; body: Body }>

const create = async (more: object): Promise<Body> => {
  const { body, status } = await request('POST', PATH, { url: 'https://1.1.1.1/', ...more })
  expect(status).toBe(201)
  return body
}

const rowOf = async (id: string): Promise<Body> =>
  (
    await deployment.sql<Body[]>((q) => q`SELECT * FROM webhooks.endpoints WHERE id = ${decodeId('we', id)}`)
  )[0]

/** What the fan-out would use. */
const storedOf = async (id: string) => {
  const { client_certificate: certificate, headers } = await rowOf(id)
  const masterKey = await deployment.masterKeyEncryption()
  return {
    headers:
      headers === null
        ? null
        : Redacted.value(await Effect.runPromise(decryptHeaders(masterKey, id, headers))),
    clientCertificate:
      certificate === null
        ? null
        : Redacted.value(await Effect.runPromise(decryptClientCertificate(masterKey, id, certificate))),
  }
}

/** Lines of the Base64 in PEM, which occur nowhere else. */
const linesOf = (pem: string) => pem.split('\n').filter((line) => /^[A-Za-z0-9+/]{40,}/u.test(line))
const SECRETS = [TOKEN, TOKEN.slice(7), ...linesOf(own.key)]

const containsNone = (value: unknown) => {
  const text = JSON.stringify(value, (_name, inner: unknown) =>
    typeof inner === 'object' && inner !== null && 'type' in inner && inner.type === 'Buffer'
      ? Buffer.from((inner as unknown as { data: ReadonlyArray<number> }).data).toString('latin1')
      : inner,
  )
  for (const secret of SECRETS) expect(text.includes(secret)).toBe(false)
}

describe('static headers and a client certificate', () => {
  // Rules: SUB-2, SUB-32, SUB-35, SUB-36
  it('are stored encrypted, and answers show only names, fingerprint and end', async () => {
    const made = await create({ headers: HEADERS, client_certificate: pemOf(own) })
    const { fingerprint256, validToDate } = new X509Certificate(own.cert)
    const shown = {
      header_names: ['Authorization', 'x-tenant'],
      client_certificate: { fingerprint_sha256: fingerprint256, not_after: validToDate.toISOString() },
    }
    expect(made).toMatchObject(shown)
    expect(made).not.toHaveProperty('headers')
    const read = await request('GET', `${PATH}/${made.id}`)
    const listed = await request('GET', `${PATH}?limit=100`)
    expect(read.body).toMatchObject(shown)
    expect(listed.body.data.find(({ id }: Body) => id === made.id)).toEqual(read.body)
    for (const answer of [made, read, listed, await rowOf(made.id)]) containsNone(answer)
    expect(await storedOf(made.id)).toEqual({
      headers: ['Authorization', TOKEN, 'x-tenant', 'Shop 7'],
      clientCertificate: { certificate: own.cert, privateKey: own.key },
    })
  })

  // Rules: SUB-2
  it('are absent without them', async () => {
    const made = await create({})
    expect(made).toMatchObject({ header_names: [], client_certificate: null })
    expect(await storedOf(made.id)).toEqual({ headers: null, clientCertificate: null })
  })

  // Rules: SUB-7, SUB-38
  it('are replaced as a whole, kept when they are absent, and removed with null', async () => {
    const { id } = await create({ headers: HEADERS, client_certificate: pemOf(own) })
    const update = async (body: object) => {
      const answer = await request('PATCH', `${PATH}/${id}`, body)
      expect(answer.status).toBe(200)
      return answer.body
    }
    expect(await update({ description: 'till 7' })).toMatchObject({
      header_names: ['Authorization', 'x-tenant'],
      client_certificate: { fingerprint_sha256: new X509Certificate(own.cert).fingerprint256 },
    })
    expect(await update({ headers: { 'x-till': '7' }, client_certificate: pemOf(other) })).toMatchObject({
      description: 'till 7',
      header_names: ['x-till'],
      client_certificate: { fingerprint_sha256: new X509Certificate(other.cert).fingerprint256 },
    })
    expect(await storedOf(id)).toEqual({
      headers: ['x-till', '7'],
      clientCertificate: { certificate: other.cert, privateKey: other.key },
    })
    expect(await update({ headers: null })).toMatchObject({
      header_names: [],
      client_certificate: { fingerprint_sha256: expect.any(String) },
    })
    expect(await update({ client_certificate: null })).toMatchObject({ client_certificate: null })
    expect(await storedOf(id)).toEqual({ headers: null, clientCertificate: null })
    await update({ headers: HEADERS })
    expect(await update({ headers: {} })).toMatchObject({ header_names: [] })
  })

  // Rules: SUB-10, SUB-38
  it('are erased with the subscription', async () => {
    const { id } = await create({ headers: HEADERS, client_certificate: pemOf(own) })
    expect((await request('DELETE', `${PATH}/${id}`)).status).toBe(200)
    expect(await rowOf(id)).toMatchObject({
      header_names: [],
      headers: null,
      client_certificate: null,
      client_certificate_fingerprint: null,
      client_certificate_not_after: null,
    })
  })

  // Rules: SUB-32, SUB-33, SUB-34, SUB-36, SUB-37
  it.each<readonly [string, object, string]>([
    ['a list', { headers: [TOKEN] }, 'headers'],
    [
      'eleven headers',
      { headers: Object.fromEntries(Array.from('abcdefghijk', (n) => [n, TOKEN])) },
      'headers',
    ],
    ['long headers', { headers: { 'X-Key': TOKEN.repeat(300) } }, 'headers'],
    ['a header of the hub', { headers: { 'Hub-Signature': TOKEN } }, 'headers.Hub-Signature'],
    ['a header of the connection', { headers: { host: TOKEN } }, 'headers.host'],
    ['the same header twice', { headers: { 'X-Key': TOKEN, 'x-key': TOKEN } }, 'headers.x-key'],
    ['a value instead of a name', { headers: { [TOKEN]: 'Authorization' } }, 'headers'],
    ['a value with a line break', { headers: { 'X-Key': `${TOKEN}\r\nX: 1` } }, 'headers.X-Key'],
    ['a value that is a number', { headers: { 'X-Key': 7 } }, 'headers.X-Key'],
    ['a text as certificate', { client_certificate: own.key }, 'client_certificate'],
    ['no certificate', { client_certificate: { private_key: own.key } }, 'client_certificate.certificate'],
    ['no key', { client_certificate: { certificate: own.cert } }, 'client_certificate.private_key'],
    [
      'a long key',
      { client_certificate: { certificate: own.cert, private_key: own.key.repeat(80) } },
      'client_certificate.private_key',
    ],
    [
      'the key in place of the certificate',
      { client_certificate: { certificate: own.key, private_key: own.key } },
      'client_certificate.certificate',
    ],
    [
      'the key of another certificate',
      { client_certificate: { certificate: other.cert, private_key: own.key } },
      'client_certificate.private_key',
    ],
    ['an expired certificate', { client_certificate: pemOf(expired) }, 'client_certificate.certificate'],
  ])('are refused: %s', async (_what, given, param) => {
    const before = await create({ headers: { 'X-Kept': '1' } })
    const kept = await rowOf(before.id)
    for (const answer of [
      await request('POST', PATH, { url: 'https://1.1.1.1/', ...given }),
      await request('PATCH', `${PATH}/${before.id}`, { description: 'new', ...given }),
    ]) {
      expect([answer.status, answer.body.error.code, answer.body.error.param]).toEqual([
        422,
        'invalid_parameter',
        param,
      ])
      containsNone(answer)
    }
    expect(await rowOf(before.id)).toEqual(kept)
    expect((await request('DELETE', `${PATH}/${before.id}`)).status).toBe(200)
  })
})
