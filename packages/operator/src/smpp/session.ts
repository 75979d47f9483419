/**
 * One connection to an SMSC: it binds, keeps the connection alive, and ends it. Every wait has a
 * deadline. When the session ends, each request without an answer gets `null`.
 */
import type { Socket } from 'node:net'
import { COMMAND_STATUS } from './errors.ts'
import {
  type Command,
  decodePdu,
  type Fields,
  makeContent,
  makeFrames,
  makePduWriter,
  nextSequence,
  type Pdu,
} from './pdu/index.ts'
import type { SmppSettings } from './settings.ts'

export type Role = 'transceiver' | 'transmitter' | 'receiver'

/** The reason for the end of a session. The values are labels of metrics. */
export type SessionEnd = (typeof SESSION_ENDS)[number]

export const SESSION_ENDS = [
  /** The connection failed or broke. */
  'disconnected',
  /** The certificate is not trusted, or TLS failed for another reason. */
  'untrusted',
  /** Connecting and binding took too long. */
  'late',
  /** The SMSC answered the bind with an error. */
  'refused',
  /** The SMSC did not answer requests or `enquire_link`. */
  'silent',
  /** The SMSC sent a PDU with an invalid length. */
  'malformed',
  /** The SMSC unbound. */
  'unbound',
  /** The hub closed the session. */
  'closed',
] as const

interface SessionOptions extends Pick<
  SmppSettings,
  | 'connectDeadlineMs'
  | 'responseDeadlineMs'
  | 'stallMs'
  | 'enquireLinkMs'
  | 'enquireDeadlineMs'
  | 'maxTimeouts'
  | 'deliverWindow'
> {
  readonly role: Role
  /** Starts to connect. `secured`: the connection is ready after the TLS handshake. */
  readonly connect: () => { readonly socket: Socket; readonly secured: boolean }
  readonly bind: Fields
  readonly onBound: (session: Session) => void
  /** Called when it may be possible to write again. */
  readonly onWritable: () => void
  /** Called with the deliveries that arrived together. The caller answers each with `answer`. */
  readonly onDeliver: (session: Session, deliveries: ReadonlyArray<DeliverSm>) => void
  /** The last call. `status` is the error of a refused bind. */
  readonly onEnd: (session: Session, end: SessionEnd, status: number) => void
}

/** A `deliver_sm` or `data_sm`. */
export interface DeliverSm {
  readonly pdu: Pdu
  readonly octets: Buffer
}

export interface Session {
  readonly role: Role
  readonly isBound: () => boolean
  /** Bound, and its oldest submit has had no answer for too long: it may be dead. */
  readonly isStalled: () => boolean
  /**
   * True if bound, not stalled, not closing, and without unsent data: a request written now leaves
   * at once.
   */
  readonly canWrite: () => boolean
  readonly inFlight: () => number
  /**
   * Adds a request to the next `flush`, which must follow in the same tick. `onAnswer` gets `null`
   * if no answer came in time or the connection ended.
   */
  readonly request: (command: 'submit_sm', fields: Fields, onAnswer: (answer: Pdu | null) => void) => void
  readonly flush: () => void
  readonly answer: (deliveries: ReadonlyArray<DeliverSm>, status: number) => void
  /**
   * Waits for outstanding answers, unbinds and ends the session, at the latest after `withinMs`.
   */
  readonly close: (withinMs: number) => void
  readonly destroy: () => void
}

interface PendingRequest {
  readonly command: Command
  readonly writtenAt: number
  readonly onAnswer: (answer: Pdu | null) => void
}

/** A longer gap between two deadline checks means that the process was blocked. */
const STALL_MS = 1000
/** The longest time between two deadline checks while an answer is due, and while none is. */
const CHECK_EVERY_MS = { waiting: 250, quiet: 500 } as const
/** Time for the last octets of an orderly end to leave. */
const LINGER_MS = 1000
/** An idle connection whose peer is gone then ends after about 15 s. */
const KEEP_ALIVE_MS = 5000
/** With an unanswered submit, a bind has this share of the time for `enquire_link`. */
const STALLED_SHARE = 5
/** The most octets of one write. More would only wait in the kernel. */
const FLUSH_OCTETS = 64 * 1024

