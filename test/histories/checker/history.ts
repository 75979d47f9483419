/**
 * The recorded history of a run: what clients, webhook receivers and the operator saw from outside.
 * Each line of the file is one entry. All times are milliseconds since the epoch by one clock.
 *
 * This folder shares no code with the hub. It knows only the contract.
 */

export type MessageClass = 'otp' | 'service'

/** The limits of an account, which hub staff have set before the run. */
export interface AccountLimits {
  readonly name: string
  /** The price of a part. */
  readonly prices: Readonly<Record<MessageClass, number>>
  readonly spendLimit: number
  readonly pauseSeconds: number
  readonly perHour: number
  /** The names of its subscriptions. Each gets all events. */
  readonly subscriptions: ReadonlyArray<string>
}

export interface RunEntry {
  readonly kind: 'run'
  readonly at: number
  readonly seed: number
  /** Wanted sends per second. */
  readonly rate: number
  readonly seconds: number
  readonly accounts: ReadonlyArray<AccountLimits>
  /** How long a message may wait for its submit. */
  readonly lifetimeMs: Readonly<Record<MessageClass, number>>
}

/** The answer to a request. Without a `status`, the connection broke or the client gave up. */
export interface RequestTimes {
  readonly began: number
  readonly ended: number
  readonly status: number | null
  /** The error code of the answer. */
  readonly code: string | null
  /** The answer said `"outcome": "unknown"`. */
  readonly unknown: boolean
}

/** A single send. */
export interface SendEntry extends RequestTimes {
  readonly kind: 'send'
  readonly account: string
  readonly class: MessageClass
  /** Identifies what the client wanted to send once. It is in the text of the message. */
  readonly ref: string
  /** Whether `ref` was the `client_ref` of the request. */
  readonly hasClientRef: boolean
  readonly number: string
  /** The `Idempotency-Key`. All requests with the same key have the same body. */
  readonly key: string | null
  readonly id: string | null
  readonly duplicate: boolean
  /** `recipient_flood_limited`: the window. */
  readonly window: string | null
  readonly replayed: boolean
  /** A digest of the body of the answer. */
  readonly digest: string | null
  /** Whether an answer 429, 503 or 409 had `retry_after`. */
  readonly retryAfter: boolean
}

export type BatchResult = 'accepted' | 'duplicate' | 'rejected'

export interface BatchEntry extends RequestTimes {
  readonly kind: 'batch'
  readonly account: string
  readonly key: string | null
  readonly replayed: boolean
  readonly digest: string | null
  /** The id of the batch that the answer names. */
  readonly batch: string | null
  /** The result is null if the whole request was refused or not answered. */
  readonly items: ReadonlyArray<
    readonly [
      ref: string,
      messageClass: MessageClass,
      number: string,
      result: BatchResult | null,
      id: string | null,
      code: string | null,
      /** The error of the element said `"outcome": "unknown"`. */
      isUnknown: boolean,
    ]
  >
}

/** The operator accepted all parts of a message. */
export interface SubmitEntry {
  readonly kind: 'submit'
  readonly at: number
  /** From the text. Null if the text has none. */
  readonly ref: string | null
  readonly number: string
  readonly parts: number
}

/** The operator accepted some parts of a message, and never the others. Written at the end. */
export interface IncompleteEntry {
  readonly kind: 'incomplete'
  readonly at: number
  readonly number: string
  readonly parts: number
}

/** The hub acknowledged a delivery report for a part of a message. */
export interface ReportEntry {
  readonly kind: 'report'
  readonly at: number
  readonly number: string
  readonly status: string
}

/** An event as in the journal or a webhook, with the message or batch that it is about. */
export type EventEntry = readonly [
  id: string,
  type: string,
  about: string | null,
  status: string | null,
  createdAt: string,
  digest: string,
]

export interface WebhookEntry {
  readonly kind: 'webhook'
  readonly at: number
  readonly account: string
  readonly subscription: string
  /** `Hub-Event-Id`. */
  readonly batch: string
  /** Null: valid. Otherwise the mistake. */
  readonly mistake: string | null
  /** Whether the receiver answered 2xx. */
  readonly confirmed: boolean
  /** Id and digest of each event, in order. */
  readonly events: ReadonlyArray<readonly [id: string, digest: string]>
}

/** A page of `GET /v1/events`. */
export interface PageEntry {
  readonly kind: 'page'
  readonly began: number
  readonly ended: number
  readonly account: string
  /** `follower`: during the run. `full`: from the beginning, at the end. */
  readonly reader: 'follower' | 'full'
  /** The cursor. */
  readonly after: string | null
  readonly events: ReadonlyArray<EventEntry>
}

/** `GET /v1/messages/{id}` during the run. */
export interface ReadEntry {
  readonly kind: 'read'
  readonly began: number
  readonly ended: number
  readonly account: string
  readonly id: string
  readonly status: number | null
  readonly state: string | null
}

/** A message in the list at the end of the run. */
export interface FinalEntry {
  readonly kind: 'final'
  readonly account: string
  readonly id: string
  readonly clientRef: string | null
  readonly class: MessageClass
  readonly state: string
  readonly final: boolean
  readonly reason: string | null
  readonly parts: number
  readonly price: number
  readonly history: ReadonlyArray<readonly [status: string, reason: string | null, at?: number]>
}

/** `GET /v1/account` at the end. */
export interface AccountEntry {
  readonly kind: 'account'
  readonly account: string
  readonly spent: number
}

/** A recipient answered STOP. From the moment `appliedBy` on, the hub has applied it. */
export interface OptOutEntry {
  readonly kind: 'opt-out'
  readonly number: string
  readonly appliedBy: number
}

export interface FaultEntry {
  readonly kind: 'fault'
  readonly name: string
  readonly target: string
  readonly began: number
  /** When the fault was over: the process was started, the network was repaired, and so on. */
  readonly ended: number
}

/** The last entry of a complete history. */
export interface EndEntry {
  readonly kind: 'end'
  readonly at: number
  /** Waiting for final statuses or webhooks ended at its bound. */
  readonly unsettled: ReadonlyArray<string>
}

export type Entry =
  | RunEntry
  | SendEntry
  | BatchEntry
  | SubmitEntry
  | IncompleteEntry
  | ReportEntry
  | WebhookEntry
  | PageEntry
  | ReadEntry
  | FinalEntry
  | AccountEntry
  | OptOutEntry
  | FaultEntry
  | EndEntry
