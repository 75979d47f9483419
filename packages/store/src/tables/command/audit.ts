/**
 * `command.audit`: the audit trail.
 *
 * Owner: operations, which records what hub staff do. command-api records refused client addresses.
 * Rows are only added.
 */
import type { Queries } from '../../sql.ts'

/** A valid API key that was used from an address that may not use it. */
interface RefusedAddress {
  /** UUID of the entry. */
  readonly run: string
  /** `key_…` */
  readonly key: string
  /** `acc_…` */
  readonly account: string
  readonly address: string
}

/** Records a refused address, as an entry that has failed. */
export const insertRefusedAddress = async (
  q: Queries,
  { account, address, key, run }: RefusedAddress,
): Promise<void> => {
  const facts = JSON.stringify({ key, account, address })
  const detail = JSON.stringify({ code: 'address_not_allowed' })
  await q`
    INSERT INTO command.audit (run, actor, command, arguments, outcome, detail)
    VALUES (${run}, 'command-api', 'api refuse-address', ${facts}::text::jsonb, 'begun', NULL),
           (${run}, 'command-api', 'api refuse-address', ${facts}::text::jsonb, 'failed', ${detail}::text::jsonb)`
}
