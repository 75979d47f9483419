/**
 * The cookie of a sign-in in progress. It is encrypted and authenticated, so the hub accepts only what it has
 * written itself, and only for some minutes: a browser need not keep to `Max-Age`.
 */
import type { MasterKeyEncryption, StorageUnavailable } from '@hub/store'
import { Effect } from 'effect'
import type { PendingLogin } from './identity-provider.ts'

/** A person reads the pages of the provider, and perhaps searches for a second factor. */
export const PENDING_SECONDS = 600

const PURPOSE = 'pending-login'
const OWNER = 'operations-api'

interface Content extends PendingLogin {
  /** Milliseconds since the epoch. */
  readonly validUntil: number
}

export const makePendingLogins = (masterKey: MasterKeyEncryption['Service']) => ({
  encode: (pending: PendingLogin, now: number): string => {
    const content: Content = { ...pending, validUntil: now + PENDING_SECONDS * 1000 }
    return masterKey.encrypt(PURPOSE, OWNER, Buffer.from(JSON.stringify(content))).toString('base64url')
  },
  /** `null`: the hub has not written the text, or its time is over. */
  decode: (text: string | null, now: number): Effect.Effect<PendingLogin | null, StorageUnavailable> =>
    text === null
      ? Effect.succeed(null)
      : masterKey.decrypt(PURPOSE, OWNER, Buffer.from(text, 'base64url')).pipe(
          Effect.map((plain) => JSON.parse(plain.toString('utf8')) as Content),
          Effect.map(({ validUntil, ...pending }) => (now < validUntil ? pending : null)),
          Effect.catchTag('DecryptionFailed', () => Effect.succeed(null)),
        ),
})
