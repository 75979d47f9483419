/**
 * New accounts, keys, senders and templates: the statements that the API, the command line and the local seeds have in common. Each takes its place in a
 * transaction of the caller's, and leaves alone what is there already.
 */
import type { Queries } from '../sql.ts'

/** Answers whether it is new. `id`: UUID. */
export const insertAccount = async (
  q: Queries,
  account: { readonly id: string; readonly name: string },
): Promise<boolean> => {
  const made = await q`
    INSERT INTO command.accounts (id, name) VALUES (${account.id}, ${account.name}) ON CONFLICT DO NOTHING`
  return made.count > 0
}

type Mode = 'live' | 'test'

/** An API key as it is issued: of the key itself, only these two are stored. */
export interface NewApiKey {
  /** UUID. */
  readonly id: string
  /** UUID. */
  readonly account: string
  readonly mode: Mode
  /** Its SHA-256, in hexadecimal digits. */
  readonly digest: string
  /** What is shown of it. */
  readonly ending: string
  /** Where it may be used, in CIDR notation; `null` is anywhere, an empty list nowhere. */
  readonly allowed: ReadonlyArray<string> | null
}

/** Answers whether it is new. */
export const insertApiKey = async (q: Queries, key: NewApiKey): Promise<boolean> => {
  const made = await q`
    INSERT INTO command.api_keys (id, account, mode, hash, last_four, allowed_addresses)
    VALUES (${key.id}, ${key.account}, ${key.mode}, decode(${key.digest}, 'hex'), ${key.ending},
            ${key.allowed === null ? null : [...key.allowed]}::text[]::cidr[])
    ON CONFLICT DO NOTHING`
  return made.count > 0
}

/** What a JSON column may hold. */
type Json = null | boolean | number | string | ReadonlyArray<Json> | { readonly [name: string]: Json }

/** A row of `command.senders`, without its account. */
export interface StoredSender {
  readonly id: string
  readonly mode: Mode
  readonly name: string
  readonly registration: Readonly<Record<string, Json>> | null
  readonly status: 'pending' | 'registered' | 'declined'
  readonly reason: string | null
  readonly created_at: Date
}

/** `null` where the account has one of this name in its mode. `registration` is JSON text. */
export const insertSender = async (
  q: Queries,
  sender: Pick<StoredSender, 'id' | 'mode' | 'name' | 'status'> & {
    readonly account: string
    readonly registration: string | null
  },
): Promise<StoredSender | null> => {
  // The driver would take an object for one of its own types: the text is cast where it arrives.
  const [row] = await q<StoredSender[]>`
    INSERT INTO command.senders (id, account, mode, name, registration, status)
    VALUES (${sender.id}, ${sender.account}, ${sender.mode}, ${sender.name}, ${sender.registration}::text::jsonb, ${sender.status})
    ON CONFLICT (account, mode, name) DO NOTHING
    RETURNING id, mode, name, registration, status, reason, created_at`
  return row ?? null
}

/** A row of `command.templates`, without its account. */
export interface StoredTemplate {
  readonly id: string
  readonly mode: Mode
  readonly name: string
  readonly class: 'otp' | 'service'
  readonly sender: string
  readonly body: string
  readonly language: string | null
  readonly status: 'pending_moderation' | 'approved' | 'declined'
  readonly reason: string | null
  readonly created_at: Date
}

/** `null` where the account has one of this name in its mode. A sender that it does not have is refused by a constraint. */
export const insertTemplate = async (
  q: Queries,
  template: Omit<StoredTemplate, 'reason' | 'created_at'> & { readonly account: string },
): Promise<StoredTemplate | null> => {
  const { account, body, id, language, mode, name, sender, status } = template
  const [row] = await q<StoredTemplate[]>`
    INSERT INTO command.templates (id, account, mode, name, class, sender, body, language, status)
    VALUES (${id}, ${account}, ${mode}, ${name}, ${template.class}, ${sender}, ${body}, ${language}, ${status})
    ON CONFLICT (account, mode, name) DO NOTHING
    RETURNING id, mode, name, class, sender, body, language, status, reason, created_at`
  return row ?? null
}

/** The constraint that a template of an unknown sender violates. */
export const TEMPLATE_SENDER_FOREIGN_KEY = 'templates_account_mode_sender_fkey'
