/**
 * The limit of a single send: a bare node:http handler that awaits one PostgreSQL commit and one
 * Kafka produce for the requests that arrived together. Two such flushes may be in progress, as in
 * command-api. It stores the bodies as they are: without authentication, validation, ids, ledger or
 * encryption.
 *
 * `acceptance.ts` starts it as a child process, sends the plan over IPC and receives its address. It
 * exits on disconnect.
 */
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import postgres from 'postgres'
import { startBareProducer } from './bare-producer.ts'

export interface HandlerPlan {
  readonly brokers: ReadonlyArray<string>
  readonly databaseUrl: string
  /** An existing topic. */
  readonly topic: string
}

const FLUSHES = 2

interface Waiting {
  readonly body: Buffer
  readonly response: ServerResponse
}

const serve = async ({ brokers, databaseUrl, topic }: HandlerPlan): Promise<string> => {
  const sql = postgres(databaseUrl, { max: FLUSHES, onnotice: () => {} })
  await sql`CREATE TABLE IF NOT EXISTS public.bench_batches (id bigint GENERATED ALWAYS AS IDENTITY, bodies bytea NOT NULL)`
  const producer = await startBareProducer(brokers)
  let waiting: Array<Waiting> = []
  let flushes = 0
  let made = 0

  const flush = async (): Promise<void> => {
    flushes++
    while (waiting.length > 0) {
      const together = waiting
      waiting = []
      const bodies = together.map(({ body }) => body)
      await sql`INSERT INTO public.bench_batches (bodies) VALUES (${Buffer.concat(bodies)})`
      await producer.send(
        topic,
        bodies.map((value) => ({ key: String(made++), value })),
      )
      for (const { response } of together) {
        response.writeHead(202, { 'content-type': 'application/json' })
        response.end('{"status":"accepted"}')
      }
    }
    flushes--
  }

  const server = createServer((request, response) => {
    const chunks: Array<Buffer> = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.once('end', () => {
      waiting.push({ body: chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks), response })
      if (flushes < FLUSHES) void flush()
    })
  })
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening))
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

process.once('message', (plan: HandlerPlan) => {
  void serve(plan).then((address) => process.send?.(address))
})
process.once('disconnect', () => process.exit(0))
