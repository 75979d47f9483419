/**
 * The client certificate of a subscription: what the hub presents to a receiver that asks for one (mutual TLS).
 * The checks of its creation, so that no attempt fails because of a certificate that could never work. Source:
 * SUB-36, SUB-37; RFC 7468 (PEM), RFC 5246, 7.4.2 (order of the chain), RFC 5280, 4.2.1.12 (purposes).
 */
import type { ClientCertificateView } from '@hub/domain'
import { Data } from 'effect'
import { createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto'
import { createSecureContext } from 'node:tls'

export interface ClientCertificate {
  /** PEM: the certificate and its chain. */
  readonly certificate: string
  /** PEM. Secret. */
  readonly privateKey: string
}

/** 422 `invalid_parameter`. Clients may see `message`: it contains nothing of the certificate and the key. */
export class ClientCertificateRefused extends Data.TaggedError('ClientCertificateRefused')<{
  readonly field: 'certificate' | 'private_key'
  readonly message: string
}> {}

/** Certificates in the text, the one of the hub included. */
const MOST_CERTIFICATES = 10

export const PEM_CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/gu
/** PKCS #8 has a label for it (RFC 7468, 11), and the older forms have a header (RFC 1421, 4.6.1.1). */
const ENCRYPTED_KEY = /-----BEGIN ENCRYPTED PRIVATE KEY-----|^Proc-Type: 4,ENCRYPTED/mu
const PEM_LABEL = /-----BEGIN (?<label>[A-Z0-9 ]+)-----/gu

/** Client authentication, and any purpose. Source: RFC 5280, 4.2.1.12. */
const CLIENT_PURPOSES = new Set(['1.3.6.1.5.5.7.3.2', '2.5.29.37.0'])

const refused = (field: ClientCertificateRefused['field'], message: string): ClientCertificateRefused =>
  new ClientCertificateRefused({ field, message })

const readCertificates = (
  text: string,
): readonly [X509Certificate, ...ReadonlyArray<X509Certificate>] | ClientCertificateRefused => {
  const labels = [...text.matchAll(PEM_LABEL)].map(({ groups }) => groups?.['label'])
  if (labels.some((label) => label !== 'CERTIFICATE')) {
    return refused(
      'certificate',
      'This text may contain certificates only. The private key is a field of its own.',
    )
  }
  if (labels.length > MOST_CERTIFICATES) {
    return refused('certificate', `The chain has more than ${MOST_CERTIFICATES} certificates.`)
  }
  try {
    const [leaf, ...chain] = (text.match(PEM_CERTIFICATE) ?? []).map((pem) => new X509Certificate(pem))
    // A block that is not complete, or not Base64, is missing.
    if (leaf !== undefined && chain.length + 1 === labels.length) return [leaf, ...chain]
  } catch {
    // It is Base64, but no certificate.
  }
  return refused('certificate', 'This is not a certificate in PEM, or one of its chain is not.')
}

const readPrivateKey = (text: string): KeyObject | ClientCertificateRefused => {
  if (ENCRYPTED_KEY.test(text)) {
    return refused('private_key', 'The private key is encrypted. Send it without a passphrase.')
  }
  try {
    return createPrivateKey(text)
  } catch {
    return refused('private_key', 'This is not a private key in PEM.')
  }
}

/** Whether TLS can use it at all: OpenSSL refuses short keys and old signatures, for example. */
const isUsable = ({ certificate, privateKey }: ClientCertificate): boolean => {
  try {
    createSecureContext({ minVersion: 'TLSv1.2', cert: certificate, key: privateKey })
    return true
  } catch {
    return false
  }
}

/** Checks a client certificate and its key at `now`, milliseconds since the epoch. */
export const checkClientCertificate = (
  given: ClientCertificate,
  now: number,
): ClientCertificateView | ClientCertificateRefused => {
  const certificates = readCertificates(given.certificate)
  if (certificates instanceof ClientCertificateRefused) return certificates
  const [leaf, ...chain] = certificates
  const privateKey = readPrivateKey(given.privateKey)
  if (privateKey instanceof ClientCertificateRefused) return privateKey
  if (!leaf.checkPrivateKey(privateKey)) {
    return refused('private_key', 'The private key does not belong to the first certificate.')
  }
  if (leaf.validFromDate.getTime() > now) return refused('certificate', 'The certificate is not valid yet.')
  if (leaf.validToDate.getTime() <= now) return refused('certificate', 'The certificate has expired.')
  // Node calls the extended key usage `keyUsage`. Without it a certificate is for every purpose.
  const purposes = leaf.keyUsage as ReadonlyArray<string> | undefined
  if (purposes !== undefined && !purposes.some((purpose) => CLIENT_PURPOSES.has(purpose))) {
    return refused('certificate', 'The certificate is not for client authentication.')
  }
  if (!chain.every((issuer, index) => certificates[index]?.checkIssued(issuer) === true)) {
    return refused('certificate', 'Each certificate must be followed by the certificate of its issuer.')
  }
  if (!isUsable(given)) {
    return refused(
      'certificate',
      'TLS cannot use this certificate with this key, for example because the key is too short.',
    )
  }
  return { fingerprint: leaf.fingerprint256, notAfter: leaf.validToDate.getTime() }
}
