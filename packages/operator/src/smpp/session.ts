/**
 * One connection to a centre: bound, kept alive, and ended. It knows requests, answers and deadlines, and nothing of
 * messages. Callbacks of one socket run one after the other, so that nothing here needs a lock; every wait has a bound,
 * and however it ends, everything that was asked is answered, with `null` where the centre's answer was lost.
 */
import type { Socket } from 'node:net'
import { COMMAND_STATUS } from './errors.ts'
import { type Command, decodePdu, encodePdu, type Fields, makeFrames, nextSequence, type Pdu } from './pdu.ts'

export type Role = 'transceiver' | 'transmitter' | 'receiver'

/** Why a session ended. A bounded set: it is a label of metrics. */
export type SessionEnd =
  /** No connection, or it was cut. */
  | 'disconnected'
  /** The certificate is not one to be trusted, or TLS failed otherwise. */
  | 'untrusted'
  /** Not connected and bound in time. */
  | 'late'
  /** The centre answered the bind with an error. */
  | 'refused'
  /** Requests, among them one that asks whether anybody is there, were not answered. */
  | 'silent'
  /** It sent what is no PDU. */
  | 'malformed'
  /** It unbound. */
  | 'unbound'
  /** We did. */
  | 'closed'

export interface SessionOptions {
  readonly role: Role
  /** Begins to connect; `secured` tells which event says that it is. */
  readonly connect: () => { readonly socket: Socket; readonly secured: boolean }
  readonly bind: Fields
  /** From the beginning until bound, ms. */
  readonly connectDeadlineMs: number
  /** From a request until its answer, ms. */
  readonly responseDeadlineMs: number
  /** Without a sign of the centre for so long it is asked for one, ms. */
  readonly enquireLinkMs: number
  /** So many answers in a row that do not come, and nobody is there. */
  readonly maxTimeouts: number
  /** Deliveries that may wait for their answer; then nothing is read any more. */
  readonly deliverWindow: number
  readonly onBound: (session: Session) => void
  /** There may be room again to write. */
  readonly onRoom: () => void
  /** What arrived together. Each is answered with `answer`. */
  readonly onDeliver: (session: Session, deliveries: ReadonlyArray<Delivery>) => void
  /** Last; `status` is the centre's when it refused the bind. */
  readonly onEnd: (session: Session, end: SessionEnd, status: number) => void
}

/** A deliver_sm or data_sm. */
export interface Delivery {
  readonly pdu: Pdu
  /** Its octets, a copy. */
  readonly octets: Buffer
}

export interface Session {
  readonly role: Role
  readonly isBound: () => boolean
  /** Bound, not ending, and all that was written before has left the process: what is written now leaves at once. */
  readonly canWrite: () => boolean
  /** Requests that await their answer. */
  readonly inFlight: () => number
  /**
   * Writes a request with the next `flush`, which has to come in the same tick. `answered` gets the answer, or `null` when
   * none came in time or the connection ended.
   */
  readonly request: (command: 'submit_sm', fields: Fields, answered: (answer: Pdu | null) => void) => void
  readonly flush: () => void
  /** Answers deliveries. */
  readonly answer: (deliveries: ReadonlyArray<Delivery>, status: number) => void
  /** Takes nothing more, waits for what is in flight, unbinds, and ends; by `withinMs` in any case. */
  readonly close: (withinMs: number) => void
  /** Ends it now. */
  readonly destroy: () => void
}

interface Pending {
  readonly command: Command
  readonly writtenAt: number
  readonly answered: (answer: Pdu | null) => void
}

/** A sweep comes four times a second; one that comes so late was kept from running. */
const STALL_MS = 1000
/** For the last octets of a session that ends in peace. */
const LINGER_MS = 1000
/** So much is gathered for one write; more would only wait in the kernel. */
const FLUSH_OCTETS = 64 * 1024

