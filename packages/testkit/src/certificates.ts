/** A certificate authority for tests, made in memory in a few milliseconds. */
// The X.509 library requires this polyfill to be imported first.
import 'reflect-metadata'
import { randomUUID } from 'node:crypto'
import * as x509 from '@peculiar/x509'

const ALGORITHM = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' } as const
const DAY_MS = 86_400_000

/** The key and certificate of a TLS server or client, in PEM. */
export interface ServerCertificate {
  readonly key: string
  readonly cert: string
}

export interface CertificateAuthority {
  /** The authority's certificate in PEM. */
  readonly pem: string
  readonly issue: (
    hosts: ReadonlyArray<string>,
    options?: {
      /** It was valid until an hour ago. */
      readonly expired?: boolean
      /** It is valid in an hour. */
      readonly notYetValid?: boolean
      /** The object identifiers of its extended key usage; absent: it is for every purpose. */
      readonly purposes?: ReadonlyArray<string>
    },
  ) => Promise<ServerCertificate>
}

const makeKeys = () => crypto.subtle.generateKey(ALGORITHM, true, ['sign', 'verify'])

/** An authority for the duration of a test. */
export const makeCertificateAuthority = (): Promise<CertificateAuthority> => makeAuthorityFor(1)

/** `validDays`: how long the certificates of the authority and of its servers are valid. */
export const makeAuthorityFor = async (validDays: number): Promise<CertificateAuthority> => {
  const end = new Date(Date.now() + validDays * DAY_MS)
  const keys = await makeKeys()
  const authority = await x509.X509CertificateGenerator.createSelfSigned({
    // OpenSSL finds the authority of a certificate by its name. A client that trusts two of the same name may
    // try the wrong one, and refuses the certificate.
    name: `CN=hub test authority ${randomUUID()}`,
    notBefore: new Date(Date.now() - 2 * DAY_MS),
    notAfter: end,
    keys,
    signingAlgorithm: ALGORITHM,
    extensions: [
      new x509.BasicConstraintsExtension(true, 1, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign, true),
    ],
  })
  return {
    pem: authority.toString('pem'),
    issue: async (hosts, options = {}) => {
      const serverKeys = await makeKeys()
      const certificate = await x509.X509CertificateGenerator.create({
        subject: 'CN=receiver',
        issuer: authority.subject,
        notBefore: new Date(Date.now() + (options.notYetValid === true ? 3_600_000 : -DAY_MS)),
        notAfter: options.expired === true ? new Date(Date.now() - 3_600_000) : end,
        publicKey: serverKeys.publicKey,
        signingKey: keys.privateKey,
        signingAlgorithm: ALGORITHM,
        extensions: [
          new x509.SubjectAlternativeNameExtension(
            hosts.map((host) => ({
              type: /^[\d.]+$|:/u.test(host) ? ('ip' as const) : ('dns' as const),
              value: host,
            })),
          ),
          ...(options.purposes === undefined
            ? []
            : [new x509.ExtendedKeyUsageExtension([...options.purposes])]),
        ],
      })
      const key = Buffer.from(await crypto.subtle.exportKey('pkcs8', serverKeys.privateKey)).toString(
        'base64',
      )
      return {
        cert: certificate.toString('pem'),
        key: `-----BEGIN PRIVATE KEY-----\n${key}\n-----END PRIVATE KEY-----\n`,
      }
    },
  }
}
