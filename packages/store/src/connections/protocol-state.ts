/**
 * What a connection to PostgreSQL waits for, read from the headers of the messages in both
 * directions (protocol 3.0). No content of a message is kept.
 */

/** `ReadyForQuery`: PostgreSQL has answered everything up to a `Sync` or a simple query. */
const READY_FOR_QUERY = 0x5a
/** `BackendKeyData`: the process id of the session. */
const BACKEND_KEY_DATA = 0x4b
const SYNC = 0x53
const SIMPLE_QUERY = 0x51
/** A type and a length. */
const HEADER_OCTETS = 5
const NOTHING: Buffer = Buffer.alloc(0)

type OnMessage = (type: number, body: Buffer) => void

/** Splits a stream into messages. `kept`: the octets of each body that `onMessage` gets. */
const makeWalker = (kept: number, onMessage: OnMessage) => {
  let rest = NOTHING
  /** Octets of the current message that are still to come. */
  let toSkip = 0
  return (chunk: Buffer): void => {
    let at = 0
    const octets = rest.length === 0 ? chunk : Buffer.concat([rest, chunk])
    rest = NOTHING
    while (at < octets.length) {
      if (toSkip > 0) {
        const skipped = Math.min(toSkip, octets.length - at)
        toSkip -= skipped
        at += skipped
        continue
      }
      if (octets.length - at < HEADER_OCTETS) break
      const body = octets.readUInt32BE(at + 1) - 4
      const wanted = Math.min(kept, body)
      if (octets.length - at < HEADER_OCTETS + wanted) break
      onMessage(octets[at]!, octets.subarray(at + HEADER_OCTETS, at + HEADER_OCTETS + wanted))
      at += HEADER_OCTETS
      toSkip = body
    }
    if (at < octets.length) rest = Buffer.from(octets.subarray(at))
  }
}

export class ProtocolState {
  /** The process of PostgreSQL behind the connection; `null` until PostgreSQL names it. */
  pid: number | null = null
  /** When the first answer was complete (monotonic clock); `null` before. */
  readyAt: number | null = null
  /** The number of chunks from PostgreSQL. It tells whether something has arrived since. */
  received = 0
  #isStarted = false
  #unanswered = 0
  #hasWrittenLast = false
  #isInTransaction = false
  #silentSince = 0

  readonly #walkSent = makeWalker(0, (type) => {
    if (type === SYNC || type === SIMPLE_QUERY) this.#unanswered++
  })
  readonly #walkReceived = makeWalker(4, (type, body) => {
    if (type === READY_FOR_QUERY) {
      this.#unanswered = Math.max(0, this.#unanswered - 1)
      this.#isInTransaction = body[0] !== 0x49
      this.readyAt ??= performance.now()
    } else if (type === BACKEND_KEY_DATA) this.pid = body.readInt32BE(0)
  })

  onSent(chunk: Buffer): void {
    if (!this.isWaiting()) this.#silentSince = performance.now()
    this.#hasWrittenLast = true
    if (this.#isStarted) this.#walkSent(chunk)
    else {
      // The first message has no type.
      this.#isStarted = true
      this.#unanswered = 1
    }
  }

  onReceived(chunk: Buffer): void {
    this.received++
    this.#hasWrittenLast = false
    this.#silentSince = performance.now()
    this.#walkReceived(chunk)
  }

  /** PostgreSQL owes an answer. */
  isWaiting(): boolean {
    return this.#unanswered > 0 || this.#hasWrittenLast
  }

  /** PostgreSQL may hold locks for this connection. */
  mayHoldLocks(): boolean {
    return this.isWaiting() || this.#isInTransaction
  }

  /** Since when PostgreSQL owes an answer and has sent nothing, milliseconds. */
  silentMs(): number {
    return this.isWaiting() ? performance.now() - this.#silentSince : 0
  }
}
