/** Small histories, one for each kind of violation, and correct ones. */
import { createHmac } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { checkHistory } from './check.ts'
import { GUARANTEES, type Guarantee } from './finding.ts'
import type { BatchEntry, Entry, EventEntry, FinalEntry, SendEntry, WebhookEntry } from './history.ts'
import { historyOf } from './read-history.ts'
import { signatureMistake } from './signature.ts'

const T = 1_000_000
const NUMBER = '+79110000001'

const run: Entry = {
  kind: 'run',
  at: T,
  seed: 1,
  rate: 1,
  seconds: 60,
  accounts: [
    {
      name: 'main',
      prices: { otp: 100, service: 150 },
      spendLimit: 1000,
      pauseSeconds: 60,
      perHour: 2,
      subscriptions: ['hook'],
    },
  ],
  lifetimeMs: { otp: 30_000, service: 60_000 },
}

const send = (more: Partial<SendEntry> = {}): SendEntry => ({
  kind: 'send',
  began: T + 100,
  ended: T + 150,
  status: 202,
  code: null,
  unknown: false,
  account: 'main',
  class: 'service',
  ref: 'r1',
  hasClientRef: true,
  number: NUMBER,
  key: null,
  id: 'msg_1',
  duplicate: false,
  window: null,
  replayed: false,
  digest: 'd1',
  retryAfter: false,
  ...more,
})

const refused = (status: number, code: string, more: Partial<SendEntry> = {}): SendEntry =>
  send({ status, code, id: null, digest: 'refusal', retryAfter: status !== 422, ...more })

const batch = (more: Partial<BatchEntry> = {}): BatchEntry => ({
  kind: 'batch',
  began: T + 100,
  ended: T + 150,
  status: 202,
  code: null,
  unknown: false,
  account: 'main',
  key: null,
  replayed: false,
  digest: 'd1',
  batch: null,
  items: [['r1', 'service', NUMBER, 'accepted', 'msg_1', null, false]],
  ...more,
})

const submit = (ref = 'r1', at = T + 200, parts = 1): Entry => ({
  kind: 'submit',
  at,
  ref,
  number: NUMBER,
  parts,
})
const report = (status = 'delivered'): Entry => ({ kind: 'report', at: T + 300, number: NUMBER, status })

const final = (more: Partial<FinalEntry> = {}): FinalEntry => ({
  kind: 'final',
  account: 'main',
  id: 'msg_1',
  clientRef: 'r1',
  class: 'service',
  state: 'delivered',
  final: true,
  reason: null,
  parts: 1,
  price: 150,
  history: [
    ['accepted', null],
    ['sent', null],
    ['delivered', null],
  ],
  ...more,
})

const event = (status: string, number: number, message = 'msg_1'): EventEntry => [
  `evt_${message}_${status}`,
  `message.${status}`,
  message,
  status,
  new Date(T + 200 + number).toISOString(),
  `digest of ${message} ${status}`,
]

const EVENTS = [event('accepted', 1), event('sent', 2), event('delivered', 3)]

const page = (events: ReadonlyArray<EventEntry>, reader: 'follower' | 'full' = 'full'): Entry => ({
  kind: 'page',
  began: T + 400,
  ended: T + 410,
  account: 'main',
  reader,
  after: null,
  events,
})

const webhook = (events: ReadonlyArray<EventEntry>, more: Partial<WebhookEntry> = {}): Entry => ({
  kind: 'webhook',
  at: T + 500,
  account: 'main',
  subscription: 'hook',
  batch: 'evb_1',
  mistake: null,
  confirmed: true,
  events: events.map(([id, , , , , digest]) => [id, digest]),
  ...more,
})

const spent = (amount: number): Entry => ({ kind: 'account', account: 'main', spent: amount })
const fault = (began: number, ended: number): Entry => ({
  kind: 'fault',
  name: 'kill',
  target: 'projector',
  began,
  ended,
})
const end: Entry = { kind: 'end', at: T + 60_000, unsettled: [] }

interface Parts {
  readonly sends?: ReadonlyArray<Entry>
  readonly submits?: ReadonlyArray<Entry>
  readonly reports?: ReadonlyArray<Entry>
  readonly reads?: ReadonlyArray<Entry>
  readonly finals?: ReadonlyArray<Entry>
  readonly pages?: ReadonlyArray<Entry>
  readonly webhooks?: ReadonlyArray<Entry>
  readonly spent?: number
  readonly more?: ReadonlyArray<Entry>
}

