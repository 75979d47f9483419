/**
 * The form in which the static headers and the client certificate of a subscription are stored: JSON, encrypted
 * under the master key, bound to the subscription (`we_…`). command-api writes it, and the fan-out reads it.
 */
import type { DecryptionFailed, MasterKeyEncryption, StorageUnavailable } from '@hub/store'
import { Effect, Redacted } from 'effect'
import type { ClientCertificate } from './client-certificate.ts'

type MasterKey = MasterKeyEncryption['Service']

const HEADERS = 'webhook-headers'
const CLIENT_CERTIFICATE = 'webhook-client-certificate'

const bytesOf = (value: unknown): Buffer => Buffer.from(JSON.stringify(value))

/** What was encrypted; the cipher proves that it is unchanged. */
const valueOf = <A>(plain: Buffer): Redacted.Redacted<A> =>
  Redacted.make(JSON.parse(plain.toString('utf8')) as A)

export const encryptHeaders = (
  masterKey: MasterKey,
  subscription: string,
  headers: ReadonlyArray<readonly [name: string, value: string]>,
): Buffer => masterKey.encrypt(HEADERS, subscription, bytesOf(headers.flat()))

/** Names and values in turn. */
export const decryptHeaders = (
  masterKey: MasterKey,
  subscription: string,
  ciphertext: Uint8Array,
): Effect.Effect<Redacted.Redacted<ReadonlyArray<string>>, DecryptionFailed | StorageUnavailable> =>
  Effect.map(masterKey.decrypt(HEADERS, subscription, ciphertext), valueOf<ReadonlyArray<string>>)

export const encryptClientCertificate = (
  masterKey: MasterKey,
  subscription: string,
  { certificate, privateKey }: ClientCertificate,
): Buffer => masterKey.encrypt(CLIENT_CERTIFICATE, subscription, bytesOf({ certificate, privateKey }))

export const decryptClientCertificate = (
  masterKey: MasterKey,
  subscription: string,
  ciphertext: Uint8Array,
): Effect.Effect<Redacted.Redacted<ClientCertificate>, DecryptionFailed | StorageUnavailable> =>
  Effect.map(masterKey.decrypt(CLIENT_CERTIFICATE, subscription, ciphertext), valueOf<ClientCertificate>)
