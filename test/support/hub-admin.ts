/**
 * Does what hub staff do with `hubctl`: creates accounts and API keys, changes limits, moderates,
 * and records opt-outs. It writes the tables directly. Each test creates its own account, so that
 * tests do not consume the limits of others.
 */
import { createHash, randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { decodeId, encodeId, type IdPrefix, newId, numberRangeOf, recipientHash } from '@hub/domain'
import { openDatabase } from '@hub/testkit'
import { type TestHub } from './hub.ts'
import { type Client, client } from './client.ts'

export type Mode = 'live' | 'test'

/** Settings of an account in one mode. An absent setting has the default of the contract. */
export interface Settings {
  readonly api_rps?: number
  readonly batch_max?: number
  readonly flood_pause_seconds?: number
  readonly flood_per_hour?: number
  readonly flood_per_day?: number
  readonly spend_limit?: string | null
  readonly soft_threshold_percent?: number
  readonly price_otp?: string
  readonly price_service?: string
}

export interface Account {
  readonly uuid: string
  /** `acc_…` */
  readonly id: string
  readonly keys: Readonly<Record<Mode, string>>
  readonly test: Client
  readonly live: Client
}

export interface SenderRow {
  readonly name: string
  readonly status?: 'pending' | 'registered' | 'declined'
}

export interface TemplateRow {
  readonly name: string
  readonly class: 'otp' | 'service'
  readonly body: string
  readonly sender?: string
  readonly status?: 'pending_moderation' | 'approved' | 'declined'
  readonly reason?: string
}

const newUuid = (prefix: IdPrefix): string => {
  const uuid = decodeId(prefix, newId(prefix, Date.now(), randomBytes(10)))
  if (uuid === null) throw new Error('a new id does not decode')
  return uuid
}

const newKey = (mode: Mode): string =>
  `hub_${mode}_${BigInt(`0x${randomBytes(32).toString('hex')}`)
    .toString(36)
    .padStart(50, '0')}`

/** Requests per second. High enough that no test meets the request rate unless it sets one. */
const UNLIMITED_API_RPS = 100_000

/** The templates of every test account, in both modes. */
const TEMPLATES: ReadonlyArray<TemplateRow> = [
  { name: 'otp_code', class: 'otp', body: 'Code {{code}}' },
  { name: 'order_ready', class: 'service', body: 'Заказ {{order}} готов' },
]

interface HubAdminOptions {
  /** Creates the clients of new accounts. Default: `client`. */
  readonly connect?: (key: string) => Client
}

/** Opens the tables of a hub. The caller must call `close`. */
export const makeHubAdmin = (hub: Pick<TestHub, 'describe' | 'dataDir'>, options: HubAdminOptions = {}) => {
  const { base_url, database_url } = hub.describe()
  const connect = options.connect ?? ((key: string) => client(base_url, key))
  const sql = openDatabase(database_url)
  const secrets = JSON.parse(readFileSync(join(hub.dataDir, 'secrets.json'), 'utf8')) as {
    readonly numberHashSecret: string
  }
  let accounts = 0

  const hashOf = (number: string): Buffer =>
    Buffer.from(recipientHash(secrets.numberHashSecret, number), 'hex')

  /**
   * Issues an API key. `allowed` lists the permitted client addresses in CIDR notation. A key with scopes has another
   * hash: docs/security.md.
   */
  const issueKey = async (
    account: Pick<Account, 'uuid'>,
    mode: Mode,
    allowed: ReadonlyArray<string> | null = null,
    scopes: ReadonlyArray<string> | null = null,
  ): Promise<string> => {
    const value = newKey(mode)
    const digest = createHash('sha256').update(value).digest()
    const hash =
      scopes === null
        ? digest
        : createHash('sha256')
            .update(`scoped ${digest.toString('hex')}`)
            .digest()
    const id = newUuid('key')
    await sql`INSERT INTO command.api_keys (id, account, mode, hash, last_four, allowed_addresses)
      VALUES (${id}, ${account.uuid}, ${mode}, ${hash}, ${value.slice(-4)},
              ${allowed as Array<string> | null}::text[]::cidr[])`
    // The schema of an earlier version has no such column.
    if (scopes !== null) {
      await sql`UPDATE command.api_keys SET scopes = ${scopes as Array<string>}::text[] WHERE id = ${id}`
    }
    return value
  }

  const revokeKey = async (value: string): Promise<void> => {
    await sql`UPDATE command.api_keys SET revoked_at = now()
      WHERE hash = ${createHash('sha256').update(value).digest()}`
  }

  const addSender = async (account: Pick<Account, 'uuid'>, mode: Mode, row: SenderRow): Promise<void> => {
    await sql`INSERT INTO command.senders (id, account, mode, name, status)
      VALUES (${newUuid('snd')}, ${account.uuid}, ${mode}, ${row.name}, ${row.status ?? 'registered'})
      ON CONFLICT (account, mode, name) DO UPDATE SET status = EXCLUDED.status`
  }

  const addTemplate = async (account: Pick<Account, 'uuid'>, mode: Mode, row: TemplateRow): Promise<void> => {
    await sql`INSERT INTO command.templates (id, account, mode, name, class, sender, body, status, reason)
      VALUES (${newUuid('tpl')}, ${account.uuid}, ${mode}, ${row.name}, ${row.class}, ${row.sender ?? 'HUB'},
              ${row.body}, ${row.status ?? 'approved'}, ${row.reason ?? null})
      ON CONFLICT (account, mode, name) DO UPDATE SET status = EXCLUDED.status, reason = EXCLUDED.reason`
  }

  /** Replaces the settings of an account in a mode. The hub applies them within two seconds. */
  const setAccountSettings = async (
    account: Pick<Account, 'uuid'>,
    mode: Mode,
    values: Settings,
  ): Promise<void> => {
    const row = {
      account: account.uuid,
      mode,
      api_rps: values.api_rps ?? UNLIMITED_API_RPS,
      batch_max: values.batch_max ?? null,
      flood_pause_seconds: values.flood_pause_seconds ?? null,
      flood_per_hour: values.flood_per_hour ?? null,
      flood_per_day: values.flood_per_day ?? null,
      spend_limit: values.spend_limit ?? null,
      soft_threshold_percent: values.soft_threshold_percent ?? null,
      price_otp: values.price_otp ?? null,
      price_service: values.price_service ?? null,
    }
    await sql`INSERT INTO command.account_settings ${sql(row)}
      ON CONFLICT (account, mode) DO UPDATE SET ${sql(row, 'api_rps', 'batch_max', 'flood_pause_seconds', 'flood_per_hour', 'flood_per_day', 'spend_limit', 'soft_threshold_percent', 'price_otp', 'price_service')}`
  }

  /** Creates an account with a key in each mode, the sender `HUB` and both templates. */
  const createAccount = async (
    values: { readonly live?: Settings; readonly test?: Settings } = {},
  ): Promise<Account> => {
    const uuid = newUuid('acc')
    accounts += 1
    await sql`INSERT INTO command.accounts (id, name) VALUES (${uuid}, ${`Test account ${accounts}`})`
    for (const mode of ['live', 'test'] as const) {
      await setAccountSettings({ uuid }, mode, values[mode] ?? {})
      await addSender({ uuid }, mode, { name: 'HUB' })
      for (const row of TEMPLATES) await addTemplate({ uuid }, mode, row)
    }
    const keys = { live: await issueKey({ uuid }, 'live'), test: await issueKey({ uuid }, 'test') }
    return { uuid, id: encodeId('acc', uuid), keys, test: connect(keys.test), live: connect(keys.live) }
  }

  return {
    sql,
    createAccount,
    issueKey,
    revokeKey,
    addSender,
    addTemplate,
    setAccountSettings,
    /** Opts a number out of service messages. */
    optOut: async (number: string): Promise<void> => {
      await sql`INSERT INTO command.opt_outs (recipient, source) VALUES (${hashOf(number)}, 'operator')
        ON CONFLICT DO NOTHING`
    },
    optIn: async (number: string): Promise<void> => {
      await sql`DELETE FROM command.opt_outs WHERE recipient = ${hashOf(number)}`
    },
    /** Blocks the range of a number for an account, for an hour. */
    blockRange: async ({ uuid }: Pick<Account, 'uuid'>, number: string): Promise<void> => {
      await sql`INSERT INTO command.range_blocks (account, number_range, until, reason, blocked_by)
        VALUES (${uuid}, ${numberRangeOf(number)}, now() + interval '1 hour', 'a test', 'a test')`
    },
    unblockRanges: async ({ uuid }: Pick<Account, 'uuid'>): Promise<void> => {
      await sql`DELETE FROM command.range_blocks WHERE account = ${uuid}`
    },
    /** Replaces the settings of the whole hub. An absent value removes the setting. */
    setHubSettings: async (values: {
      readonly daily_limit?: number | null
      readonly stopped_until?: Date | null
    }): Promise<void> => {
      await sql`UPDATE command.hub_settings
        SET daily_limit = ${values.daily_limit ?? null}, stopped_until = ${values.stopped_until ?? null}`
    },
    /** Ends an idempotency lock now, as if its minute had passed. Returns the number of locks. */
    expireLock: async (of: Account, mode: Mode, idempotencyKey: string): Promise<number> => {
      const rows = await sql`UPDATE command.idempotency_keys SET lease_until = now() - interval '1 second'
        WHERE account = ${of.uuid} AND mode = ${mode} AND key = ${idempotencyKey} RETURNING 1`
      return rows.length
    },
    /**
     * Makes the batches that are open one minute older, as if the minute had passed after which the
     * sweeper seals them. Only when no request runs any more. Returns their number.
     */
    ageOpenBatches: async (): Promise<number> => {
      const rows = await sql`UPDATE command.batches SET created_at = created_at - interval '1 minute'
        WHERE sealed_at IS NULL RETURNING 1`
      return rows.length
    },
    close: (): Promise<void> => sql.end(),
  }
}
export type HubAdmin = ReturnType<typeof makeHubAdmin>

let numbers = 0
/** Returns a number that no test of this file has used and that is no sandbox number. */
export const freshNumber = (): string => {
  numbers += 1
  return `+7911${String(numbers).padStart(7, '0')}`
}
