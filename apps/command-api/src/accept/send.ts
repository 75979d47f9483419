/**
 * A send that waits for its outcome, as a state machine. Other files read its state and call its
 * transitions; nothing else changes it.
 *
 *   Waiting ─begin─▶ Deciding ─record─▶ Recording ─recorded─▶ Recorded ─append─▶ Appending
 *      ▲                │                │      │
 *      ├──── again ─────┴── or retry ────┘      └─lose─▶ Uncertain
 *      ├──── again ── Joined ◀─join─ Deciding              │
 *      └───────────────────── resolve ─────────────────────┘
 *
 * `answer` and `finish` lead from each state to `Done`. The first outcome counts. At the deadline of
 * its request a send is answered while its commit or append goes on, so `Done` keeps what may still
 * happen. It is settled when it can no longer change the ledger.
 *
 * It is synchronous, so all fibers agree on whether a send has its outcome.
 */
import type { ApiError } from '@hub/contract'
import { Result } from 'effect'
import type { MessageView } from '../messages/message.ts'
import type { CheckedSend } from './check/checked-send.ts'
import { APPEND_UNKNOWN, NOT_QUEUED, RECORD_UNKNOWN, STORAGE_DOWN } from './errors.ts'
import type { SendReservation } from './batch/limits.ts'

/** The message that was accepted or repeated, or the error that the client gets. */
export type SendOutcome = Result.Result<{ readonly view: MessageView; readonly duplicate: boolean }, ApiError>

/** A message in the ledger. */
export interface LedgerRecord {
  readonly messageId: string
  /** The time of its acceptance, milliseconds since the epoch. */
  readonly at: number
}

/** What a send keeps when it is decided again. */
interface Kept {
  /** Its reservation in the flood windows, neither confirmed nor released. */
  readonly reservation: SendReservation | null
  /** The ledger contains it since an earlier commit, whose result was unknown at first. */
  readonly recordedBefore: LedgerRecord | null
}

/** An acceptance batch that takes sends. */
export interface Batch {
  /** When it began, milliseconds since the epoch. */
  readonly begunAt: number
}

/** `batch`: its last acceptance batch. */
export type OpenState =
  /** It waits for an acceptance batch. */
  | (Kept & { readonly tag: 'Waiting' })
  /** It is in an acceptance batch, before its commit. */
  | (Kept & { readonly tag: 'Deciding'; readonly batch: Batch })
  /** It repeats a code in progress, and gets the same outcome. */
  | (Kept & { readonly tag: 'Joined' })
  /** Its commit is in progress. */
  | (Kept & { readonly tag: 'Recording'; readonly batch: Batch })
  /** The result of its commit is unknown: the ledger may contain `record`. */
  | (Kept & { readonly tag: 'Uncertain'; readonly record: LedgerRecord })
  /** A code that the ledger contains, and Kafka does not. */
  | { readonly tag: 'Recorded'; readonly batch: Batch }
  /** A code that Kafka may contain. */
  | { readonly tag: 'Appending'; readonly batch: Batch }

export type SendState =
  | OpenState
  /** It has its outcome. `left`: what may still happen to it. */
  | { readonly tag: 'Done'; readonly outcome: SendOutcome; readonly left: OpenState | null }

/** What a send reports to its request. */
export interface SendObserver {
  /** `begunAt`: of a new message that was accepted; otherwise `null`. */
  readonly onAnswered: (begunAt: number | null) => void
  /** It can no longer change the ledger. */
  readonly onSettled: () => void
}

const kept = (state: OpenState): Kept =>
  'reservation' in state
    ? { reservation: state.reservation, recordedBefore: state.recordedBefore }
    : { reservation: null, recordedBefore: null }

/** Whether it is certain that neither ledger nor Kafka contains the send, or will contain it. */
const isAbsent = (state: OpenState): boolean =>
  (state.tag === 'Waiting' || state.tag === 'Deciding') && state.recordedBefore === null

const isSettled = (state: SendState): boolean =>
  state.tag === 'Done' && (state.left === null || state.left.tag === 'Recorded' || isAbsent(state.left))

export class Send<Request> {
  readonly checked: CheckedSend
  readonly request: Request
  readonly #observer: SendObserver
  #state: SendState = { tag: 'Waiting', reservation: null, recordedBefore: null }
  #messageId: string | null

  constructor(checked: CheckedSend, request: Request, observer: SendObserver) {
    this.checked = checked
    this.request = request
    this.#observer = observer
    this.#messageId = checked.messageId
  }

  get state(): SendState {
    return this.#state
  }
  /** What may still happen to it; `null`: nothing. */
  get left(): OpenState | null {
    return this.#state.tag === 'Done' ? this.#state.left : this.#state
  }
  get outcome(): SendOutcome | null {
    return this.#state.tag === 'Done' ? this.#state.outcome : null
  }
  get reservation(): SendReservation | null {
    return this.left === null ? null : kept(this.left).reservation
  }
  get recordedBefore(): LedgerRecord | null {
    return this.left === null ? null : kept(this.left).recordedBefore
  }
  /** The id for a new message. Retries in later acceptance batches use the same id. */
  get messageId(): string | null {
    return this.#messageId
  }

