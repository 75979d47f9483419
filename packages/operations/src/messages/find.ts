/**
 * Finds what somebody typed into the search: messages by phone number, `client_ref` or the id at an
 * SMS operator, and any resource of the hub by its id. See docs/decisions/search.md#search-of-hub-staff.
 *
 * A phone number is hashed at once. It is in no log, audit line, answer or address of a page.
 */
import { settings } from '@hub/config'
import { decodeId, encodeId, ID_PREFIXES, type IdPrefix, recipientHash, toTimestamp } from '@hub/domain'
import {
  CommandClientRefs,
  type Queries,
  ReadEvents,
  ReadMessages,
  ReadOperatorIds,
  timeOfUuid,
  uuidOf,
  WebhooksAttempts,
} from '@hub/store'
import { Clock, Effect, Redacted, Schema } from 'effect'
import { publicId, Timestamp } from '../fields.ts'
import { ownerOf } from '../owners.ts'
import { query } from '../sql.ts'
import { defineUseCase } from '../use-case.ts'
import { OPERATORS } from './find-by.ts'
import { Message, readInOrder, toMessage } from './message.ts'
import { type Recognized, recognize } from './recognize.ts'
import { readRequest } from './read-request.ts'

const TYPES = [
  'message',
  'batch',
  'event',
  'webhook_batch',
  'webhook_delivery',
  'webhook_endpoint',
  'template',
  'sender',
  'account',
  'api_key',
  'request',
] as const

/** One thing that was found. `message` is set for a message, and for the event of a message. */
const Hit = Schema.Struct({
  type: Schema.Literals(TYPES),
  id: Schema.String,
  account: Schema.NullOr(Schema.String),
  webhook_endpoint: Schema.NullOr(Schema.String).annotate({
    description: 'The subscription of a webhook batch or of a delivery.',
  }),
  message: Schema.NullOr(Message),
  at: Schema.NullOr(Timestamp).annotate({ description: 'The time in the id of a request.' }),
})
type Hit = typeof Hit.Type

const KINDS = ['number', 'recipient', 'id', 'malformed_id', 'text'] as const

export const SearchResult = Schema.Struct({
  object: Schema.Literal('search_result'),
  kind: Schema.Literals(KINDS).annotate({ description: 'What the hub took the text for.' }),
  data: Schema.Array(Hit),
  explanation: Schema.NullOr(Schema.String).annotate({
    description: 'Why nothing was found, or what else to know; `null`: nothing.',
  }),
}).annotate({ identifier: 'SearchResult' })

/** Hits of one search. More messages of a recipient are in its pages. */
const MOST_HITS = 50

const hit = (type: Hit['type'], id: string, rest: Partial<Hit> = {}): Hit => ({
  type,
  id,
  account: null,
  webhook_endpoint: null,
  message: null,
  at: null,
  ...rest,
})

const messageHits = async (q: Queries, ids: ReadonlyArray<string>): Promise<ReadonlyArray<Hit>> =>
  (await readInOrder(q, ids))
    .map(toMessage)
    .map((message) => hit('message', message.id, { account: message.account, message }))

/** The message of an event; `null`: the event is about something else. */
const subjectOf = (body: string): string | null => {
  const { data } = JSON.parse(body) as { readonly data: { readonly object: { readonly id?: unknown } } }
  return typeof data.object.id === 'string' ? decodeId('msg', data.object.id) : null
}

type Finder = (q: Queries, id: string, uuid: string) => Promise<ReadonlyArray<Hit>>

const bySubscription = (type: Hit['type'], id: string, subscriptions: Iterable<string>): ReadonlyArray<Hit> =>
  [...new Set(subscriptions)].map((subscription) =>
    hit(type, id, { webhook_endpoint: encodeId('we', subscription) }),
  )

const ofAccount =
  (type: Hit['type'], prefix: Exclude<IdPrefix, 'req'>): Finder =>
  async (q, id, uuid) => {
    const account = await ownerOf(q, prefix, uuid)
    return account === null ? [] : [hit(type, id, { account })]
  }

