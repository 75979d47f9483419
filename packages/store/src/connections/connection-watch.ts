/**
 * Finds the connections to PostgreSQL that are dead without a sign, and destroys them. A connection
 * that waits too long for an answer is suspect. PostgreSQL then says on another connection whether
 * it still works for the suspect one (docs/decisions/servers.md#postgresql).
 */
import type net from 'node:net'
import postgres from 'postgres'
import { failedSocket, openSocket, type Target, type TlsMode } from './open-socket.ts'
import { ProtocolState } from './protocol-state.ts'
import { isSessionOf, type Session, type Verdict, verdictOn } from './verdict.ts'

/** Nearly all statements answer sooner. Suspicion costs one statement on another connection. */
const SUSPECT_AFTER_MS = 1000
/** A check reads some numbers of each connection, but it wakes the process. */
const CHECK_EVERY_MS = 500
/** A connection with a slow statement may die meanwhile, so it is checked again after this time. */
const CHECK_AGAIN_AFTER_MS = 2000
/**
 * A probe that takes longer, with its connection, has failed. New connections would not help then
 * either.
 */
const PROBE_WITHIN_MS = 2000
/** The pause after a failed probe. PostgreSQL must not get a flood of connections after an outage. */
const PROBE_AGAIN_AFTER_MS = 500
/** Between probes the connection for them closes after this time. */
const PROBE_IDLE_SECONDS = 10
/**
 * The least time for an answer that is already on its way. It is more than a round trip over a slow
 * network; the time that the probe took can raise it.
 */
const ON_ITS_WAY_MS = 250
/** Sessions that await their end. More are left to the time limits of PostgreSQL. */
const MAX_ABANDONED = 200
/** Of connecting, including encryption: up to three round trips. */
const CONNECT_WITHIN_MS = 3000

/** Why a connection was replaced. The values are labels of a metric. */
export const REPLACED_REASONS = ['closed', 'gone', 'lost', 'read_only'] as const
export type ReplacedReason = (typeof REPLACED_REASONS)[number]

export interface WatchEvents {
  readonly onReplaced: (reason: ReplacedReason) => void
  /** A pooler answers in the name of PostgreSQL, so that no verdict is possible. */
  readonly onPooler: () => void
}

interface Watched {
  readonly socket: net.Socket
  readonly state: ProtocolState
  /** Monotonic clock, as all times here. */
  readonly openedAt: number
  /** PostgreSQL works for it, so it is not suspect before this time. */
  checkAgainAt: number
  /** The hub closes it, or has found it dead. */
  isEnding: boolean
}

/** A connection after its login that waits too long. */
interface Suspect extends Watched {
  readonly state: ProtocolState & { readonly pid: number; readonly readyAt: number }
}

/** The sockets of one pool of the driver. */
export interface SocketGroup {
  /** For the option `socket` of the driver. */
  readonly open: (target: Target) => Promise<net.Socket>
  /** Destroys the sockets that are left when the pool has closed. */
  readonly close: () => void
}

const now = () => performance.now()

/** The connection on which PostgreSQL is asked. */
interface Probe {
  readonly sql: postgres.Sql
  readonly group: SocketGroup
  readonly state: () => ProtocolState | null
}

/** A session of PostgreSQL that nobody uses any more. */
interface Abandoned {
  readonly pid: number
  readonly openedAt: number
  readonly readyAt: number
}

const silence = (verdict: Verdict): Error =>
  Object.assign(new Error('PostgreSQL does not answer on this connection'), {
    code: verdict === 'gone' ? 'CONNECTION_GONE' : 'CONNECTION_LOST',
  })

export class ConnectionWatch {
  readonly #url: string
  readonly #mode: TlsMode
  readonly #application: string
  readonly #events: WatchEvents
  readonly #watched = new Set<Watched>()
  #abandoned: Array<Abandoned> = []
  #timer: NodeJS.Timeout | null = null
  #probe: Probe | null = null
  #isChecking = false
  #checkAt = 0
  #hasPooler = false
  #isClosed = false
  #lastAnswerAt = 0

