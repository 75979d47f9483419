import { assert, describe, it } from '@effect/vitest'
import { signatureHeader } from '@hub/domain'
import { Effect, Redacted, Result } from 'effect'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { operatorContract, type OperatorUnderTest, submissionOf } from '../port.contract.ts'
import { type OperatorAnswer, type OperatorReport, ReportSink, type UnreadableDelivery } from '../port.ts'
import { guardOperator } from '../boundary.ts'
import { readHttpReports } from './callback.ts'
import { HTTP_DEFAULTS, makeHttpOperator } from './http.ts'

const SECRET = 'a secret shared with the operator'

interface Received {
  readonly references: ReadonlyArray<string>
  readonly authorization: string | undefined
}

/** An HTTP operator on a real socket. `answer` gets the parsed batch. */
const operatorServer = (
  answer: (batch: ReadonlyArray<{ reference: string; parts: number }>, response: ServerResponse) => void,
) =>
  Effect.gen(function* () {
    const received: Array<Received> = []
    const server = yield* Effect.acquireRelease(
      Effect.callback<Server>((resume) => {
        const listening = createServer((request: IncomingMessage, response: ServerResponse) => {
          const chunks: Array<Buffer> = []
          request.on('data', (chunk: Buffer) => chunks.push(chunk))
          request.on('end', () => {
            const batch = JSON.parse(Buffer.concat(chunks).toString('utf8')) as ReadonlyArray<{
              reference: string
              parts: number
            }>
            received.push({
              references: batch.map(({ reference }) => reference),
              authorization: request.headers.authorization,
            })
            answer(batch, response)
          })
        })
        listening.listen(0, '127.0.0.1', () => resume(Effect.succeed(listening)))
      }),
      (listening) =>
        Effect.callback<void>((resume) => {
          listening.close(() => resume(Effect.void))
          listening.closeAllConnections()
        }),
    )
    const address = server.address()
    const port = typeof address === 'object' && address !== null ? address.port : 0
    return { url: new URL(`http://127.0.0.1:${port}/`), received, server }
  })

const operatorAt = (url: URL, deadlineMs = 2000, answers: Array<OperatorAnswer | UnreadableDelivery> = []) =>
  makeHttpOperator({ ...HTTP_DEFAULTS, url, secret: Redacted.make(SECRET), deadlineMs }).pipe(
    Effect.provideService(ReportSink, {
      store: () => Effect.die(new Error('reports come as callbacks')),
      storeInbound: () => Effect.die(new Error('inbound messages come as callbacks')),
      keepAnswers: (some) => void answers.push(...some),
    }),
  )

const json = (response: ServerResponse, body: unknown, status = 200) => {
  response.writeHead(status, { 'content-type': 'application/json' })
  response.end(JSON.stringify(body))
}

const idsOf = (reference: string, parts: number) =>
  Array.from({ length: parts }, (_, part) => `${reference}/${part}`)

const accept = (batch: ReadonlyArray<{ reference: string; parts: number }>) =>
  batch.map(({ parts, reference }) => ({
    reference,
    operator_ids: idsOf(reference, parts),
    status: 'accepted',
  }))

const operatorUnderTest = (hasOneIdPerMessage: boolean) =>
  Effect.gen(function* () {
    const reports: Array<OperatorReport> = []
    const waiting: Array<() => void> = []
    const server = yield* operatorServer((batch, response) => {
      json(response, accept(hasOneIdPerMessage ? batch.map((one) => ({ ...one, parts: 1 })) : batch))
      // The signed callback, parsed like in the dispatcher's listener.
      for (const { reference } of batch) {
        const body = Buffer.from(
          JSON.stringify([
            {
              operator_id: `${reference}/0`,
              reference,
              status: 'delivered',
              reason: null,
              at: '2026-11-21T09:30:00.123Z',
            },
          ]),
        )
        const now = Date.now()
        const read = readHttpReports(
          Redacted.make(SECRET),
          signatureHeader([SECRET], Math.floor(now / 1000), body),
          body,
          now,
        )
        if (Result.isSuccess(read)) reports.push(...read.success.usable)
        for (const look of waiting) look()
      }
    })
    return {
      operator: yield* operatorAt(server.url),
      hasOneIdPerMessage,
      reports: () => reports,
      reported: (wanted: Parameters<OperatorUnderTest['reported']>[0]) =>
        Effect.callback<OperatorReport>((resume) => {
          const look = () => {
            const found = reports.find(wanted)
            if (found !== undefined) resume(Effect.succeed(found))
          }
          waiting.push(look)
          look()
        }).pipe(Effect.timeout('5 seconds'), Effect.orDie),
    }
  })