/** How to find a resource by its id. */
const BY_ID: Readonly<Record<Exclude<IdPrefix, 'req'>, Finder>> = {
  msg: (q, _, uuid) => messageHits(q, [uuid]),
  evt: async (q, id, uuid) => {
    const event = await ReadEvents.read(q, uuid)
    if (event === null) return []
    const subject = subjectOf(event.body)
    const [row] = subject === null ? [] : await readInOrder(q, [subject])
    return [
      hit('event', id, {
        account: encodeId('acc', event.account),
        message: row === undefined ? null : toMessage(row),
      }),
    ]
  },
  evb: async (q, id, uuid) => {
    const events = await WebhooksAttempts.readBatchEvents(q, uuid)
    return bySubscription(
      'webhook_batch',
      id,
      events.map(({ subscriptionId }) => subscriptionId),
    )
  },
  whd: async (q, id, uuid) => {
    const subscription = await WebhooksAttempts.findSubscription(q, uuid)
    return bySubscription('webhook_delivery', id, subscription === null ? [] : [subscription])
  },
  bat: ofAccount('batch', 'bat'),
  we: ofAccount('webhook_endpoint', 'we'),
  tpl: ofAccount('template', 'tpl'),
  snd: ofAccount('sender', 'snd'),
  acc: ofAccount('account', 'acc'),
  key: ofAccount('api_key', 'key'),
}

const NO_MESSAGES =
  'No message has this request id. The request may have sent nothing. The hub cannot find messages that waited for ' +
  'Kafka before they were published, and those of older versions. The log lines of command-api (request_id) and sampled traces (hub.request_id) ' +
  'have the id too, and the messages that were accepted within seconds after `at` are a start.'
const NO_KAFKA = 'Kafka did not answer in time. Try again.'
const FUTURE_REQUEST =
  'The time in this request id is in the future. Compare it with its source: a character may be wrong.'

/** The clocks of the hub's machines differ by seconds. */
const CLOCKS_DIFFER_BY_MS = 60_000

/** The hits of a request: its batch and its messages, and the request itself if none was found. */
const findRequest = Effect.fnUntraced(function* (id: string, uuid: string, account: string | null) {
  const at = timeOfUuid(uuid)
  if (at > (yield* Clock.currentTimeMillis) + CLOCKS_DIFFER_BY_MS) {
    return { data: [], explanation: FUTURE_REQUEST }
  }
  const itself = hit('request', id, { at: toTimestamp(at) })
  const found = yield* readRequest(id, at)
  if (found === null) return { data: [itself], explanation: NO_KAFKA }
  const facts = found.filter((fact) => account === null || fact.account === account)
  const [first] = facts
  if (first === undefined) return { data: [itself], explanation: NO_MESSAGES }
  const shown = facts.slice(0, MOST_HITS)
  const rows = yield* query((q) =>
    readInOrder(
      q,
      shown.map(({ messageId }) => uuidOf('msg', messageId)),
    ),
  )
  const messages = new Map(rows.map((row) => [encodeId('msg', row.id), toMessage(row)]))
  return {
    data: [
      ...(first.batch === null ? [] : [hit('batch', first.batch, { account: first.account })]),
      ...shown.map((fact) =>
        hit('message', fact.messageId, {
          account: fact.account,
          message: messages.get(fact.messageId) ?? null,
        }),
      ),
    ],
    explanation:
      facts.length > shown.length
        ? `The request has ${facts.length} messages, and these are the first ${shown.length}. Its batch has all of them.`
        : null,
  }
})

const findById = Effect.fnUntraced(function* (
  { id, prefix, uuid }: Extract<Recognized, { kind: 'id' }>,
  account: string | null,
) {
  if (prefix === 'req') return yield* findRequest(id, uuid, account)
  return { data: yield* query((q) => BY_ID[prefix](q, id, uuid)), explanation: null }
})

const NUMBER_RULE =
  'The hub has messages of the last year by phone number. Those of an erased recipient, and older ones, have no number any more.'

const idRule = (prefix: IdPrefix): string =>
  `The id of ${/^[ae]/iu.test(ID_PREFIXES[prefix]) ? 'an' : 'a'} ${ID_PREFIXES[prefix]} is ${prefix}_ and 26 characters: digits and lower-case letters without i, l, o and u. ` +
  'Compare it with its source: a character may be missing.'

