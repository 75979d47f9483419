/** The HTTP interface of the operator simulator, for submissions and for tests. See README.md. */
import { createServer, type IncomingMessage, type Server } from 'node:http'
import { setTimeout as delay } from 'node:timers/promises'
import type { Operator, Submission } from './operator.ts'
import { isSame } from './privacy.ts'
import type { Smsc } from './smpp/smsc.ts'

const MAX_BODY_BYTES = 2 * 1024 * 1024
const MAX_SUBMISSIONS = 500
/** The limit of SMS. The hub sends at most ten parts. */
const MAX_PARTS = 255

interface Reply {
  readonly status: number
  readonly body: unknown
  readonly headers?: Readonly<Record<string, string>>
}

const isAuthorized = (request: IncomingMessage, secret: string): boolean =>
  isSame(request.headers.authorization ?? '', `Bearer ${secret}`)

/** The body, or null if it is too large. */
const readBody = async (request: IncomingMessage): Promise<string | null> => {
  const chunks: Array<Buffer> = []
  let size = 0
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.length
    if (size > MAX_BODY_BYTES) return null
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}

const parse = (text: string): unknown => {
  try {
    return JSON.parse(text) as unknown
  } catch {
    return undefined
  }
}

/** The error in an element of the array, or null. */
const errorOf = (element: unknown): string | null => {
  if (typeof element !== 'object' || element === null) return 'is not an object'
  const { encoding, parts, reference, sender, text, to, validity_seconds } = element as Record<
    string,
    unknown
  >
  if (typeof reference !== 'string' || reference === '' || reference.length > 128)
    return 'has no usable reference'
  if (typeof to !== 'string' || !/^\+\d{5,15}$/u.test(to)) return 'has no usable to'
  if (typeof text !== 'string') return 'has no text'
  if (typeof sender !== 'string' || sender === '') return 'has no sender'
  if (!Number.isInteger(parts) || (parts as number) < 1 || (parts as number) > MAX_PARTS)
    return 'has no usable parts'
  if (encoding !== 'gsm7' && encoding !== 'ucs2') return 'has no usable encoding'
  if (!Number.isInteger(validity_seconds) || (validity_seconds as number) < 1)
    return 'has no usable validity_seconds'
  return null
}

const submissionsFrom = (body: unknown): ReadonlyArray<Submission> | { readonly error: string } => {
  if (!Array.isArray(body) || body.length < 1 || body.length > MAX_SUBMISSIONS) {
    return { error: `the body must be an array of 1 to ${MAX_SUBMISSIONS} submissions` }
  }
  for (const [index, element] of body.entries()) {
    const error = errorOf(element)
    if (error !== null) return { error: `submission ${index} ${error}` }
  }
  return (body as ReadonlyArray<Submission>).map(({ parts, reference, to }) => ({ parts, reference, to }))
}

/** Longer than any message of ten parts. */
const MAX_INBOUND_TEXT = 1600

/** Queues an inbound message and returns its number of parts. */
const receive = (smsc: Smsc, body: unknown): Reply => {
  const { from, text, to } = (typeof body === 'object' && body !== null ? body : {}) as Record<
    string,
    unknown
  >
  const refuse = (error: string): Reply => ({ status: 400, body: { error } })
  if (typeof from !== 'string' || !/^\+\d{5,15}$/u.test(from)) return refuse('from must be a number, +79…')
  if (typeof to !== 'string' || !/^\+?[\dA-Za-z]{1,20}$/u.test(to)) return refuse('to must be an address')
  if (typeof text !== 'string' || text === '' || text.length > MAX_INBOUND_TEXT) {
    return refuse(`text must be 1 to ${MAX_INBOUND_TEXT} characters`)
  }
  const parts = smsc.receive({ from, to, text })
  return parts === null
    ? { status: 503, body: { error: 'too many inbound messages wait for a bind' } }
    : { status: 202, body: { parts } }
}

const methods: Readonly<Record<string, ReadonlyArray<string>>> = {
  '/submissions': ['GET', 'POST'],
  '/statistics': ['GET'],
  '/behaviour': ['GET', 'PUT'],
  '/inbound': ['POST'],
  '/binds': ['DELETE', 'GET'],
}

/** Returns null if the connection must be closed without an answer. */
const answer = async (
  request: IncomingMessage,
  operator: Operator,
  smsc: Smsc | null,
  secret: string,
): Promise<Reply | null> => {
  const url = new URL(request.url ?? '/', 'http://operator')
  const path = url.pathname
  const reference = /^\/submissions\/([^/]+)$/u.exec(path)?.[1]
  const allowed = reference === undefined ? methods[path] : ['GET']
  if (allowed === undefined) return { status: 404, body: { error: 'unknown path' } }
  const method = request.method ?? ''
  if (!allowed.includes(method)) {
    return { status: 405, body: { error: 'method not allowed' }, headers: { allow: allowed.join(', ') } }
  }
  if (path === '/submissions' && method === 'POST' && !isAuthorized(request, secret)) {
    return { status: 401, body: { error: 'wrong or missing secret' } }
  }
  const text = await readBody(request)
  if (text === null) {
    return { status: 413, body: { error: 'the body is too large' }, headers: { connection: 'close' } }
  }
  const find = (key: string): Reply => {
    const found = operator.find(key)
    return found === null ? { status: 404, body: { error: 'unknown message' } } : { status: 200, body: found }
  }
  if (reference !== undefined) return find(reference)
  if (path === '/submissions' && method === 'GET') {
    return find(operator.referenceOf(url.searchParams.get('to') ?? '', url.searchParams.get('text') ?? ''))
  }
  if (path === '/statistics') {
    const sessions = {
      binds: smsc?.binds().length ?? 0,
      unfinished: smsc?.unfinished() ?? 0,
      refused: smsc?.refused() ?? 0,
    }
    return { status: 200, body: { ...operator.statistics(), ...sessions } }
  }
  if (path === '/inbound' || path === '/binds') {
    if (smsc === null) return { status: 404, body: { error: 'SMPP is not configured' } }
    if (path === '/inbound') return receive(smsc, parse(text))
    return {
      status: 200,
      body: method === 'DELETE' ? { dropped: smsc.dropBinds() } : { binds: smsc.binds() },
    }
  }
  if (path === '/behaviour') {
    if (method === 'GET') return { status: 200, body: operator.behaviour() }
    const changed = operator.setBehaviour(parse(text))
    return { status: 'error' in changed ? 400 : 200, body: changed }
  }
  const submissions = submissionsFrom(parse(text))
  if ('error' in submissions) return { status: 400, body: submissions }
  const wait = operator.behaviour().submit_delay_ms
  if (wait > 0) await delay(wait)
  const { answers, dropped } = operator.submit(submissions, Date.now())
  return dropped ? null : { status: 200, body: answers }
}

/** The HTTP server of an operator. `smsc` is its SMPP server, if configured. The caller listens. */
export const makeServer = (operator: Operator, secret: string, smsc: Smsc | null = null): Server =>
  createServer((request, response) => {
    void answer(request, operator, smsc, secret)
      .catch((): Reply => ({ status: 500, body: { error: 'the simulator failed' } }))
      .then((reply) => {
        if (reply === null) {
          request.socket.destroy()
          return
        }
        const body = JSON.stringify(reply.body)
        response.writeHead(reply.status, { 'content-type': 'application/json', ...reply.headers })
        response.end(body)
      })
  })