  constructor(url: string, mode: TlsMode, application: string, events: WatchEvents) {
    this.#url = url
    this.#mode = mode
    this.#application = application
    this.#events = events
  }

  /** When a connection has received something last; monotonic clock. */
  lastAnswerAt(): number {
    return this.#lastAnswerAt
  }

  group(): SocketGroup {
    return this.#group((watched) => this.#watch(watched))
  }

  /** Stops all checks. */
  close(): void {
    this.#isClosed = true
    if (this.#timer !== null) clearInterval(this.#timer)
    this.#dropProbe()
  }

  #group(onOpen: (watched: Watched) => void): SocketGroup {
    const sockets = new Set<net.Socket>()
    let isClosed = false
    let index = 0
    return {
      open: async (target) => {
        let socket: net.Socket
        const openedAt = now()
        try {
          socket = await openSocket(target, this.#mode, index, CONNECT_WITHIN_MS)
        } catch (error) {
          index++
          return failedSocket(error)
        }
        if (isClosed) {
          socket.destroy()
          return failedSocket(null)
        }
        sockets.add(socket)
        const watched: Watched = {
          socket,
          state: new ProtocolState(),
          openedAt,
          checkAgainAt: 0,
          isEnding: false,
        }
        socket.once('close', () => {
          // With several hosts, the next connection goes to the next one.
          index++
          sockets.delete(socket)
        })
        const write = socket.write
        socket.write = ((chunk: Buffer, ...rest: []) => {
          watched.state.onSent(chunk)
          return Reflect.apply(write, socket, [chunk, ...rest]) as boolean
        }) as typeof socket.write
        const end = socket.end
        socket.end = ((...args: []) => {
          watched.isEnding = true
          return Reflect.apply(end, socket, args) as net.Socket
        }) as typeof socket.end
        socket.on('data', (chunk: Buffer) => watched.state.onReceived(chunk))
        onOpen(watched)
        return socket
      },
      close: () => {
        isClosed = true
        for (const socket of sockets) socket.destroy()
      },
    }
  }

  #watch(watched: Watched): void {
    const { socket, state } = watched
    this.#watched.add(watched)
    socket.on('data', () => (this.#lastAnswerAt = now()))
    socket.once('close', () => {
      this.#watched.delete(watched)
      // PostgreSQL may not know that the connection is broken, and would keep its locks.
      if (watched.isEnding) return
      this.#events.onReplaced('closed')
      if (state.mayHoldLocks()) this.#abandon(watched)
    })
    if (this.#timer === null && !this.#isClosed) {
      this.#timer = setInterval(() => void this.#check(), CHECK_EVERY_MS)
      this.#timer.unref()
    }
  }

  #abandon({ openedAt, state: { pid, readyAt } }: Watched): void {
    if (pid === null || readyAt === null) return
    this.#abandoned = [...this.#abandoned.slice(1 - MAX_ABANDONED), { pid, openedAt, readyAt }]
  }

  #suspects(): ReadonlyArray<Suspect> {
    const at = now()
    return [...this.#watched].filter(
      (watched): watched is Suspect =>
        at >= watched.checkAgainAt &&
        watched.state.pid !== null &&
        watched.state.readyAt !== null &&
        watched.state.silentMs() >= SUSPECT_AFTER_MS,
    )
  }

