/** What the SMPP operator can be told, with units and why the defaults are what they are. */
import type { Redacted } from 'effect'
import { DEFAULT_ERRORS, type SmppErrors } from './errors.ts'
import type { IdFormat } from './ids.ts'
import type { PaceOptions } from './pace.ts'

export const SMPP = 'smpp'

/** One connection for both directions, or one for each. */
export type BindMode = 'transceiver' | 'transmitter_receiver'

export interface SmppSettings {
  /** `smpp://system_id@host:port`, or `smpps://` for TLS. Ports 2775 and 3550 when there is none. */
  readonly url: URL
  readonly password: Redacted.Redacted<string>
  /** Authorities for `smpps://`, PEM; `null` for those of the system. The name in the certificate is checked. */
  readonly ca: string | null
  /** Binds for submissions; with `transmitter_receiver` there are as many for receiving. */
  readonly binds: number
  readonly bindMode: BindMode
  /** Parts that may await their answer on one bind. */
  readonly window: number
  /** What the operator allows an account, parts per second; `null` for no limit. Honoured where messages are taken. */
  readonly partsPerSecond: number | null
  readonly idFormat: IdFormat
  readonly errors: SmppErrors
  /** `system_type` of the bind; most centres want none. */
  readonly systemType: string
  /** Type of number and numbering plan of a sender in digits. A name is always 5 and 0. */
  readonly numericSender: { readonly ton: number; readonly npi: number }
  /**
   * Offset of the dates in receipts from UTC, minutes. SMPP does not say which zone they are in; `null` takes the time of
   * arrival, which is late by seconds where a wrong zone is wrong by hours.
   */
  readonly receiptOffsetMinutes: number | null
  /** From the beginning of a connection until bound, ms. */
  readonly connectDeadlineMs: number
  /** From a request until its answer, ms; after it the outcome is unknown. */
  readonly responseDeadlineMs: number
  /** A connection that is silent for so long is asked for a sign of life, ms. */
  readonly enquireLinkMs: number
  /** Answers that may stay out one after the other before the bind is given up. */
  readonly maxTimeouts: number
  /** A message that cannot be written for so long (no bind, pause) is `refused`, ms. */
  readonly holdMs: number
  /** Before something is tried again that the operator refused for no reason of rate, ms. */
  readonly retryMs: number
  /** Further parts of a message whose first ones were taken are tried for so long, within its lifetime, ms. */
  readonly laterPartsMs: number
  /** At the end, for what is in flight, ms. */
  readonly closeMs: number
  readonly pace: PaceOptions
  /** Before another attempt to connect: anything between nothing and a bound that doubles, ms. */
  readonly reconnect: { readonly baseMs: number; readonly maxMs: number }
  /** A bind that stood so long ends a row of failures, ms. */
  readonly stableMs: number
  /** Deliveries of one connection that may wait to be written down; then nothing is read from it. */
  readonly deliverWindow: number
  /** Until deliveries are written down, ms; after it the operator is told to try again. */
  readonly sinkDeadlineMs: number
  /** For the rest of a message that somebody wrote in several parts, ms; then it is taken as it is. */
  readonly joinMs: number
}

/**
 * Two binds survive the end of one; 50 parts each keep 1,000 a second in the air at 100 ms an answer. Ten seconds is what a
 * busy centre may take and still be waited for; half a minute of silence is the usual time of an enquire_link, and centres
 * close after a minute or more. A message held for two seconds does not notice a reconnect, and does not keep
 * an `otp` waiting behind it for longer. A pause begins at a tenth of a second, below what a second's quota is refilled in,
 * and goes up to ten: above it a person should look. Reconnects are spread over up to half a minute. Parts of one message come
 * within a second; waiting for five stays below the shortest deadline of a centre for its deliveries, ten seconds.
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
  connectDeadlineMs: 5000,
  responseDeadlineMs: 10_000,
  enquireLinkMs: 30_000,
  maxTimeouts: 3,
  holdMs: 2000,
  retryMs: 1000,
  laterPartsMs: 600_000,
  closeMs: 3000,
  pace: { pauseMs: 100, maxPauseMs: 10_000, recoverMs: 5000 },
  reconnect: { baseMs: 250, maxMs: 30_000 },
  stableMs: 10_000,
  deliverWindow: 200,
  sinkDeadlineMs: 8000,
  joinMs: 5000,
}
