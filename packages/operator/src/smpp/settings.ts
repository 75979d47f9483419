/** The settings of the SMPP operator, with units and the reasons for the defaults. */
import type { Backoff } from '@hub/flow'
import type { Redacted } from 'effect'
import { DEFAULT_ERRORS, type SmppErrors } from './errors.ts'
import type { IdFormat } from './ids.ts'

export const SMPP = 'smpp'

/** One connection for both directions, or one for each. */
type BindMode = 'transceiver' | 'transmitter_receiver'

export interface SmppSettings {
  /** `smpp://system_id@host:port`, or `smpps://` for TLS. Default ports: 2775 and 3550. */
  readonly url: URL
  readonly password: Redacted.Redacted<string>
  /** Certificate authorities for `smpps://` in PEM. `null`: those of the system. */
  readonly ca: string | null
  /** Binds for submissions. `transmitter_receiver` adds as many receivers. */
  readonly binds: number
  readonly bindMode: BindMode
  /** The most parts without an answer on one bind. */
  readonly window: number
  /** The operator's limit for the hub, parts per second; `null`: none. The dispatcher applies it. */
  readonly partsPerSecond: number | null
  readonly idFormat: IdFormat
  readonly errors: SmppErrors
  /** `system_type` of the bind. Most SMSCs need none. */
  readonly systemType: string
  /** Type of number and numbering plan of a numeric sender. */
  readonly numericSender: { readonly ton: number; readonly npi: number }
  /**
   * Offset from UTC of the dates in receipts, minutes; SMPP does not define their time zone. `null`
   * uses the time of arrival, which is late by seconds.
   */
  readonly receiptOffsetMinutes: number | null
  /** Time limit for connecting and binding, ms. */
  readonly connectDeadlineMs: number
  /** Time limit for the answer to a request, ms. After it the outcome is unknown. */
  readonly responseDeadlineMs: number
  /**
   * Time without an answer to the oldest submit after which a bind gets no more submits, ms. It
   * then sends `enquire_link`.
   */
  readonly stallMs: number
  /**
   * Time without any answer after an `enquire_link` that ends the bind, ms. A bind with an unanswered
   * submit has a fifth of it.
   */
  readonly enquireDeadlineMs: number
  /** Time without data from the SMSC until the session sends `enquire_link`, ms. */
  readonly enquireLinkMs: number
  /** The number of consecutive missing answers that ends a bind. */
  readonly maxTimeouts: number
  /** The longest wait for a bind, ms. */
  readonly holdMs: number
  /** The wait after a temporary refusal other than throttling, ms. */
  readonly retryMs: number
  /** The longest time for retries of the later parts of a message, within its lifetime, ms. */
  readonly laterPartsMs: number
  /** At shutdown, the longest wait for outstanding answers, ms. */
  readonly closeMs: number
  /** Limits of the backoff between connection attempts, ms. */
  readonly reconnect: Backoff
  /** The longest backoff where the network may be the reason, ms. */
  readonly unreachableMaxMs: number
  /** After a bind of this duration, the backoff starts from its minimum again, ms. */
  readonly stableMs: number
  /** The most deliveries of a session without an answer. It then stops reading. */
  readonly deliverWindow: number
  /** Time limit for storing deliveries, ms. After it the SMSC repeats them. */
  readonly sinkDeadlineMs: number
  /** The longest wait for missing parts of an inbound text, ms. */
  readonly reassemblyMs: number
}

/**
 * - Two binds keep the service available when one ends. At 100 ms per answer, 50 parts each allow
 *   1,000 parts a second.
 * - A busy SMSC may need up to ten seconds for an answer. It gets no more submits after two, and
 *   if it is alive, it answers something within two more. Then a dead bind costs four seconds.
 * - An idle bind costs nothing while it waits. Other SMPP clients give an SMSC 10 s (the defaults of
 *   Cloudhopper's examples and of TIBCO), and SMSCs under load need some seconds.
 * - `enquire_link` after ten seconds finds a dead bind before the next submit in most cases. SMSCs
 *   close silent connections after a minute or more.
 * - Two seconds of holding cover a reconnect, and delay an `otp` by no more than that.
 * - An SMSC that refuses or ends binds gets reconnects that are spread over up to half a minute. One
 *   that cannot be reached costs nothing, and must be in use within five seconds after it can be
 *   reached: an attempt of three seconds and a pause of one and a half.
 * - Parts of one inbound text arrive within a second. A wait of five seconds stays below the
 *   shortest time limit of SMSCs for an answer to a delivery, which is ten seconds.
 */
export const SMPP_DEFAULTS: Omit<SmppSettings, 'url' | 'password'> = {
  ca: null,
  binds: 2,
  bindMode: 'transceiver',
  window: 50,
  partsPerSecond: null,
  idFormat: 'opaque',
  errors: DEFAULT_ERRORS,
  systemType: '',
  numericSender: { ton: 1, npi: 1 },
  receiptOffsetMinutes: null,
  connectDeadlineMs: 3000,
  responseDeadlineMs: 10_000,
  stallMs: 2000,
  enquireDeadlineMs: 10_000,
  enquireLinkMs: 10_000,
  maxTimeouts: 3,
  holdMs: 2000,
  retryMs: 1000,
  laterPartsMs: 600_000,
  closeMs: 3000,
  reconnect: { firstMs: 250, longestMs: 30_000 },
  unreachableMaxMs: 1500,
  stableMs: 10_000,
  deliverWindow: 200,
  sinkDeadlineMs: 8000,
  reassemblyMs: 5000,
}
