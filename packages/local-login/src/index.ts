/**
 * One-time login links of a local hub. `npm start` makes a link, and operations-api verifies it. Both
 * know a secret, so the link needs no server. Production refuses the secret.
 */
import { createHmac, randomUUID, timingSafeEqual } from 'node:crypto'

/** The path of a link. */
export const LOCAL_LOGIN_PATH = '/login/local'

/** A link is for the same working day. It ends earlier than the session of its first use. */
const VALID_FOR_MS = 12 * 3_600_000

export interface LocalLogin {
  /** operations-api accepts each id once. */
  readonly id: string
  /** The name in the audit trail. */
  readonly name: string
  readonly roles: ReadonlyArray<string>
  /** Milliseconds since the epoch. */
  readonly validUntil: number
}

const signatureOf = (secret: string, content: string): Buffer =>
  createHmac('sha256', secret).update(content).digest()

/** A new link. `operationsUrl`: the address of the console. `now`: milliseconds since the epoch. */
export const localLoginUrl = (
  operationsUrl: string,
  secret: string,
  { name, roles }: Pick<LocalLogin, 'name' | 'roles'>,
  now: number,
): string => {
  const login: LocalLogin = { id: randomUUID(), name, roles, validUntil: now + VALID_FOR_MS }
  const content = Buffer.from(JSON.stringify(login)).toString('base64url')
  const url = new URL(LOCAL_LOGIN_PATH, operationsUrl)
  url.searchParams.set('token', `${content}.${signatureOf(secret, content).toString('base64url')}`)
  return url.toString()
}

/** The login of a token; `null` if the signature is wrong or its time is over. */
export const readLocalLogin = (token: string, secret: string, now: number): LocalLogin | null => {
  const [content = '', signature = ''] = token.split('.')
  const given = Buffer.from(signature, 'base64url')
  const wanted = signatureOf(secret, content)
  if (given.length !== wanted.length || !timingSafeEqual(given, wanted)) return null
  // The signature proves that `localLoginUrl` wrote the content.
  const login = JSON.parse(Buffer.from(content, 'base64url').toString('utf8')) as LocalLogin
  return now < login.validUntil ? login : null
}
