/**
 * The SASL mechanism OAUTHBEARER (RFC 7628) with tokens of a token endpoint.
 *
 * That of kafkajs 2.2.4 does not read the answer of the broker: it takes a refused token for an accepted one, and the
 * next request then fails with another error.
 */
import type { AuthenticationProviderArgs, Mechanism } from 'kafkajs'
import type { TokenClient } from './access-token.ts'

export interface TokenCredentials {
  readonly mechanism: 'oauthbearer'
  readonly client: TokenClient
  /** Further pairs for the broker, such as the cluster at a hosted Kafka. */
  readonly extensions: Readonly<Record<string, string>>
}

/** The broker refuses the token. */
class TokenRejected extends Error {
  override readonly name = 'TokenRejected'
  /** Repeating the request without a new connection is useless. For kafkajs. */
  readonly retriable = false
}

/** Separates the pairs of a message. Source: RFC 7628, 3.1. */
const SEPARATOR = '\u0001'

/** The first message of the client. Its extensions follow the token, as those of Kafka's own clients do (KIP-342). */
export const initialResponse = (token: string, extensions: Readonly<Record<string, string>>): string =>
  [
    'n,,',
    `auth=Bearer ${token}`,
    ...Object.entries(extensions).map(([name, value]) => `${name}=${value}`),
    SEPARATOR,
  ].join(SEPARATOR)

const SIZE_BYTES = 4

/** kafkajs sends messages of mechanisms with their size before them, and gives answers in the same form. */
const withSize = (text: string): Buffer => {
  const octets = Buffer.alloc(SIZE_BYTES + Buffer.byteLength(text))
  octets.writeInt32BE(octets.length - SIZE_BYTES)
  octets.write(text, SIZE_BYTES)
  return octets
}

const isSaslRefusal = (error: unknown): boolean =>
  typeof error === 'object' && error !== null && Reflect.get(error, 'type') === 'SASL_AUTHENTICATION_FAILED'

/** Sends a message. Returns the answer of the broker, without its size. */
const exchange = async (
  saslAuthenticate: AuthenticationProviderArgs['saslAuthenticate'],
  text: string,
): Promise<Buffer> => {
  const answer = await saslAuthenticate({
    request: { encode: () => withSize(text) },
    response: { decode: (raw) => raw, parse: (raw) => raw },
  })
  return answer === undefined ? Buffer.alloc(0) : answer.subarray(SIZE_BYTES)
}

/** `onFailedRenewal` gets the code of a failure, while an older token is still valid. */
export const oauthBearer = (
  { client, extensions }: TokenCredentials,
  onFailedRenewal: (code: string) => void,
): Mechanism => ({
  mechanism: 'oauthbearer',
  authenticationProvider: ({ saslAuthenticate }) => ({
    authenticate: async () => {
      // Loaded by those who need it: the first step of a process loads as little as possible.
      const { tokenSourceOf } = await import('./access-token.ts')
      const token = await tokenSourceOf(client).token(onFailedRenewal)
      try {
        const answer = await exchange(saslAuthenticate, initialResponse(token, extensions))
        if (answer.length === 0) return
        // The answer to a refused token is a text. The client ends the exchange, and the broker then closes the
        // connection (RFC 7628, 3.2.3).
        await exchange(saslAuthenticate, SEPARATOR)
      } catch (error) {
        if (!isSaslRefusal(error)) throw error
      }
      throw new TokenRejected('the broker refuses the token')
    },
  }),
})