  /** Gets the id for a new message. */
  identify(messageId: string): void {
    this.#messageId ??= messageId
  }
  /** An acceptance batch takes it. */
  begin(batch: Batch): void {
    this.#start('begin', 'Waiting', (state) => ({ ...kept(state), tag: 'Deciding', batch }))
  }
  /** The flood windows have a place for it. */
  reserve(reservation: SendReservation): void {
    this.#change('reserve', ['Deciding'], (state) => ({ ...state, reservation }))
  }
  /** A code in progress decides its outcome. */
  join(): void {
    this.#start('join', 'Deciding', (state) => ({ ...kept(state), tag: 'Joined' }))
  }
  /** Its commit begins. */
  record(): void {
    this.#start('record', 'Deciding', (state) => ({ ...state, tag: 'Recording' }))
  }
  /** Its commit has certainly failed: the same acceptance batch decides it again. */
  retry(): void {
    this.#change('retry', ['Deciding', 'Recording'], (state) => ({ ...state, tag: 'Deciding' }))
  }
  /** The ledger does not contain it, or not yet: a later acceptance batch decides it again. */
  again(): void {
    this.#change('wait again', ['Waiting', 'Deciding', 'Joined', 'Recording'], (state) => ({
      ...kept(state),
      tag: 'Waiting',
    }))
  }
  /** The result of its commit is unknown. */
  lose(record: LedgerRecord): void {
    this.#change('lose its commit', ['Recording'], (state) => ({ ...kept(state), tag: 'Uncertain', record }))
  }
  /** The result of its commit is known. A later acceptance batch decides it again. */
  resolve(result: 'committed' | 'withdrawn'): void {
    this.#change('resolve its commit', ['Uncertain'], (state) => ({
      tag: 'Waiting',
      reservation: state.reservation,
      recordedBefore: result === 'committed' ? state.record : state.recordedBefore,
    }))
  }
  /** The ledger contains the code. */
  recorded(): void {
    this.#change('be recorded', ['Recording'], ({ batch }) => ({ tag: 'Recorded', batch }))
  }
  /** The append of the code begins. */
  append(): void {
    this.#start('be appended', 'Recorded', ({ batch }) => ({ tag: 'Appending', batch }))
  }
  /** It has its outcome, whatever else happens to it. */
  answer(outcome: SendOutcome): void {
    if (this.#state.tag !== 'Done') this.#moveTo({ tag: 'Done', outcome, left: this.#state })
  }
  /** Nothing else happens to a send that has its outcome. */
  drop(): void {
    if (this.#state.tag === 'Done') this.#moveTo({ ...this.#state, left: null })
  }
  /** It has its outcome, and nothing else happens to it. An earlier outcome stays. */
  finish(outcome: SendOutcome): void {
    this.#moveTo({ tag: 'Done', outcome: this.outcome ?? outcome, left: null })
  }

  /** Begins something that may change the ledger. It never begins for a send that has its outcome. */
  #start<Tag extends OpenState['tag']>(
    transition: string,
    from: Tag,
    change: (state: Extract<OpenState, { readonly tag: Tag }>) => OpenState,
  ): void {
    if (this.#state.tag === 'Done') throw new Error(`a send that is Done cannot ${transition}`)
    this.#change(transition, [from], change)
  }

  /** Changes what happens to the send. Nothing happens to a finished one. */
  #change<Tag extends OpenState['tag']>(
    transition: string,
    from: ReadonlyArray<Tag>,
    change: (state: Extract<OpenState, { readonly tag: Tag }>) => OpenState,
  ): void {
    const state = this.#state
    const { left } = this
    if (left === null) return
    if (!from.some((tag) => tag === left.tag))
      throw new Error(`a send that is ${left.tag} cannot ${transition}`)
    const next = change(left as Extract<OpenState, { readonly tag: Tag }>)
    this.#moveTo(state.tag === 'Done' ? { ...state, left: next } : next)
  }

  #moveTo(next: SendState): void {
    const before = this.#state
    this.#state = next
    if (isSettled(next) && !isSettled(before)) this.#observer.onSettled()
    if (next.tag !== 'Done' || before.tag === 'Done') return
    const isNew = Result.isSuccess(next.outcome) && !next.outcome.success.duplicate
    this.#observer.onAnswered(isNew && 'batch' in before ? before.batch.begunAt : null)
  }
}

/** The refusal of a send at the deadline of its request. */
export const refusalAtDeadline = ({ checked, left }: Send<unknown>): ApiError => {
  if (left?.tag === 'Appending' || left?.tag === 'Joined') return APPEND_UNKNOWN
  // A code is published only after its commit has succeeded, and not after its refusal.
  if (checked.class === 'otp') return NOT_QUEUED
  return left === null || isAbsent(left) ? STORAGE_DOWN : RECORD_UNKNOWN
}

/** Whether the acceptance batch decides or records the send. One that joined a code is in no batch. */
export const isIn = (batch: Batch, { left }: Send<unknown>): boolean =>
  (left?.tag === 'Deciding' || left?.tag === 'Recording') && left.batch === batch

/** Whether nothing of the send is in ledger or Kafka, or on the way there. */
export const isUnrecorded = ({ left }: Send<unknown>): boolean => left !== null && isAbsent(left)