/** The history of one delivered message. The given parts replace its parts. */
const history = (parts: Parts = {}): ReadonlyArray<Entry> => [
  run,
  ...(parts.sends ?? [send()]),
  ...(parts.submits ?? [submit()]),
  ...(parts.reports ?? [report()]),
  ...(parts.reads ?? []),
  ...(parts.finals ?? [final()]),
  ...(parts.pages ?? [page(EVENTS, 'follower'), page(EVENTS)]),
  ...(parts.webhooks ?? [webhook(EVENTS)]),
  spent(parts.spent ?? 150),
  ...(parts.more ?? []),
  end,
]

const violated = (entries: ReadonlyArray<Entry>): ReadonlyArray<Guarantee> => [
  ...new Set(checkHistory(historyOf(entries)).findings.map(({ guarantee }) => guarantee)),
]

/** A read of the message during the run. `null`: it is not found. */
const read = (state: string | null, began = T + 300): Entry => ({
  kind: 'read',
  began,
  ended: began + 10,
  account: 'main',
  id: 'msg_1',
  status: state === null ? 404 : 200,
  state,
})

/** A message that expires without a submit. */
const EXPIRED = {
  submits: [],
  reports: [],
  finals: [
    final({
      state: 'expired',
      reason: 'ttl_expired_before_submit',
      price: 0,
      history: [
        ['accepted', null],
        ['expired', 'ttl_expired_before_submit'],
      ],
    }),
  ],
  pages: [page([event('accepted', 1), event('expired', 2)])],
  webhooks: [webhook([event('accepted', 1), event('expired', 2)])],
  spent: 0,
} satisfies Parts

const expiredAfter = (ms: number): Entry => ({
  ...EXPIRED.finals[0]!,
  history: [
    ['accepted', null, T],
    ['expired', 'ttl_expired_before_submit', T + ms],
  ],
})

const SENT = EVENTS.slice(0, 2)

/** A submitted message that expires without a report that the hub knows. */
const unreported = (reason: 'dlr_timeout' | 'dlr_timeout_local') => {
  const events = [...SENT, event('expired', 3)]
  return {
    finals: [
      final({
        state: 'expired',
        reason,
        history: [
          ['accepted', null],
          ['sent', null],
          ['expired', reason],
        ],
      }),
    ],
    pages: [page(events)],
    webhooks: [webhook(events)],
  } satisfies Parts
}

/** The events of a message that expires, and is delivered by a late report. */
const LATE = [...SENT, event('expired', 3), event('delivered', 4)]

const COMPLETED: EventEntry = [
  'evt_completed',
  'batch.completed',
  'bat_1',
  null,
  new Date(T + 300).toISOString(),
  'digest of bat_1',
]

/** Nothing was accepted. */
const NOTHING = { submits: [], reports: [], finals: [], pages: [], webhooks: [], spent: 0 } satisfies Parts

const second = { ref: 'r2', id: 'msg_2', digest: 'd2' }
const TWO = [
  ...EVENTS,
  event('accepted', 4, 'msg_2'),
  event('sent', 5, 'msg_2'),
  event('delivered', 6, 'msg_2'),
]
/** Two messages to the same recipient; `began` is the time of the second one. */
const two = (began: number, more: Parts = {}): ReadonlyArray<Entry> =>
  history({
    sends: [send(), send({ ...second, began, ended: began + 50 })],
    submits: [submit(), submit('r2', began + 60)],
    finals: [final(), final({ id: 'msg_2', clientRef: 'r2' })],
    pages: [page(TWO)],
    webhooks: [webhook(TWO)],
    spent: 300,
    ...more,
  })