operatorContract('http', operatorUnderTest(false))
operatorContract('http with one id per message', operatorUnderTest(true))

describe('the HTTP operator on real sockets', () => {
  const submit = (
    answer: (batch: ReadonlyArray<{ reference: string; parts: number }>, response: ServerResponse) => void,
    count = 1,
    deadlineMs = 2000,
  ) =>
    Effect.gen(function* () {
      const server = yield* operatorServer(answer)
      const operator = yield* operatorAt(server.url, deadlineMs)
      const batch = Array.from({ length: count }, (_, i) => submissionOf(`msg_${i}`))
      return { outcomes: yield* operator.submit(batch, () => true), received: server.received }
    }).pipe(Effect.scoped)

  it.live('sends the secret, and splits a batch that is too large for one request', () =>
    Effect.gen(function* () {
      const { outcomes, received } = yield* submit((batch, response) => json(response, accept(batch)), 450)
      assert.isTrue(outcomes.every(({ type }) => type === 'accepted'))
      assert.deepStrictEqual(
        received.map(({ references }) => references.length).sort((a, b) => a - b),
        [50, 200, 200],
      )
      assert.isTrue(received.every(({ authorization }) => authorization === `Bearer ${SECRET}`))
    }),
  )

  it.live('reads rejections and throttling', () =>
    Effect.gen(function* () {
      const { outcomes } = yield* submit(
        (batch, response) =>
          json(
            response,
            batch.map(({ reference }, i) => ({
              reference,
              operator_ids: [],
              ...[
                { status: 'throttled' },
                { status: 'rejected', reason: 'spam_filter_content' },
                { status: 'rejected', reason: 'a reason of next year' },
              ][i],
            })),
          ),
        3,
      )
      assert.deepStrictEqual(outcomes, [
        { type: 'refused', submitted: true, retryAfterMs: 250, throttledParts: 1 },
        { type: 'rejected', reason: 'spam_filter_content' },
        { type: 'rejected', reason: 'operator_rejected' },
      ])
    }),
  )

  // RFC 9110, 15.2: a client must be able to parse informational responses, also unexpected ones.
  it.live('reads the answer after informational ones', () =>
    Effect.gen(function* () {
      const { outcomes } = yield* submit((batch, response) => {
        response.writeContinue()
        response.writeProcessing()
        json(response, accept(batch))
      })
      assert.deepStrictEqual(outcomes, [{ type: 'accepted', operatorIds: ['msg_0/0'] }])
    }),
  )

  it.live('finds the one invalid submission of a refused batch', () =>
    Effect.gen(function* () {
      const { outcomes } = yield* submit(
        (batch, response) =>
          batch.some(({ reference }) => reference === 'msg_5')
            ? json(response, { error: 'msg_5 is odd' }, 400)
            : json(response, accept(batch)),
        9,
      )
      assert.deepStrictEqual(
        outcomes.map(({ type }) => type),
        Array.from({ length: 9 }, (_, i) => (i === 5 ? 'rejected' : 'accepted')),
      )
    }),
  )

  const unknown: ReadonlyArray<
    readonly [
      string,
      (batch: ReadonlyArray<{ reference: string; parts: number }>, response: ServerResponse) => void,
    ]
  > = [
    ['a connection that closes without an answer', (_batch, response) => response.destroy()],
    ['no answer within the deadline', () => {}],
    ['a server error', (_batch, response) => json(response, {}, 500)],
    ['an answer that is not one', (_batch, response) => json(response, [{ reference: 'msg_0' }])],
    [
      'an answer about something else',
      (_batch, response) => json(response, accept([{ reference: 'msg_9', parts: 1 }])),
    ],
    [
      // V8 parses it, but JSON.stringify of the value exceeds the stack.
      'an answer of 100,000 nested arrays',
      (_batch, response) => void response.end(`${'['.repeat(100_000)}${']'.repeat(100_000)}`),
    ],
    ['an answer of no octets', (_batch, response) => void response.end()],
    ['an answer without end', (_batch, response) => void response.end(Buffer.alloc(2 * 1024 * 1024, 0x20))],
  ]
  for (const [name, answer] of unknown) {
    it.live(`reports an unknown outcome after ${name}`, () =>
      Effect.gen(function* () {
        const { outcomes } = yield* submit(answer, 1, 300)
        assert.deepStrictEqual(outcomes, [{ type: 'unknown' }])
      }),
    )
  }

  it.live('reads the usable elements of an answer, whatever the others are', () =>
    Effect.gen(function* () {
      const server = yield* operatorServer((batch, response) =>
        json(
          response,
          batch.map(({ reference }, i) => ({
            reference,
            status: 'accepted',
            operator_ids: [['a\0b'], ['x'.repeat(300_000)], ['op-1'], [], [7], ['\ud83d'], ['op-2']][i],
          })),
        ),
      )
      const operator = yield* guardOperator(yield* operatorAt(server.url))
      const batch = Array.from({ length: 7 }, (_, i) => submissionOf(`msg_${i}`))
      const outcomes = yield* operator.submit(batch, () => true)
      assert.deepStrictEqual(
        outcomes.map((outcome) => (outcome.type === 'accepted' ? outcome.operatorIds[0] : outcome.type)),
        ['unknown', 'unknown', 'op-1', 'unknown', 'unknown', 'unknown', 'op-2'],
      )
    }).pipe(Effect.scoped),
  )

  it.live('keeps the raw answer to each message', () =>
    Effect.gen(function* () {
      const answers: Array<OperatorAnswer | UnreadableDelivery> = []
      const good = yield* operatorServer((batch, response) => json(response, accept(batch)))
      const operator = yield* operatorAt(good.url, 2000, answers)
      yield* operator.submit([submissionOf('msg_0'), submissionOf('msg_1')], () => true)
      const busy = yield* operatorServer((_batch, response) => response.writeHead(503).end('later'))
      yield* (yield* operatorAt(busy.url, 2000, answers)).submit([submissionOf('msg_2')], () => true)
      assert.deepStrictEqual(
        answers.map(({ raw, reference }) => [reference, JSON.parse(Buffer.from(raw).toString('utf8'))]),
        [
          ['msg_0', { status: 200, body: accept([{ reference: 'msg_0', parts: 1 }])[0] }],
          ['msg_1', { status: 200, body: accept([{ reference: 'msg_1', parts: 1 }])[0] }],
          ['msg_2', { status: 503, body: 'later' }],
        ],
      )
    }).pipe(Effect.scoped),
  )

  it.live('counts each part of a throttled batch, and keeps to the time of the operator', () =>
    Effect.gen(function* () {
      const answerWith = (headers: Record<string, string>) =>
        submit((_batch, response) => {
          response.writeHead(429, headers)
          response.end()
        })
      const refused = { type: 'refused', submitted: true, throttledParts: 1 } as const
      assert.deepStrictEqual((yield* answerWith({})).outcomes, [{ ...refused, retryAfterMs: 250 }])
      assert.deepStrictEqual((yield* answerWith({ 'retry-after': '2' })).outcomes, [
        { ...refused, retryAfterMs: 2000 },
      ])
    }),
  )

  it.live('refuses messages for now if the operator is busy, unreachable or refuses the secret', () =>
    Effect.gen(function* () {
      const busy = yield* submit((_batch, response) => {
        response.writeHead(503, { 'retry-after': '7' })
        response.end()
      })
      assert.deepStrictEqual(busy.outcomes, [{ type: 'refused', submitted: true, retryAfterMs: 7000 }])
      const stranger = yield* submit((_batch, response) => json(response, {}, 401))
      assert.deepStrictEqual(stranger.outcomes, [{ type: 'refused', submitted: true, retryAfterMs: 10_000 }])
      const gone = yield* Effect.scoped(
        Effect.map(
          operatorServer(() => {}),
          ({ url }) => url,
        ),
      )
      const operator = yield* operatorAt(gone)
      assert.deepStrictEqual(yield* operator.submit([submissionOf('msg_0')], () => true), [
        { type: 'refused', submitted: false, retryAfterMs: 1000 },
      ])
    }).pipe(Effect.scoped),
  )

  it.live('checks the lease when it writes, not at the call of submit', () =>
    Effect.gen(function* () {
      const server = yield* operatorServer((batch, response) => json(response, accept(batch)))
      const operator = yield* operatorAt(server.url)
      let asked = 0
      const outcomes = yield* operator.submit([submissionOf('msg_0')], () => {
        asked++
        return false
      })
      assert.deepStrictEqual(outcomes, [{ type: 'notWritten' }])
      assert.strictEqual(asked, 1)
      yield* operator.submit([submissionOf('msg_1')], () => true)
      assert.deepStrictEqual(
        server.received.map(({ references }) => references),
        [['msg_1']],
      )
    }).pipe(Effect.scoped),
  )
})
