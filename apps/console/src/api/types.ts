/** The answers of the API, as the console reads them. */

export type Mode = 'live' | 'test'
export type MessageClass = 'otp' | 'service'

/** `GET /v1/me` */
export interface Me {
  readonly name: string
  readonly roles: ReadonlyArray<string>
  readonly permissions: ReadonlyArray<string>
  readonly csrf_token: string
}

/** A row of `GET /v1/messages`, and `GET /v1/messages/{id}`. */
export interface Message {
  readonly id: string
  readonly account: string
  readonly mode: Mode
  readonly class: MessageClass
  readonly recipient: string
  readonly template: string
  readonly sender: string
  readonly client_ref: string | null
  readonly batch: string | null
  readonly status: string
  readonly final: boolean
  readonly reason_code: string | null
  readonly attempts: number
  readonly parts: number
  readonly price: string
  readonly currency: string
  readonly created_at: string
  readonly updated_at: string
}

/** `GET /v1/search` */
export interface SearchResult {
  readonly kind: string
  readonly data: ReadonlyArray<Hit>
  readonly explanation: string | null
}

export interface Hit {
  readonly type: string
  readonly id: string
  readonly account: string | null
  readonly webhook_endpoint: string | null
  readonly message: Message | null
  readonly at: string | null
}

/** What templates and senders have in common. */
interface Moderated {
  readonly id: string
  readonly account: string
  readonly mode: Mode
  readonly name: string
  readonly status: string
  /** The comment of a declined item, which the client sees. */
  readonly reason: string | null
  readonly created_at: string
  /** Who decided, and when. */
  readonly decision?: { readonly by: string; readonly at: string } | null
}

export interface Template extends Moderated {
  readonly object: 'template'
  readonly class: MessageClass
  readonly sender: string
  readonly body: string
  readonly language: string | null
  readonly sender_status?: string
  /** The text with example values; `null`: it cannot be rendered. */
  readonly preview?: {
    readonly text: string
    readonly parts: number
    readonly characters: number
    readonly encoding: string
  } | null
}

export interface Sender extends Moderated {
  readonly object: 'sender'
  readonly registration: Readonly<Record<string, unknown>> | null
}

export type ModerationItem = Template | Sender

/** `GET /v1/messages/{id}/timeline` */
export interface Timeline {
  readonly message: Message
  readonly trace_id: string | null
  readonly trace_url: string | null
  readonly entries: ReadonlyArray<TimelineEntry>
  /** What cannot be shown, and why. */
  readonly missing: ReadonlyArray<{ readonly what: string; readonly why: string }>
}

export interface TimelineEntry {
  readonly at: string
  readonly kind: string
  readonly by: string
  readonly title: string
  readonly source: string
  readonly detail: Readonly<Record<string, string | number | boolean | null | ReadonlyArray<string>>>
}

/** `POST /v1/messages/{id}/reveal` */
export interface RevealedMessage {
  readonly to: string | null
  readonly text: string | null
  readonly variables: Readonly<Record<string, string>> | null
  readonly explanation: string | null
}

/** A row of `POST /v1/messages/{id}/raw`: what the SMS operator sent. */
export interface OperatorRecord {
  readonly kind: string
  readonly received_at: string
  readonly operator: string
  readonly operator_id: string | null
  readonly outcome: string | null
  readonly raw: string | null
}

/** `GET /v1/webhook_endpoints` */
export interface Subscription {
  readonly id: string
  readonly account: string
  readonly mode: Mode
  readonly url: string
  /** Empty: all types. */
  readonly event_types: ReadonlyArray<string>
  readonly status: string
  readonly consecutive_failures: number
  readonly disabled_at: string | null
  readonly disabled_reason: string | null
  readonly backlog: {
    readonly batches: number
    readonly oldest_at: string | null
    readonly next_attempt_at: string | null
  }
  readonly created_at: string
}

export interface Attempt {
  readonly id: string
  readonly event_batch: string
  readonly event_ids: ReadonlyArray<string>
  readonly attempt: number
  readonly status: string
  readonly response_code: number | null
  readonly duration_ms: number
  readonly reason: string | null
  readonly trial: boolean
  readonly redelivery: boolean
  readonly resend: boolean
  readonly created_at: string
  readonly next_attempt_at: string | null
}

export interface AttemptDetails extends Attempt {
  readonly webhook_endpoint: string
  /** `null`: it is not stored any more. */
  readonly signed_body: string | null
}

