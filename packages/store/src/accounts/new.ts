/**
 * Inserts accounts, API keys, senders and templates, in the transaction of the caller. Existing
 * rows never change.
 */
import type { Queries } from '../sql.ts'

/** Returns whether the account was inserted. `id`: UUID. */
export const insertAccount = async (
  q: Queries,
  account: { readonly id: string; readonly name: string },
): Promise<boolean> => {
  const inserted = await q`
    INSERT INTO command.accounts (id, name) VALUES (${account.id}, ${account.name}) ON CONFLICT DO NOTHING`
  return inserted.count > 0
}

type Mode = 'live' | 'test'

/** A new API key. The database stores its digest and last characters, never the key itself. */
export interface NewApiKey {
  /** UUID. */
  readonly id: string
  /** UUID. */
  readonly account: string
  readonly mode: Mode
  /** SHA-256 of the key, hexadecimal. */
  readonly digest: string
  /** The last four characters, which clients see. */
  readonly ending: string
  /** The networks from which it may be used, in CIDR notation; `null`: any; an empty list: none. */
  readonly allowed: ReadonlyArray<string> | null
}

/** Returns whether the key was inserted. */
export const insertApiKey = async (q: Queries, key: NewApiKey): Promise<boolean> => {
  const inserted = await q`
    INSERT INTO command.api_keys (id, account, mode, hash, last_four, allowed_addresses)
    VALUES (${key.id}, ${key.account}, ${key.mode}, decode(${key.digest}, 'hex'), ${key.ending},
            ${key.allowed === null ? null : [...key.allowed]}::text[]::cidr[])
    ON CONFLICT DO NOTHING`
  return inserted.count > 0
}

/** A value of a JSON column. */
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

/** Returns `null` if the account has a sender of this name and mode. `registration`: JSON text. */
export const insertSender = async (
  q: Queries,
  sender: Pick<StoredSender, 'id' | 'mode' | 'name' | 'status'> & {
    readonly account: string
    readonly registration: string | null
  },
): Promise<StoredSender | null> => {
  // Passed as text: the driver would treat an object as one of its own types.
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

/** `null`: the template exists. Violates `TEMPLATE_SENDER_FOREIGN_KEY` if the sender does not. */
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

/** The constraint that a template with an unknown sender violates. */
export const TEMPLATE_SENDER_FOREIGN_KEY = 'templates_account_mode_sender_fkey'