describe('a correct history', () => {
  it.each<[string, ReadonlyArray<Entry>]>([
    ['of a delivered message', history()],
    [
      'of a batch',
      history({
        sends: [batch({ batch: 'bat_1' })],
        pages: [page([...EVENTS, COMPLETED])],
        webhooks: [webhook([...EVENTS, COMPLETED])],
      }),
    ],
    [
      'of a message whose lifetime ended during a fault',
      history({ ...EXPIRED, finals: [expiredAfter(60_000)], more: [fault(T, T + 70_000)] }),
    ],
    [
      'of a refused send that is accepted later',
      history({ sends: [refused(503, 'internal_error'), send({ began: T + 160, ended: T + 190 })] }),
    ],
    [
      'of a send without an answer that was submitted',
      history({ sends: [send({ status: null, id: null })] }),
    ],
    [
      'of an answer with an unknown outcome',
      history({ sends: [refused(503, 'internal_error', { unknown: true })] }),
    ],
    [
      'of a batch element with an unknown outcome',
      history({
        sends: [batch({ items: [['r1', 'otp', NUMBER, 'rejected', null, 'provider_unavailable', true]] })],
        finals: [final({ class: 'otp', price: 100 })],
        spent: 100,
      }),
    ],
    [
      'of a refused send that was never submitted',
      history({ ...NOTHING, sends: [refused(503, 'overloaded')] }),
    ],
    [
      'of a repeat with the same client_ref',
      history({ sends: [send(), send({ began: T + 160, ended: T + 170, duplicate: true, digest: 'd2' })] }),
    ],
    [
      'of a repeat with the same key',
      history({
        sends: [send({ key: 'k' }), send({ key: 'k', began: T + 160, ended: T + 170, replayed: true })],
      }),
    ],
    [
      'of a repeat with a new key after the flood windows could not be checked',
      history({
        sends: [
          refused(422, 'recipient_flood_limited', { key: 'k', began: T + 50, ended: T + 60 }),
          refused(422, 'recipient_flood_limited', { key: 'k', began: T + 70, ended: T + 80, replayed: true }),
          send({ key: 'k 2' }),
        ],
      }),
    ],
    [
      'of a late report',
      history({
        finals: [
          final({
            history: [
              ['accepted', null],
              ['sent', null],
              ['expired', 'dlr_timeout_local'],
              ['delivered', null],
            ],
          }),
        ],
        pages: [page(LATE)],
        webhooks: [webhook(LATE)],
      }),
    ],
    [
      'of a message that no submit reached during a fault',
      history({ ...EXPIRED, more: [fault(T, T + 1000)] }),
    ],
    [
      'of a message that is charged with an unknown outcome',
      history({
        ...unreported('dlr_timeout_local'),
        submits: [],
        reports: [],
        more: [fault(T, T + 1000)],
      }),
    ],
    ['of two messages to a recipient after the pause', two(T + 61_000)],
    ['of two messages within the pause, with a fault', two(T + 1000, { more: [fault(T, T + 500)] })],
    [
      'of a code within the pause, while the counters were unavailable',
      two(T + 1000, {
        sends: [
          send(),
          send({ ...second, class: 'otp', began: T + 1000, ended: T + 1050 }),
          refused(422, 'recipient_flood_limited', { ref: 'r3', began: T + 900, ended: T + 910 }),
        ],
        finals: [final(), final({ id: 'msg_2', clientRef: 'r2', class: 'otp', price: 100 })],
        spent: 250,
      }),
    ],
    [
      'of an opt-out',
      history({
        sends: [send(), refused(422, 'recipient_opted_out', { ref: 'r2', began: T + 900, ended: T + 910 })],
        more: [{ kind: 'opt-out', number: NUMBER, appliedBy: T + 800 }],
      }),
    ],
  ])('%s has no findings', (_, entries) => {
    expect(checkHistory(historyOf(entries)).findings).toEqual([])
  })
})