/** `GET /v1/overview`, and the data of each event of `GET /v1/overview/stream`. */
export interface Overview {
  readonly at: string
  /** The parts that could not be read. */
  readonly unavailable: ReadonlyArray<string>
  /** Minutes without messages are left out. */
  readonly minutes: ReadonlyArray<{
    readonly minute: string
    readonly mode: Mode
    readonly class: MessageClass
    readonly accepted: number
    readonly sent: number
    readonly delivered: number
    readonly failed: number
  }>
  readonly submission: ReadonlyArray<{
    readonly mode: Mode
    readonly class: MessageClass
    readonly messages: number
    readonly p50_ms: number
    readonly p99_ms: number
  }>
  readonly waiting: ReadonlyArray<{
    readonly mode: Mode
    readonly class: MessageClass
    readonly messages: number
    readonly oldest_at: string
  }>
  readonly consumers: ReadonlyArray<{
    readonly consumer: string
    readonly members: number
    readonly lag: number
  }>
  readonly endpoints: { readonly enabled: number; readonly failing: number; readonly disabled: number }
  readonly moderation: {
    readonly templates: { readonly waiting: number; readonly oldest_at: string | null }
    readonly senders: { readonly waiting: number; readonly oldest_at: string | null }
  }
  readonly hub: { readonly stopped: boolean; readonly stopped_until: string | null }
}

interface WaitingRows {
  readonly rows: number
  readonly oldest_at: string | null
}

/** `GET /v1/stuck` */
export interface StuckWork {
  readonly at: string
  readonly consumers: ReadonlyArray<{
    readonly consumer: string
    readonly members: number
    readonly lag: number
    readonly shards: ReadonlyArray<{ readonly topic: string; readonly shard: number; readonly lag: number }>
  }>
  readonly oldest_open: ReadonlyArray<{
    readonly class: MessageClass
    readonly mode: Mode
    readonly status: string
    readonly message: string
    readonly account: string
    readonly accepted_at: string
    readonly age_ms: number
  }>
  readonly outboxes: ReadonlyArray<{
    readonly content: string
    readonly rows: number
    readonly age_ms: number | null
  }>
  readonly dead_letters: ReadonlyArray<{ readonly topic: string; readonly records: number }>
  readonly webhook_endpoints: ReadonlyArray<Subscription>
  readonly moderation: { readonly templates: WaitingRows; readonly senders: WaitingRows }
  readonly missing: ReadonlyArray<{ readonly what: string; readonly why: string }>
}

export interface DeadLetter {
  /** `topic/partition/offset` */
  readonly id: string
  readonly set_aside_at: string
  readonly reason: string | null
  readonly type: string
  readonly source: string | null
  readonly handled: { readonly outcome: string; readonly at: string } | null
}

export interface AccountRow {
  readonly id: string
  readonly name: string
  readonly created_at: string
  readonly test_keys: number
  readonly live_keys: number
  readonly certified: boolean
}

export interface Account {
  readonly id: string
  readonly name: string
  readonly modes: ReadonlyArray<{
    readonly mode: Mode
    readonly in_force: Readonly<Record<string, number | string | null>>
    /** The settings that differ from the defaults. */
    readonly overridden: ReadonlyArray<string>
  }>
  readonly spending: {
    readonly period: string
    readonly spent: string
    readonly currency: string
    readonly threshold_told: boolean
  }
}

export interface ApiKey {
  readonly id: string
  readonly mode: Mode
  readonly last_four: string
  readonly allowed_addresses: ReadonlyArray<string> | null
  readonly created_at: string
  readonly revoked_at: string | null
  readonly expires_at: string | null
  readonly last_used_at: string | null
  readonly works: boolean
}

export interface TemplatePerformance {
  readonly template: string
  readonly class: MessageClass
  readonly accepted: number
  readonly delivered: number
  readonly failed: number
  readonly failure_rate: number | null
  readonly sent_p50_ms: number | null
  readonly sent_p99_ms: number | null
  readonly delivered_p50_ms: number | null
  readonly delivered_p99_ms: number | null
}

export interface ChargedUsage {
  readonly account: string
  readonly name: string
  readonly class: MessageClass | null
  readonly template: string | null
  readonly currency: string
  readonly messages: number
  readonly parts: number
  readonly charged: string
  readonly returned: string
  readonly price: string
}

export interface OptOut {
  readonly recipient: string
  readonly source: string
  readonly created_at: string
}

export interface OptOutCheck {
  readonly recipient: string
  readonly opted_out: boolean
  readonly opt_out: OptOut | null
  readonly history: ReadonlyArray<{
    readonly change: string
    readonly at: string
    readonly source: string
    readonly word: string | null
    readonly actor: string | null
  }>
}

export interface ErasureReceipt {
  readonly id: string
  readonly recipient: string
  readonly status: string
  readonly requested_at: string
  readonly removed: Readonly<Record<string, number>>
  readonly cleared_at: string | null
  readonly sealed_until: string | null
  readonly finished_at: string | null
}

export interface ErasureRequest {
  readonly id: string
  readonly recipient: string
  readonly status: string
  readonly requested_by: string
  readonly reason: string | null
  readonly requested_at: string
  readonly expires_at: string
  readonly confirmed_by: string | null
  readonly confirmed_at: string | null
}

export interface ErasureOutcome {
  readonly request: ErasureRequest | null
  readonly receipt: ErasureReceipt | null
}

export interface AuditRow {
  readonly at: string
  readonly actor: string
  readonly role: string | null
  readonly command: string
  readonly arguments: Readonly<Record<string, unknown>>
  readonly reason: string | null
  readonly outcome: string
  readonly detail: Readonly<Record<string, unknown>> | null
  readonly ended_at: string | null
}
