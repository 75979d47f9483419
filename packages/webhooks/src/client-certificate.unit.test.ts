/** The checks of a client certificate. OpenSSL makes some of the certificates and keys, and reads the fingerprint. */
import { execFileSync } from 'node:child_process'
import { createPrivateKey } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { makeCertificateAuthority } from '@hub/testkit'
import { afterAll, describe, expect, it } from 'vitest'
import {
  checkClientCertificate,
  type ClientCertificate,
  ClientCertificateRefused,
} from './client-certificate.ts'

const CLIENT_AUTHENTICATION = '1.3.6.1.5.5.7.3.2'
const SERVER_AUTHENTICATION = '1.3.6.1.5.5.7.3.1'

const authority = await makeCertificateAuthority()
const stranger = await makeCertificateAuthority()
const issued = await authority.issue(['hub'])
const other = await authority.issue(['hub'])
const good: ClientCertificate = { certificate: issued.cert, privateKey: issued.key }

const folder = mkdtempSync(join(tmpdir(), 'client-certificate-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const openssl = (args: ReadonlyArray<string>, input = ''): string =>
  execFileSync('openssl', [...args], { input, encoding: 'utf8', stdio: ['pipe', 'pipe', 'ignore'] })

/** A self-signed certificate of OpenSSL. */
const made = (name: string, key: ReadonlyArray<string>): ClientCertificate => {
  const [keyFile, certificateFile] = [join(folder, `${name}.key`), join(folder, `${name}.pem`)]
  openssl(
    ['req', '-x509', '-nodes', '-days', '2', '-subj', `/CN=${name}`].concat(
      ['-keyout', keyFile, '-out', certificateFile],
      key,
    ),
  )
  return {
    certificate: readFileSync(certificateFile, 'utf8'),
    privateKey: readFileSync(keyFile, 'utf8'),
  }
}

const check = (given: Partial<ClientCertificate>) => checkClientCertificate({ ...good, ...given }, Date.now())

/** `field: message` of a refusal. */
const refusalOf = (given: Partial<ClientCertificate>): string => {
  const result = check(given)
  return result instanceof ClientCertificateRefused ? `${result.field}: ${result.message}` : 'accepted'
}

describe('a client certificate', () => {
  // Rules: SUB-36
  it('has the fingerprint and the end that OpenSSL reads', () => {
    const facts = check({})
    if (facts instanceof ClientCertificateRefused) throw facts
    const [fingerprint, end] = openssl(
      ['x509', '-noout', '-fingerprint', '-sha256', '-enddate', '-dateopt', 'iso_8601'],
      good.certificate,
    )
      .trim()
      .split('\n')
    expect(fingerprint?.split('=')[1]).toBe(facts.fingerprint)
    expect(Date.parse(end?.split('=')[1] ?? '')).toBe(facts.notAfter)
  })

  // Rules: SUB-36
  it.each([
    ['rsa', ['-newkey', 'rsa:2048']],
    ['ec', ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-384']],
    ['ed25519', ['-newkey', 'ed25519']],
  ])('may have a key of the type %s', (name, key) => {
    expect(check(made(name, key))).toMatchObject({ fingerprint: expect.any(String) })
  })

  // Rules: SUB-36
  it('may have the key in the older forms of PEM, with the parameters of the curve', () => {
    const key = String(createPrivateKey(good.privateKey).export({ type: 'sec1', format: 'pem' }))
    const parameters = openssl(['ecparam', '-name', 'prime256v1'])
    expect(refusalOf({ privateKey: `${parameters}${key}` })).toBe('accepted')
    expect(refusalOf({ privateKey: good.privateKey.replaceAll('\n', '\r\n') })).toBe('accepted')
  })

  // Rules: SUB-36
  it('may be followed by its chain, in its order', () => {
    expect(refusalOf({ certificate: `${good.certificate}\n${authority.pem}` })).toBe('accepted')
    expect(refusalOf({ certificate: `Shop\n${good.certificate}` })).toBe('accepted')
  })

  // Rules: SUB-37
  it('is refused out of its order, or with the chain of another one', () => {
    const order = 'certificate: Each certificate must be followed by the certificate of its issuer.'
    expect(refusalOf({ certificate: `${good.certificate}\n${stranger.pem}` })).toBe(order)
    expect(refusalOf({ certificate: `${good.certificate}\n${other.cert}` })).toBe(order)
    expect(refusalOf({ certificate: `${authority.pem}\n${good.certificate}` })).toBe(
      'private_key: The private key does not belong to the first certificate.',
    )
    expect(refusalOf({ certificate: good.certificate + authority.pem.repeat(10) })).toBe(
      'certificate: The chain has more than 10 certificates.',
    )
  })

  // Rules: SUB-37
  it('is refused when it is not PEM', () => {
    const notPem = 'certificate: This is not a certificate in PEM, or one of its chain is not.'
    for (const certificate of [
      'x',
      good.certificate.slice(0, 200),
      good.certificate.replace(/\n[A-Za-z0-9+/]{4}/u, '\n****'),
      '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----',
      `${good.certificate}\n-----BEGIN CERTIFICATE-----\n`,
    ]) {
      expect(refusalOf({ certificate })).toBe(notPem)
    }
    expect(refusalOf({ certificate: good.privateKey + good.certificate })).toBe(
      'certificate: This text may contain certificates only. The private key is a field of its own.',
    )
  })

  // Rules: SUB-37
  it('is refused with a key that is not one, is encrypted, or belongs to another certificate', () => {
    const notKey = 'private_key: This is not a private key in PEM.'
    for (const privateKey of ['x', good.certificate, good.privateKey.slice(0, 100)]) {
      expect(refusalOf({ privateKey })).toBe(notKey)
    }
    const encrypted = 'private_key: The private key is encrypted. Send it without a passphrase.'
    const key = createPrivateKey(good.privateKey)
    const cipher = { format: 'pem', cipher: 'aes-256-cbc', passphrase: 'secret' } as const
    expect(refusalOf({ privateKey: String(key.export({ type: 'pkcs8', ...cipher })) })).toBe(encrypted)
    expect(refusalOf({ privateKey: String(key.export({ type: 'sec1', ...cipher })) })).toBe(encrypted)
    expect(refusalOf({ privateKey: other.key })).toBe(
      'private_key: The private key does not belong to the first certificate.',
    )
  })

  // Rules: SUB-37
  it('is refused outside of its validity, and for another purpose', async () => {
    const refusal = async (options: Parameters<typeof authority.issue>[1]) => {
      const { cert, key } = await authority.issue(['hub'], options)
      return refusalOf({ certificate: cert, privateKey: key })
    }
    expect(await refusal({ expired: true })).toBe('certificate: The certificate has expired.')
    expect(await refusal({ notYetValid: true })).toBe('certificate: The certificate is not valid yet.')
    expect(await refusal({ purposes: [SERVER_AUTHENTICATION] })).toBe(
      'certificate: The certificate is not for client authentication.',
    )
    expect(await refusal({ purposes: [SERVER_AUTHENTICATION, CLIENT_AUTHENTICATION] })).toBe('accepted')
  })

  // Rules: SUB-37
  it('is refused when OpenSSL would not use it', () => {
    expect(refusalOf(made('short', ['-newkey', 'rsa:1024']))).toBe(
      'certificate: TLS cannot use this certificate with this key, for example because the key is too short.',
    )
  })
})
