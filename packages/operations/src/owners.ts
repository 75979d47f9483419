/** The account that each thing with a public id belongs to. */
import { encodeId, type IdPrefix } from '@hub/domain'
import {
  CommandAcceptances,
  CommandAccounts,
  CommandApiKeys,
  CommandSenders,
  CommandTemplates,
  type Queries,
  ReadBatches,
  ReadEvents,
  ReadMessages,
  WebhooksAttempts,
  WebhooksEndpoints,
} from '@hub/store'

/** Something of an account (UUID). */
interface Owned {
  readonly account: string
}

/** `uuid`: of the thing. `null` or nothing: there is no such thing. */
type ReadOwned = (q: Queries, uuid: string) => Promise<Owned | null | undefined>

/** A filter of senders and templates: one row. */
const withId = (id: string) => ({ id, account: null, mode: null, status: null, after: null, limit: 1 })

const ofSubscription = async (q: Queries, subscription: string | null | undefined) =>
  subscription === null || subscription === undefined ? null : WebhooksEndpoints.readOwner(q, subscription)

/** A request belongs to no account: its messages do. */
const READ: Readonly<Record<Exclude<IdPrefix, 'req'>, ReadOwned>> = {
  acc: async (q, uuid) => ((await CommandAccounts.readName(q, uuid)) === null ? null : { account: uuid }),
  key: CommandApiKeys.read,
  tpl: async (q, uuid) => (await CommandTemplates.find(q, withId(uuid)))[0],
  snd: async (q, uuid) => (await CommandSenders.find(q, withId(uuid)))[0],
  msg: async (q, uuid) =>
    (await ReadMessages.readAll(q, [uuid]))[0] ?? (await CommandAcceptances.read(q, uuid)),
  bat: async (q, uuid) =>
    (await q<Owned[]>`SELECT account FROM (${ReadBatches.selectById(q, uuid)}) AS batch`)[0],
  evt: ReadEvents.read,
  we: WebhooksEndpoints.readOwner,
  whd: async (q, uuid) => ofSubscription(q, await WebhooksAttempts.findSubscription(q, uuid)),
  evb: async (q, uuid) =>
    ofSubscription(q, (await WebhooksAttempts.readBatchEvents(q, uuid))[0]?.subscriptionId),
}

/** The account (`acc_…`) that something belongs to; `null`: there is no such thing. */
export const ownerOf = async (
  q: Queries,
  prefix: Exclude<IdPrefix, 'req'>,
  uuid: string,
): Promise<string | null> => {
  const owned = (await READ[prefix](q, uuid)) ?? null
  return owned === null ? null : encodeId('acc', owned.account)
}