const NOTHING_BY_ID =
  'The hub has nothing with this id. Records older than three years are not shown, and new ones are visible when the ' +
  'projectors have recorded them.'

const NOTHING_BY_TEXT =
  'No message has this client_ref, or this id at an SMS operator (stored for 90 days). The hub also finds phone numbers ' +
  `(+79…) and its own ids: ${Object.keys(ID_PREFIXES)
    .map((prefix) => `${prefix}_…`)
    .join(', ')}.`

const findText = async (q: Queries, text: string, account: string | null): Promise<ReadonlyArray<string>> => {
  const [byReference, byOperator] = [
    account === null
      ? await CommandClientRefs.findInAllAccounts(q, text, MOST_HITS)
      : await CommandClientRefs.findMessages(q, account, null, text),
    await ReadOperatorIds.findMessages(
      q,
      OPERATORS.map((operator) => ({ operator, operatorId: text, recipient: null })),
    ),
  ]
  return [...new Set([...byReference, ...byOperator.map(({ message_id }) => message_id).toReversed()])]
}

/** The recipient hash of a number; `null`: nothing to hash. */
const hashOf = (recognized: Recognized) =>
  recognized.kind === 'recipient'
    ? Effect.succeed(recognized.hash)
    : recognized.kind === 'number'
      ? Effect.map(settings.numberHashSecret.config, (secret) =>
          recipientHash(Redacted.value(secret), recognized.number),
        )
      : Effect.succeed(null)

const idsOf = async (
  q: Queries,
  recognized: Recognized,
  hash: string | null,
  account: string | null,
): Promise<ReadonlyArray<string>> => {
  const ofRecipient = hash === null ? [] : await ReadMessages.findOfRecipient(q, hash, account, MOST_HITS)
  if (recognized.kind === 'text') return findText(q, recognized.text, account)
  if (recognized.kind !== 'number' || recognized.text === null) return ofRecipient
  return [...new Set([...(await findText(q, recognized.text, account)), ...ofRecipient])]
}

const explanationOf = (recognized: Recognized, found: number): string | null => {
  if (recognized.kind === 'malformed_id') return idRule(recognized.prefix)
  if (found > 0) return null
  if (recognized.kind === 'id') return NOTHING_BY_ID
  return recognized.kind === 'text' ? NOTHING_BY_TEXT : NUMBER_RULE
}

/** Characters of a search: more than any id, `client_ref` or operator's id has. */
const MAX_LENGTH = 300

export const find = defineUseCase({
  name: 'messages search',
  permission: 'messages.read',
  members: 'named',
  input: Schema.Struct({
    q: Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(MAX_LENGTH)).annotate({
      description:
        'A phone number, an id of the hub, a `client_ref`, or the id of a message at an SMS operator.',
    }),
    account: Schema.NullOr(publicId('acc')).annotate({
      description: 'Only messages of this account; `null`: of all.',
    }),
  }),
  output: SearchResult,
  // A number, and a client_ref that contains one against the documentation, stay out of the audit trail.
  audit: ({ account, q }) => {
    const recognized = recognize(q)
    return { by: recognized.kind, ...(recognized.kind === 'id' ? { id: recognized.id } : {}), account }
  },
  result: ({ data }) => ({ found: data.length }),
  counts: ({ q }) => recognize(q).kind === 'number',
  run: ({ account, q: typed }) =>
    Effect.gen(function* () {
      const recognized = recognize(typed)
      const hash = yield* hashOf(recognized)
      const owner = account === null ? null : decodeId('acc', account)
      const found =
        recognized.kind === 'id'
          ? yield* findById(recognized, account)
          : yield* query(async (q) => {
              const ids = await idsOf(q, recognized, hash, owner)
              return { data: await messageHits(q, ids.slice(0, MOST_HITS)), explanation: null }
            })
      const data = found.data.filter(
        ({ account: of, message }) => account === null || message === null || of === account,
      )
      return {
        object: 'search_result' as const,
        kind: recognized.kind,
        data,
        explanation: found.explanation ?? explanationOf(recognized, data.length),
      }
    }),
})
