/**
 * The driver's pool, the only one the apps have, with what the driver gets wrong around a connection that breaks made good. What that is, and why it
 * is made good here: docs/decisions/0031. Each of it is held to by a test with real connections.
 */
import postgres from 'postgres'

/** A query interface inside or outside a transaction. */
export type Queries = postgres.ISql<{}>

export interface Pool {
  /** Statements, each on whichever connection is free. */
  readonly queries: Queries
  /** A transaction: committed when `body` resolves, rolled back when it rejects. Rejects as soon as its connection breaks. */
  readonly transaction: <A>(body: (q: Queries) => Promise<A>) => Promise<A>
  /** Waits so long for what is under way, then closes. */
  readonly end: (seconds: number) => Promise<void>
}

/** What the driver's statements have beside their types. Its version is pinned, and the tests of this file are its contract. */
interface Statement extends Promise<unknown> {
  /** Takes the statement to a connection. */
  handler: (statement: Statement) => unknown
  resolve: (result: unknown) => void
  reject: (error: unknown) => void
}

/** What the driver's options have beside their types: what its connections have learned of PostgreSQL's types of arrays. */
interface Learned extends Pick<postgres.ParsedOptions, 'parsers' | 'serializers'> {
  readonly shared: { readonly typeArrayMap: Record<number, number> }
  fetch_types: boolean
}

/** The driver's names of a connection that is not there any more, and the operating system's. PostgreSQL's own codes are numbers and letters. */
const isBroken = (error: unknown): boolean =>
  error instanceof Error &&
  !(error instanceof postgres.PostgresError) &&
  'code' in error &&
  typeof error.code === 'string' &&
  /^(?:CONNECT|E)[A-Z_]+$/u.test(error.code)

/**
 * All rows of a result, from its first place on. The driver counts the rows of a connection, and not those of a statement: behind one that fails
 * among its rows, the next begins with as many places that hold nothing.
 */
const whole = (result: unknown): unknown => {
  if (Array.isArray(result) && result.length > 0 && !(0 in result)) {
    let first = 1
    while (first < result.length && !(first in result)) first += 1
    result.splice(0, first)
  }
  return result
}

/** Who is told of a statement. */
interface Watcher {
  /** Why it is not sent any more, or `null`. */
  readonly refusal: () => unknown
  readonly answered: () => void
  readonly failed: (error: unknown) => void
}

const watch = (statement: Statement, { answered, failed, refusal }: Watcher): void => {
  const { handler, reject, resolve } = statement
  statement.handler = (sent) => {
    const refused = refusal()
    return refused === null ? handler(sent) : sent.reject(refused)
  }
  statement.resolve = (result) => {
    answered()
    resolve(whole(result))
  }
  statement.reject = (error) => {
    failed(error)
    reject(error)
  }
}

interface Watched {
  readonly q: Queries
  readonly watcher: Watcher
}

/** The query interface of the moment, each of whose statements is watched. */
const watched = (current: () => Watched): Queries => {
  const make = (name: 'unsafe' | null, parts: ReadonlyArray<unknown>): unknown => {
    const { q, watcher } = current()
    const made: unknown = Reflect.apply((name === null ? q : q[name]) as never, undefined, parts)
    // Names and lists of values are none. Fragments are; they are never sent.
    if (made instanceof Promise) watch(made as Statement, watcher)
    return made
  }
  return new Proxy(current().q, {
    apply: (_q, _self, parts) => make(null, parts),
    get: (_q, name) =>
      name === 'unsafe'
        ? (...parts: ReadonlyArray<unknown>) => make(name, parts)
        : Reflect.get(current().q, name),
  })
}

/** Statements of a pool that is not used any more may end within this; PostgreSQL lets none take longer. */
const RETIRED_FOR_SECONDS = 10

/**
 * How often a pool is renewed that has answered nothing, ms. While PostgreSQL is away each try breaks a connection, and a new pool takes a third of a
 * millisecond.
 */
const RENEWED_EVERY_MS = 100

/** A pool of the driver, which is used until one of its connections breaks. */
interface Opened extends Watched {
  readonly q: postgres.Sql
  readonly spent: () => boolean
}

export const openPool = (url: string, options: postgres.Options<{}>): Pool => {
  let known: Learned | null = null

  /**
   * Each connection asks for the types of arrays before anything else, and where it breaks under that question nobody catches the failure, and the
   * process ends. So it is asked once: who has had an answer has had the types before it.
   */
  const learn = (q: postgres.Sql): void => {
    const own = q.options as unknown as Learned
    own.fetch_types = false
    if (known === null) {
      known = own
      return
    }
    Object.assign(own.parsers, known.parsers)
    Object.assign(own.serializers, known.serializers)
    Object.assign(own.shared.typeArrayMap, known.shared.typeArrayMap)
  }

  const open = (): Opened => {
    const openedAt = performance.now()
    let broken = false
    let hasAnswered = false
    const q = postgres(url, { ...options, onclose: () => (broken = true) })
    if (known !== null) learn(q)
    const watcher: Watcher = {
      refusal: () => null,
      answered: () => {
        if (known === null) learn(q)
        hasAnswered = true
      },
      failed: (error) => {
        if (isBroken(error)) broken = true
      },
    }
    return {
      q,
      watcher,
      spent: () => broken && (hasAnswered || performance.now() >= openedAt + RENEWED_EVERY_MS),
    }
  }
  let pool = open()

  /**
   * The pool for what comes next. The driver connects again with what it had begun to write to the old connection, and then writes nothing at all:
   * so where a connection has broken, all are left to end, and new ones opened.
   */
  const current = (): Opened => {
    if (pool.spent()) {
      void pool.q.end({ timeout: RETIRED_FOR_SECONDS }).catch(() => undefined)
      pool = open()
    }
    return pool
  }

  /**
   * Once the connection of a transaction is gone the driver must not be asked for anything more on it, not even to roll back: it writes to a
   * socket that is not there, where nobody can catch it, and the process ends. So the driver is never told how the body ended.
   */
  const transaction: Pool['transaction'] = <A>(body: (q: Queries) => Promise<A>) =>
    new Promise<A>((resolve, reject) => {
      const { q, watcher } = current()
      let lost: unknown = null
      const failed = (error: unknown) => {
        watcher.failed(error)
        if (!isBroken(error)) return
        lost ??= error
        reject(error)
      }
      q.begin((tx) => {
        const own = { q: tx, watcher: { ...watcher, failed, refusal: () => lost } }
        return new Promise<A>((commit, rollBack) => {
          body(watched(() => own)).then(
            (answer) => {
              if (lost === null) commit(answer)
            },
            (error: unknown) => {
              if (lost === null) rollBack(error)
            },
          )
        })
      }).then(
        (answer) => resolve(answer as A),
        (error: unknown) => {
          failed(error)
          reject(error)
        },
      )
    })

  return {
    queries: watched(current),
    transaction,
    end: (seconds) => pool.q.end({ timeout: seconds }),
  }
}