const CASES: ReadonlyArray<readonly [string, Guarantee, ReadonlyArray<Entry>]> = [
  ['an acknowledged message that does not exist', 'lost', history({ ...NOTHING, sends: [send()] })],
  ['a delivered message that the operator never accepted', 'lost', history({ submits: [] })],
  ['a message that expired without a submit and without a fault', 'lost', history(EXPIRED)],
  [
    'a message that expired before its lifetime had ended',
    'lost',
    history({ ...EXPIRED, finals: [expiredAfter(50_000)], more: [fault(T, T + 1000)] }),
  ],
  ['an accepted message that is not found', 'lost', history({ reads: [read(null)] })],
  [
    'a message that stays sent',
    'not-final',
    history({
      reports: [],
      finals: [
        final({
          state: 'sent',
          final: false,
          history: [
            ['accepted', null],
            ['sent', null],
          ],
        }),
      ],
      pages: [page(SENT)],
      webhooks: [webhook(SENT)],
    }),
  ],
  [
    'a message that was submitted twice',
    'duplicate-submit',
    history({ submits: [submit(), submit('r1', T + 250)] }),
  ],
  [
    'a refused send that was submitted',
    'refused-but-sent',
    history({ sends: [refused(503, 'internal_error')] }),
  ],
  [
    'a rejected batch element that was submitted',
    'refused-but-sent',
    history({
      sends: [batch({ items: [['r1', 'service', NUMBER, 'rejected', null, 'internal_error', false]] })],
    }),
  ],
  [
    'a history that goes back',
    'status-went-back',
    history({
      finals: [
        final({
          state: 'sent',
          history: [
            ['accepted', null],
            ['delivered', null],
            ['sent', null],
          ],
        }),
      ],
    }),
  ],
  [
    'a read that goes back',
    'status-went-back',
    history({ reads: [read('delivered'), read('sent', T + 400)] }),
  ],
  [
    'a final status that changes',
    'status-went-back',
    history({
      finals: [
        final({
          history: [
            ['accepted', null],
            ['sent', null],
            ['undelivered', null],
            ['delivered', null],
          ],
        }),
      ],
    }),
  ],
  [
    'a message that has gone back since it was read',
    'status-went-back',
    history({ reads: [read('undelivered')] }),
  ],
  [
    'a message that expired before its submit and was delivered',
    'status-went-back',
    history({
      finals: [
        final({
          history: [
            ['accepted', null],
            ['expired', 'ttl_expired_before_submit'],
            ['delivered', null],
          ],
        }),
      ],
    }),
  ],
  [
    'two messages with a client_ref, of which the client knows one',
    'client-ref',
    history({ finals: [final(), final({ id: 'msg_2' })] }),
  ],
  [
    'a message with another client_ref than its send',
    'client-ref',
    two(T + 61_000, { finals: [final({ clientRef: 'r2' }), final({ id: 'msg_2', clientRef: 'r1' })] }),
  ],
  [
    'two messages for a client_ref',
    'client-ref',
    history({ sends: [send(), send({ began: T + 160, ended: T + 170, id: 'msg_2' })] }),
  ],
  ['one message for two client_refs', 'client-ref', history({ sends: [send(), send({ ref: 'r2' })] })],
  [
    'another answer to a repeat with the same key',
    'idempotent-answer',
    history({
      sends: [
        send({ key: 'k' }),
        send({ key: 'k', began: T + 160, ended: T + 170, replayed: true, digest: 'd2' }),
      ],
    }),
  ],
  [
    'an answer that was not replayed',
    'idempotent-answer',
    history({
      sends: [send({ key: 'k' }), send({ key: 'k', began: T + 160, ended: T + 170, duplicate: true })],
    }),
  ],
  [
    'a refusal that was not replayed because the flood windows had not been checked',
    'idempotent-answer',
    history({
      sends: [
        refused(422, 'recipient_flood_limited', { key: 'k', began: T + 50, ended: T + 60 }),
        send({ key: 'k' }),
      ],
    }),
  ],
  ['an event twice in the journal', 'event-order', history({ pages: [page([...EVENTS, EVENTS[2]!])] })],
  [
    'an event that is older than the one before it',
    'event-order',
    history({ pages: [page([event('accepted', 9), ...EVENTS.slice(1)])] }),
  ],
  [
    'an event behind the cursor of a reader',
    'event-missed',
    history({ pages: [page([EVENTS[0]!, EVENTS[2]!], 'follower'), page(EVENTS)] }),
  ],
  [
    'an event that has changed since a reader got it',
    'event-content',
    history({
      pages: [
        page([[...EVENTS[0]!.slice(0, 5), 'other'] as unknown as EventEntry, ...EVENTS.slice(1)], 'follower'),
        page(EVENTS),
      ],
    }),
  ],
  [
    'a message without an event',
    'event-content',
    history({ pages: [page(SENT)], webhooks: [webhook(SENT)] }),
  ],
  [
    'a webhook without a signature',
    'webhook-signature',
    history({ webhooks: [webhook(EVENTS, { mistake: 'no v1 matches' })] }),
  ],
  ['an event that did not reach a subscription', 'webhook-missing', history({ webhooks: [webhook(SENT)] })],
  [
    'an event that a receiver did not confirm',
    'webhook-missing',
    history({ webhooks: [webhook(EVENTS, { confirmed: false })] }),
  ],
  [
    'events of a webhook in another order',
    'webhook-content',
    history({ webhooks: [webhook([EVENTS[1]!, EVENTS[0]!, EVENTS[2]!])] }),
  ],
  [
    'an event that differs from the journal',
    'webhook-content',
    history({
      webhooks: [webhook(EVENTS), webhook(EVENTS, { batch: 'evb_2', events: [[EVENTS[0]![0], 'other']] })],
    }),
  ],
  [
    'other events in the same webhook batch',
    'webhook-content',
    history({ webhooks: [webhook(EVENTS), webhook(EVENTS.slice(0, 1))] }),
  ],
  ['a batch that is not completed', 'event-content', history({ sends: [batch({ batch: 'bat_1' })] })],
  [
    'a batch that is completed twice',
    'event-content',
    history({
      sends: [batch({ batch: 'bat_1' })],
      pages: [
        page([...EVENTS, COMPLETED, [`${COMPLETED[0]}_2`, ...COMPLETED.slice(1)] as unknown as EventEntry]),
      ],
    }),
  ],
  ['a wrong price', 'charge', history({ finals: [final({ price: 300 })], spent: 300 })],
  ['a wrong number of parts', 'charge', history({ submits: [submit('r1', T + 200, 2)] })],
  ['a sum that differs from the messages', 'charge', history({ spent: 300 })],
  [
    'a charged message that the operator never accepted',
    'charge',
    history({ ...unreported('dlr_timeout'), submits: [] }),
  ],
  [
    'an account above its spend limit',
    'spend-limit',
    history({ finals: [final({ parts: 7, price: 1050 })], submits: [submit('r1', T + 200, 7)], spent: 1050 }),
  ],
  ['two messages within the pause', 'flood-window', two(T + 1000)],
  [
    'a code within the pause',
    'flood-window',
    two(T + 1000, { sends: [send(), send({ ...second, class: 'otp', began: T + 1000, ended: T + 1050 })] }),
  ],
  [
    'two messages within the pause, long before a fault',
    'flood-window',
    two(T + 1000, {
      sends: [0, 1000, 100_000].map((ms, i) =>
        send({ ref: `r${i}`, id: `msg_${i}`, began: T + ms, ended: T + ms + 50 }),
      ),
      more: [fault(T + 90_000, T + 95_000)],
    }),
  ],
  [
    'too many messages in an hour',
    'flood-window',
    history({
      sends: [0, 1, 2].map((i) =>
        send({ ref: `r${i}`, id: `msg_${i}`, began: T + 100_000 * i, ended: T + 100_000 * i + 50 }),
      ),
    }),
  ],
  [
    'a service message after an opt-out',
    'opt-out',
    history({ more: [{ kind: 'opt-out', number: NUMBER, appliedBy: T }] }),
  ],
  [
    'a service message after another one was refused because of the opt-out',
    'opt-out',
    two(T + 61_000, {
      sends: [refused(422, 'recipient_opted_out', { ref: 'r3', began: T + 50, ended: T + 60 }), send()],
      more: [{ kind: 'opt-out', number: NUMBER, appliedBy: T + 50_000 }],
    }),
  ],
  [
    'a batch element with a code that is not in the contract',
    'unexplained',
    history({
      ...NOTHING,
      sends: [batch({ items: [['r1', 'service', NUMBER, 'rejected', null, 'template_not_found', false]] })],
    }),
  ],
  [
    'a message that expired although the hub acknowledged its report',
    'unexplained',
    history(unreported('dlr_timeout_local')),
  ],
  ['an answer that is not in the contract', 'unexplained', history({ sends: [send(), refused(500, 'x')] })],
  [
    'a 503 without retry_after',
    'unexplained',
    history({ sends: [send(), refused(503, 'overloaded', { retryAfter: false })] }),
  ],
  ['a submit that nobody wanted', 'unexplained', history({ submits: [submit(), submit('r9')] })],
  [
    'a text without a reference',
    'unexplained',
    history({ more: [{ kind: 'submit', at: T, ref: null, number: NUMBER, parts: 1 }] }),
  ],
  [
    'a message that nobody sent',
    'unexplained',
    history({ finals: [final(), final({ id: 'msg_9', clientRef: 'r9' })] }),
  ],
  ['a delivered message without a report', 'unexplained', history({ reports: [] })],
  [
    'an undelivered message whose report says that it is delivered',
    'unexplained',
    history({ finals: [final({ state: 'undelivered', reason: 'recipient_blocked' })] }),
  ],
  [
    'a rejected message without a report',
    'unexplained',
    history({ reports: [], finals: [final({ state: 'rejected' })] }),
  ],
  [
    'a submitted message that expired before its submit',
    'unexplained',
    history({ ...EXPIRED, submits: [submit()] }),
  ],
  [
    'a flood refusal of the only message to a recipient',
    'unexplained',
    history({ ...NOTHING, sends: [refused(422, 'recipient_flood_limited', { window: 'pause' })] }),
  ],
  ['a history without an end', 'unexplained', history().slice(0, -1)],
  [
    'a code that is accepted 11 s after a fault',
    'unavailable',
    history({
      sends: [
        refused(503, 'provider_unavailable', { class: 'otp', began: T + 1000, ended: T + 1010 }),
        send({ class: 'otp', began: T + 12_900, ended: T + 13_100 }),
      ],
      more: [fault(T + 500, T + 2000)],
    }),
  ],
]