export const openSession = (options: SessionOptions): Session => {
  const now = () => performance.now()
  const { role } = options
  const frames = makeFrames()
  /** In the order of writing, which is the order of the deadlines. */
  const pending = new Map<number, PendingRequest>()
  let sequence = 0
  const outgoing = makePduWriter()
  let state: 'binding' | 'bound' | 'closing' | 'unbinding' | 'ended' = 'binding'
  let unansweredDeliveries = 0
  /**
   * Deliveries that overtook the answer to the bind. SMPP 3.4 (2.2.1) has them only after it, but some
   * SMSCs send what waits as soon as they accept the bind.
   */
  let early: Array<DeliverSm> = []
  /** Reading is paused. Deadlines of answers do not count meanwhile. */
  let isPaused = false
  let readAt = now()
  let resumedAt = 0
  let checkedAt = now()
  let unsentSince: number | null = null
  let timeouts = 0
  /** When the `enquire_link` without an answer was written. */
  let enquiredAt: number | null = null
  /** When the SMSC answered a request last. Its own requests do not show that ours arrive. */
  let answeredAt = now()
  let closeBy = Number.POSITIVE_INFINITY
  let checkTimer: NodeJS.Timeout | undefined
  const startedAt = now()
  const { secured, socket } = options.connect()
  socket.setNoDelay(true)
  socket.setKeepAlive(true, KEEP_ALIVE_MS)

  /** A callback may have ended the session. TypeScript would assume the earlier state. */
  const isEnded = () => state === 'ended'

  const end = (why: SessionEnd, status = 0) => {
    if (state === 'ended') return
    state = 'ended'
    clearTimeout(checkTimer)
    if (why === 'unbound' || why === 'closed' || why === 'malformed') {
      // The last answer still leaves if the SMSC reads it soon.
      socket.destroySoon()
      setTimeout(() => socket.destroy(), LINGER_MS).unref()
    } else {
      socket.destroy()
    }
    const lost = Array.from(pending.values())
    pending.clear()
    for (const { onAnswer } of lost) onAnswer(null)
    options.onEnd(session, why, status)
  }

  const write = (command: Command, number: number, fields: Fields = {}, status = 0) => {
    if (state !== 'ended') outgoing.add(makeContent(command, number, fields, status))
  }

  const flush = () => {
    if (outgoing.octets() === 0 || state === 'ended') return
    socket.write(outgoing.take(), () => {
      if (socket.writableLength > 0) return
      unsentSince = null
      if (isPaused) read()
      options.onWritable()
    })
    if (socket.writableLength > 0) unsentSince ??= now()
  }

  const request = (command: Command, fields: Fields, onAnswer: (answer: Pdu | null) => void) => {
    sequence = nextSequence(sequence, (taken) => pending.has(taken))
    pending.set(sequence, { command, writtenAt: now(), onAnswer })
    if (pending.size === 1) scheduleCheck()
    write(command, sequence, fields)
  }

  const inFlight = () => {
    // Other requests are at most one `enquire_link` and one bind or unbind.
    let others = 0
    if (enquiredAt !== null) others++
    if (state === 'unbinding' || state === 'binding') others++
    return Math.max(0, pending.size - others)
  }

  const enquire = () => {
    enquiredAt = now()
    request('enquire_link', {}, () => {
      enquiredAt = null
    })
    flush()
  }

  /** The time without an answer to the oldest submit. While reading is paused, it does not count. */
  const oldestSubmitMs = (at: number): number => {
    if (isPaused) return 0
    for (const { command, writtenAt } of pending.values()) {
      if (command === 'submit_sm') return at - Math.max(writtenAt, resumedAt)
    }
    return 0
  }

  const isStalled = () => state === 'bound' && oldestSubmitMs(now()) >= options.stallMs

  /**
   * Neither `enquire_link` nor another request has had an answer since `enquire_link` was written. If a
   * submit waits too, the SMSC has less time: messages wait for this bind.
   */
  const isDead = (at: number) => {
    const { enquireDeadlineMs, stallMs } = options
    const limit = oldestSubmitMs(at) >= stallMs ? enquireDeadlineMs / STALLED_SHARE : enquireDeadlineMs
    return enquiredAt !== null && at - Math.max(enquiredAt, answeredAt, resumedAt) >= limit
  }

  const unbindIfDone = () => {
    if (state !== 'closing' || unansweredDeliveries > 0 || inFlight() > 0) return
    state = 'unbinding'
    request('unbind', {}, () => end('closed'))
    flush()
  }

  const handleAnswer = (pdu: Pdu) => {
    const sent = pending.get(pdu.sequence)
    if (sent === undefined) return
    // An answer to another command than the request is ignored.
    if (pdu.command !== 'generic_nack' && pdu.command !== `${sent.command}_resp`) return
    pending.delete(pdu.sequence)
    answeredAt = now()
    // Answers to `enquire_link` do not count: the SMSC must answer submissions.
    if (sent.command === 'submit_sm') timeouts = 0
    sent.onAnswer(pdu)
  }

  const handle = (pdu: Pdu, frame: Buffer, arrived: Array<DeliverSm>) => {
    if (pdu.isResponse) return handleAnswer(pdu)
    switch (pdu.command) {
      case 'enquire_link':
        return write('enquire_link_resp', pdu.sequence)
      case 'deliver_sm':
      case 'data_sm':
        unansweredDeliveries++
        if (state !== 'binding') arrived.push({ pdu, octets: Buffer.from(frame) })
        // The answer to the bind must still be read, so the window must not become full.
        else if (unansweredDeliveries < options.deliverWindow) early.push({ pdu, octets: Buffer.from(frame) })
        else session.answer([{ pdu, octets: frame }], COMMAND_STATUS.ESME_RX_T_APPN)
        return
      case 'unbind':
        write('unbind_resp', pdu.sequence)
        flush()
        return end('unbound')
      case 'alert_notification':
      case 'outbind':
        return
      default:
        return write('generic_nack', pdu.sequence, {}, COMMAND_STATUS.ESME_RINVCMDID)
    }
  }

  const mustPause = () => unansweredDeliveries >= options.deliverWindow || socket.writableNeedDrain

  /** Handles the complete PDUs, up to the limit of deliveries without an answer. */
  const read = () => {
    if (state === 'ended') return
    const arrived: Array<DeliverSm> = []
    while (!mustPause()) {
      const frame = frames.next()
      if (frame === null) break
      if (frame === 'malformed') {
        // SMPP 3.4, 4.3: the data is corrupt. The sequence number is unknown, so it is 0.
        write('generic_nack', 0, {}, COMMAND_STATUS.ESME_RINVCMDLEN)
        flush()
        return end('malformed')
      }
      handle(decodePdu(frame), frame, arrived)
      if (isEnded()) return
    }
    if (mustPause() && !isPaused) {
      isPaused = true
      socket.pause()
    } else if (!mustPause() && isPaused) {
      isPaused = false
      resumedAt = now()
      socket.resume()
    }
    flush()
    if (state === 'bound' && early.length > 0) {
      arrived.unshift(...early)
      early = []
    }
    if (arrived.length > 0) options.onDeliver(session, arrived)
    unbindIfDone()
    options.onWritable()
  }

  /**
   * A check may be late by a tenth of the deadline at most. It is rarer while no answer is due, because
   * each one wakes the process.
   */
  const scheduleCheck = () => {
    clearTimeout(checkTimer)
    const isQuiet = state === 'bound' && pending.size === 0 && unsentSince === null
    const ms = isQuiet
      ? Math.min(CHECK_EVERY_MS.quiet, options.enquireLinkMs / 10)
      : Math.min(
          CHECK_EVERY_MS.waiting,
          options.responseDeadlineMs / 10,
          options.connectDeadlineMs / 10,
          options.stallMs / 10,
          options.enquireDeadlineMs / STALLED_SHARE / 10,
        )
    checkTimer = setTimeout(
      () => {
        checkDeadlines()
        if (!isEnded()) scheduleCheck()
      },
      Math.max(5, ms),
    )
  }

  const checkDeadlines = () => {
    const at = now()
    // The process was blocked. It must first read the answers that arrived meanwhile.
    if (at - checkedAt > STALL_MS) resumedAt = at
    checkedAt = at
    if (at >= closeBy) return end('closed')
    if (state === 'binding') {
      if (at - startedAt >= options.connectDeadlineMs) end('late')
      return
    }
    if (unsentSince !== null && at - unsentSince >= options.responseDeadlineMs) return end('silent')
    if (isPaused) return
    if (isDead(at)) return end('silent')
    const overdue: Array<number> = []
    for (const [number, { command, writtenAt }] of pending) {
      if (command === 'enquire_link') continue
      if (at - Math.max(writtenAt, resumedAt) < options.responseDeadlineMs) break
      overdue.push(number)
    }
    timeouts += overdue.length
    // End the session before the callbacks run: they write their next requests to another session.
    if (timeouts >= options.maxTimeouts) return end('silent')
    for (const number of overdue) {
      const sent = pending.get(number)
      pending.delete(number)
      sent?.onAnswer(null)
    }
    if (isEnded()) return
    const isLate = oldestSubmitMs(at) >= options.stallMs
    const mustEnquire = enquiredAt === null && (isLate || at - readAt >= options.enquireLinkMs)
    if (mustEnquire) enquire()
    unbindIfDone()
    // The bind is stalled from now on, or another submit is the oldest now and has time left.
    if ((mustEnquire && isLate) || overdue.length > 0) options.onWritable()
  }

  const session: Session = {
    role,
    isBound: () => state === 'bound',
    isStalled,
    canWrite: () =>
      state === 'bound' && socket.writableLength === 0 && outgoing.octets() < FLUSH_OCTETS && !isStalled(),
    inFlight,
    request,
    flush,
    answer: (deliveries, status) => {
      if (state === 'ended') return
      unansweredDeliveries -= deliveries.length
      for (const { pdu } of deliveries) {
        const command = pdu.command === 'data_sm' ? 'data_sm_resp' : 'deliver_sm_resp'
        write(command, pdu.sequence, {}, status)
      }
      flush()
      if (isPaused && unansweredDeliveries <= options.deliverWindow / 2) read()
      else unbindIfDone()
    },
    close: (withinMs) => {
      if (state === 'ended') return
      closeBy = now() + withinMs
      scheduleCheck()
      if (state === 'binding') return end('closed')
      if (state === 'bound') state = 'closing'
      unbindIfDone()
    },
    destroy: () => end('closed'),
  }

  const bindCommand = `bind_${role}` as const
  socket.once(secured ? 'secureConnect' : 'connect', () => {
    if (state !== 'binding') return
    request(bindCommand, options.bind, (answer) => {
      if (answer === null || state !== 'binding') return
      if (answer.command === 'generic_nack' || answer.status !== 0) return end('refused', answer.status)
      state = 'bound'
      options.onBound(session)
    })
    flush()
  })
  socket.on('data', (chunk: Buffer) => {
    if (state === 'ended') return
    readAt = now()
    frames.push(chunk)
    read()
  })
  socket.on('error', (error: Error & { readonly code?: string }) => {
    const isTls =
      secured && /^(?:ERR_TLS|ERR_SSL|EPROTO|CERT_|UNABLE_|DEPTH_|SELF_SIGNED)/u.test(error.code ?? '')
    end(isTls ? 'untrusted' : 'disconnected')
  })
  socket.on('close', () => end(state === 'unbinding' ? 'closed' : 'disconnected'))
  scheduleCheck()
  return session
}
