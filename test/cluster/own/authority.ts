/** The certificate authority of the cluster and of the servers. It is stored, so that later commands use it too. */
import 'reflect-metadata'
import { generateKeyPairSync, type webcrypto } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import * as x509 from '@peculiar/x509'

const ALGORITHM = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' } as const
const DAY_MS = 86_400_000
const VALID_DAYS = 30

interface Subject {
  /** The common name: the user of a client, by which Kubernetes authorizes it. */
  readonly name: string
  /** The organization: the group of a client. */
  readonly group?: string
  /** DNS names and IP addresses of a server. */
  readonly hosts?: ReadonlyArray<string>
}

/** The paths of a key and its certificate, in PEM. */
export interface Issued {
  readonly key: string
  readonly cert: string
}

export interface Authority {
  /** The path of its certificate. */
  readonly ca: string
  /** The paths of the keys with which the API server signs the tokens of service accounts. */
  readonly tokens: { readonly privateKey: string; readonly publicKey: string }
  /** Issues a certificate under a name, or returns the one that exists. */
  readonly issue: (file: string, subject: Subject) => Promise<Issued>
  /** Issues a new certificate in place of one that exists. */
  readonly renew: (file: string, subject: Subject) => Promise<Issued>
}

const writeKey = async (path: string, key: webcrypto.CryptoKey): Promise<void> => {
  const der = Buffer.from(await crypto.subtle.exportKey('pkcs8', key))
  const lines = der.toString('base64').match(/.{1,64}/gu) ?? []
  writeFileSync(path, `-----BEGIN PRIVATE KEY-----\n${lines.join('\n')}\n-----END PRIVATE KEY-----\n`, {
    mode: 0o600,
  })
}

const readKey = (path: string): Promise<webcrypto.CryptoKey> => {
  const der = Buffer.from(readFileSync(path, 'utf8').replaceAll(/-----.*-----|\s/gu, ''), 'base64')
  return crypto.subtle.importKey('pkcs8', der, ALGORITHM, true, ['sign'])
}

export const openAuthority = async (dir: string): Promise<Authority> => {
  mkdirSync(dir, { recursive: true, mode: 0o755 })
  const at = (name: string): string => join(dir, name)
  const ca = at('ca.crt')
  const notAfter = new Date(Date.now() + VALID_DAYS * DAY_MS)
  if (!existsSync(ca)) {
    const keys = await crypto.subtle.generateKey(ALGORITHM, true, ['sign', 'verify'])
    const made = await x509.X509CertificateGenerator.createSelfSigned({
      name: 'CN=hub cluster test',
      notBefore: new Date(Date.now() - DAY_MS),
      notAfter,
      keys,
      signingAlgorithm: ALGORITHM,
      extensions: [
        new x509.BasicConstraintsExtension(true, 1, true),
        new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign, true),
      ],
    })
    await writeKey(at('ca.key'), keys.privateKey)
    const tokens = generateKeyPairSync('ec', {
      namedCurve: 'P-256',
      publicKeyEncoding: { type: 'spki', format: 'pem' },
      privateKeyEncoding: { type: 'sec1', format: 'pem' },
    })
    writeFileSync(at('tokens.key'), tokens.privateKey, { mode: 0o600 })
    writeFileSync(at('tokens.pub'), tokens.publicKey)
    writeFileSync(ca, made.toString('pem'))
  }
  const issuer = new x509.X509Certificate(readFileSync(ca, 'utf8')).subject
  const signingKey = await readKey(at('ca.key'))

  const renew: Authority['renew'] = async (file, { group, hosts = [], name }) => {
    const keys = await crypto.subtle.generateKey(ALGORITHM, true, ['sign', 'verify'])
    const made = await x509.X509CertificateGenerator.create({
      subject: [...(group === undefined ? [] : [{ O: [group] }]), { CN: [name] }],
      issuer,
      notBefore: new Date(Date.now() - DAY_MS),
      notAfter,
      publicKey: keys.publicKey,
      signingKey,
      signingAlgorithm: ALGORITHM,
      extensions: [
        new x509.ExtendedKeyUsageExtension([
          x509.ExtendedKeyUsage.serverAuth,
          x509.ExtendedKeyUsage.clientAuth,
        ]),
        ...(hosts.length === 0
          ? []
          : [
              new x509.SubjectAlternativeNameExtension(
                hosts.map((value) => ({
                  type: /^[\d.]+$/u.test(value) ? ('ip' as const) : ('dns' as const),
                  value,
                })),
              ),
            ]),
      ],
    })
    const issued = { key: at(`${file}.key`), cert: at(`${file}.crt`) }
    await writeKey(issued.key, keys.privateKey)
    writeFileSync(issued.cert, made.toString('pem'))
    return issued
  }
  return {
    ca,
    tokens: { privateKey: at('tokens.key'), publicKey: at('tokens.pub') },
    renew,
    issue: (file, subject) =>
      existsSync(at(`${file}.crt`))
        ? Promise.resolve({ key: at(`${file}.key`), cert: at(`${file}.crt`) })
        : renew(file, subject),
  }
}