const refusedCode = (ms: number): SendEntry =>
  refused(503, 'provider_unavailable', { ref: 'r2', class: 'otp', began: T + ms, ended: T + ms + 10 })

describe('the checker finds', () => {
  it.each(CASES)('%s (%s)', (_, guarantee, entries) => {
    expect(violated(entries)).toContain(guarantee)
  })

  it('each kind of violation in one of these histories', () => {
    expect(new Set(CASES.map(([, guarantee]) => guarantee))).toEqual(new Set(Object.keys(GUARANTEES)))
  })
})

describe('the availability', () => {
  it('ends with the last send if none is accepted any more', () => {
    const entries = history({
      sends: [send(), refusedCode(1000), refusedCode(12_100)],
      more: [fault(T + 500, T + 2000)],
    })
    const { availability } = checkHistory(historyOf(entries))
    expect(availability).toMatchObject([{ longest: { otp: 11_110 }, otpAfter: null, otpFailedFor: 10_110 }])
    expect(violated(entries)).toEqual(['unavailable'])
  })

  it('is measured from a send that failed to the next one that was accepted', () => {
    const { availability } = checkHistory(
      historyOf(
        history({
          sends: [
            send({ class: 'otp' }),
            refusedCode(1000),
            refusedCode(2000),
            send({ ref: 'r3', id: 'msg_3', class: 'otp', began: T + 3500, ended: T + 3600 }),
          ],
          more: [fault(T + 900, T + 3000)],
        }),
      ),
    )
    expect(availability.map(({ longest, otpAfter }) => ({ longest, otpAfter }))).toEqual([
      { longest: { otp: 2600, service: 0 }, otpAfter: 600 },
    ])
  })
})

describe('the signature of a webhook', () => {
  const body = Buffer.from('[{"id":"evt_1"}]')
  const sign = (seconds: number, secret = 's'): string =>
    createHmac('sha256', secret).update(`${seconds}.`).update(body).digest('hex')

  it('is valid with one of two secrets', () => {
    expect(
      signatureMistake('s', `t=1000,v1=${sign(1000, 'old')},v1=${sign(1000)}`, body, 1_000_000),
    ).toBeNull()
  })
  it.each([
    [undefined, 'no Hub-Signature header'],
    [`v1=${sign(1000)}`, 'no time in Hub-Signature'],
    [`t=1000,v1=${sign(1000, 'other')}`, 'no v1 matches'],
    [`t=600,v1=${sign(600)}`, 'the time is outside of the tolerance'],
  ])('%s: %s', (header, mistake) => {
    expect(signatureMistake('s', header, body, 1_000_000)).toBe(mistake)
  })
})