  async #check(): Promise<void> {
    if (this.#isChecking || this.#isClosed || this.#hasPooler || now() < this.#checkAt) return
    if (this.#abandoned.length === 0 && this.#suspects().length === 0) return
    this.#isChecking = true
    try {
      await this.#judgeSuspects()
      await this.#terminateAbandoned()
    } catch {
      // PostgreSQL is unavailable for new connections, too. Nothing would be better on another one.
      this.#dropProbe()
      this.#checkAt = now() + PROBE_AGAIN_AFTER_MS
    } finally {
      this.#isChecking = false
    }
  }

  async #judgeSuspects(): Promise<void> {
    const suspects = this.#suspects().map((watched) => ({ watched, received: watched.state.received }))
    if (suspects.length === 0) return
    const askedAt = now()
    const sessions = await this.#sessions(suspects.map(({ watched }) => watched.state.pid))
    if (sessions === null) return
    const answeredAt = now()
    const dead: Array<{ readonly watched: Watched; readonly received: number; readonly verdict: Verdict }> =
      []
    for (const { received, watched } of suspects) {
      const verdict = verdictOn(
        this.#describe(watched.state.pid, watched.openedAt, watched.state.readyAt),
        sessions,
      )
      if (verdict === 'working') watched.checkAgainAt = answeredAt + CHECK_AGAIN_AFTER_MS
      else dead.push({ watched, received, verdict })
    }
    if (dead.length > 0) {
      await new Promise((resolve) => setTimeout(resolve, Math.max(ON_ITS_WAY_MS, 2 * (answeredAt - askedAt))))
    }
    for (const { received, verdict, watched } of dead) {
      // The answer was only late.
      if (watched.state.received !== received || watched.socket.destroyed) continue
      this.#events.onReplaced(verdict === 'gone' ? 'gone' : 'lost')
      watched.socket.destroy(silence(verdict))
      this.#abandon(watched)
      watched.isEnding = true
    }
  }

  #describe(pid: number, openedAt: number, readyAt: number) {
    const at = now()
    return { pid, application: this.#application, openedMs: at - openedAt, readyMs: at - readyAt }
  }

  /** Ends the sessions of connections that are gone here, so that PostgreSQL frees their locks. */
  async #terminateAbandoned(): Promise<void> {
    const abandoned = this.#abandoned
    if (abandoned.length === 0 || this.#hasPooler) return
    const sessions = (await this.#sessions(abandoned.map(({ pid }) => pid))) ?? []
    const left = abandoned.filter(({ openedAt, pid, readyAt }) =>
      sessions.some((session) => isSessionOf(session, this.#describe(pid, openedAt, readyAt))),
    )
    if (left.length > 0) {
      await this.#ask(`SELECT ${left.map(({ pid }) => `pg_terminate_backend(${pid})`).join(', ')}`)
    }
    this.#abandoned = this.#abandoned.filter((one) => !abandoned.includes(one))
  }

  /** The sessions with these process ids; `null` if PostgreSQL cannot tell. */
  async #sessions(pids: ReadonlyArray<number>): Promise<ReadonlyArray<Session> | null> {
    const rows = await this.#ask(
      `SELECT pid, application_name AS application, state, wait_event_type AS "waitEventType",
              (extract(epoch FROM clock_timestamp() - backend_start) * 1000)::float8 AS "ageMs"
         FROM pg_stat_activity
        WHERE datname = current_database() AND usename = current_user
          AND pid IN (pg_backend_pid(), ${pids.join(', ')})`,
    )
    const own = this.#probe?.state()?.pid
    if (!rows.some(({ pid }) => pid === own)) {
      this.#hasPooler = true
      this.#events.onPooler()
      return null
    }
    return rows as unknown as ReadonlyArray<Session>
  }

  async #ask(text: string): Promise<ReadonlyArray<Record<string, unknown>>> {
    const { sql } = (this.#probe ??= this.#openProbe())
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<never>((_resolve, reject) => {
      timer = setTimeout(() => reject(new Error('the probe is late')), PROBE_WITHIN_MS)
    })
    try {
      return await Promise.race([sql.unsafe(text), late])
    } finally {
      clearTimeout(timer)
    }
  }

  #openProbe(): Probe {
    let state: ProtocolState | null = null
    const group = this.#group((watched) => (state = watched.state))
    const sql = postgres(this.#url, {
      max: 1,
      ssl: false,
      fetch_types: false,
      connect_timeout: PROBE_WITHIN_MS / 1000,
      idle_timeout: PROBE_IDLE_SECONDS,
      onnotice: () => {},
      connection: { application_name: `${this.#application}-probe` },
      socket: group.open,
      // The types of the driver omit the last option.
    } as postgres.Options<{}>)
    return { sql, group, state: () => state }
  }

  #dropProbe(): void {
    const probe = this.#probe
    this.#probe = null
    if (probe === null) return
    void probe.sql.end({ timeout: 0 }).catch(() => undefined)
    probe.group.close()
  }
}