export const openSession = (options: SessionOptions): Session => {
  const now = () => performance.now()
  const { role } = options
  const frames = makeFrames()
  /** In the order in which they were written, which is that of their deadlines. */
  const pending = new Map<number, Pending>()
  let sequence = 0
  let outgoing: Array<Buffer> = []
  let outgoingOctets = 0
  let state: 'binding' | 'bound' | 'closing' | 'unbinding' | 'ended' = 'binding'
  let delivering = 0
  /** Nothing is read, for our own sake: whoever waits for an answer waits longer. */
  let holding = false
  let readAt = now()
  let resumedAt = 0
  let sweptAt = now()
  let stalledSince: number | null = null
  let timeouts = 0
  let enquiring = false
  let closeBy = Number.POSITIVE_INFINITY
  const startedAt = now()
  const { secured, socket } = options.connect()
  socket.setNoDelay(true)

  /** Asked where what was called in between may have ended it. */
  const isEnded = () => state === 'ended'

  const end = (why: SessionEnd, status = 0) => {
    if (state === 'ended') return
    state = 'ended'
    clearInterval(sweeper)
    if (why === 'unbound' || why === 'closed') {
      // The last answer still leaves, if the centre reads it soon.
      socket.destroySoon()
      setTimeout(() => socket.destroy(), LINGER_MS).unref()
    } else {
      socket.destroy()
    }
    const lost = Array.from(pending.values())
    pending.clear()
    for (const { answered } of lost) answered(null)
    options.onEnd(session, why, status)
  }

  const write = (octets: Buffer) => {
    if (state === 'ended') return
    outgoing.push(octets)
    outgoingOctets += octets.length
  }

  const flush = () => {
    if (outgoing.length === 0 || state === 'ended') return
    const octets = outgoing.length === 1 ? outgoing[0]! : Buffer.concat(outgoing)
    outgoing = []
    outgoingOctets = 0
    socket.write(octets, () => {
      if (socket.writableLength > 0) return
      stalledSince = null
      if (holding) read()
      options.onRoom()
    })
    if (socket.writableLength > 0) stalledSince ??= now()
  }

  const request = (command: Command, fields: Fields, answered: (answer: Pdu | null) => void) => {
    sequence = nextSequence(sequence, (taken) => pending.has(taken))
    pending.set(sequence, { command, writtenAt: now(), answered })
    write(encodePdu(command, sequence, fields))
  }

  const inFlight = () => {
    // Besides submissions there is at most one enquire_link or unbind.
    let others = 0
    if (enquiring) others++
    if (state === 'unbinding' || state === 'binding') others++
    return Math.max(0, pending.size - others)
  }

  const enquire = () => {
    if (enquiring) return
    enquiring = true
    request('enquire_link', {}, (answer) => {
      enquiring = false
      if (answer === null) end('silent')
    })
    flush()
  }

  const unbindWhenDone = () => {
    if (state !== 'closing' || delivering > 0 || inFlight() > 0) return
    state = 'unbinding'
    request('unbind', {}, () => end('closed'))
    flush()
  }

  const answerOf = (pdu: Pdu) => {
    const asked = pending.get(pdu.sequence)
    if (asked === undefined) return
    // An answer to something else than was asked is none.
    if (pdu.command !== 'generic_nack' && pdu.command !== `${asked.command}_resp`) return
    pending.delete(pdu.sequence)
    // A centre that only says that it is there does not do its work.
    if (asked.command === 'submit_sm') timeouts = 0
    asked.answered(pdu)
  }

  const handle = (pdu: Pdu, frame: Buffer, arrived: Array<Delivery>) => {
    if (pdu.isResponse) return answerOf(pdu)
    switch (pdu.command) {
      case 'enquire_link':
        return write(encodePdu('enquire_link_resp', pdu.sequence))
      case 'deliver_sm':
      case 'data_sm':
        if (state === 'binding') return end('malformed')
        delivering++
        arrived.push({ pdu, octets: Buffer.from(frame) })
        return
      case 'unbind':
        write(encodePdu('unbind_resp', pdu.sequence))
        flush()
        return end('unbound')
      case 'alert_notification':
      case 'outbind':
        return
      default:
        return write(encodePdu('generic_nack', pdu.sequence, {}, COMMAND_STATUS.ESME_RINVCMDID))
    }
  }

  const mustHold = () => delivering >= options.deliverWindow || socket.writableNeedDrain

  /** Reads what there is, up to what may wait for its answer. */
  const read = () => {
    if (state === 'ended') return
    const arrived: Array<Delivery> = []
    while (!mustHold()) {
      const frame = frames.next()
      if (frame === null) break
      const pdu = frame === 'malformed' ? null : decodePdu(frame)
      if (frame === 'malformed' || pdu === null) {
        end('malformed')
        return
      }
      handle(pdu, frame, arrived)
      if (isEnded()) return
    }
    if (mustHold() && !holding) {
      holding = true
      socket.pause()
    } else if (!mustHold() && holding) {
      holding = false
      resumedAt = now()
      socket.resume()
    }
    flush()
    if (arrived.length > 0) options.onDeliver(session, arrived)
    unbindWhenDone()
    options.onRoom()
  }

  const sweep = () => {
    const at = now()
    // The process stood still: what has arrived meanwhile is read before anything counts as lost.
    if (at - sweptAt > STALL_MS) resumedAt = at
    sweptAt = at
    if (at >= closeBy) return end('closed')
    if (state === 'binding') {
      if (at - startedAt >= options.connectDeadlineMs) end('late')
      return
    }
    if (stalledSince !== null && at - stalledSince >= options.responseDeadlineMs) return end('silent')
    if (holding) return
    const overdue: Array<number> = []
    for (const [number, { writtenAt }] of pending) {
      if (at - Math.max(writtenAt, resumedAt) < options.responseDeadlineMs) break
      overdue.push(number)
    }
    timeouts += overdue.length
    // Before anybody is told: what they write next belongs on another connection.
    if (timeouts >= options.maxTimeouts) return end('silent')
    for (const number of overdue) {
      const asked = pending.get(number)
      pending.delete(number)
      asked?.answered(null)
    }
    if (isEnded()) return
    if (at - readAt >= options.enquireLinkMs) enquire()
    unbindWhenDone()
  }

  const session: Session = {
    role,
    isBound: () => state === 'bound',
    canWrite: () => state === 'bound' && socket.writableLength === 0 && outgoingOctets < FLUSH_OCTETS,
    inFlight,
    request,
    flush,
    answer: (deliveries, status) => {
      if (state === 'ended') return
      delivering -= deliveries.length
      for (const { pdu } of deliveries) {
        const command = pdu.command === 'data_sm' ? 'data_sm_resp' : 'deliver_sm_resp'
        write(encodePdu(command, pdu.sequence, {}, status))
      }
      flush()
      if (holding && delivering <= options.deliverWindow / 2) read()
      else unbindWhenDone()
    },
    close: (withinMs) => {
      if (state === 'ended') return
      closeBy = now() + withinMs
      if (state === 'binding') return end('closed')
      if (state === 'bound') state = 'closing'
      unbindWhenDone()
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
  // Often enough that no deadline is late by more than a tenth, and seldom enough to cost nothing.
  const sweeper = setInterval(
    sweep,
    Math.max(5, Math.min(250, options.responseDeadlineMs / 10, options.connectDeadlineMs / 10)),
  )
  return session
}
