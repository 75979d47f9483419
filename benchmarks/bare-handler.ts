/**
 * The limit of a single send: a bare node:http handler that awaits one PostgreSQL commit and one
 * Kafka produce per acceptance batch. It has no authentication, validation, ledger or encryption.
 *
 * `accepting.ts` starts it as a child process, sends the plan over IPC and receives its address. It
 * exits on disconnect.
 */
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { acceptedRecord, encodeOutboxRow, EventLog, layerEventLog, topicNames } from '@hub/kafka'
import { Effect, ManagedRuntime } from 'effect'
import postgres from 'postgres'
import { accepted } from './bare-kafka.ts'

export interface HandlerPlan {
  readonly brokers: ReadonlyArray<string>
  readonly databaseUrl: string
  readonly prefix: string
}

const serve = async (plan: HandlerPlan): Promise<string> => {
  const sql = postgres(plan.databaseUrl, { max: 2, onnotice: () => {} })
  await sql`CREATE TABLE IF NOT EXISTS public.bench_batches (id bigint GENERATED ALWAYS AS IDENTITY, records bytea NOT NULL)`
  const runtime = ManagedRuntime.make(
    layerEventLog({ connection: { brokers: plan.brokers, clientId: 'bench-handler' }, partitions: 6 }),
  )
  const topics = topicNames(plan.prefix)
  const waiting: Array<ServerResponse> = []
  let isRunning = false
  let made = 0

  const runBatches = async (): Promise<void> => {
    isRunning = true
    while (waiting.length > 0) {
      const batch = waiting.splice(0)
      const records = batch.map(() => acceptedRecord(topics, accepted(made++)))
      await sql`INSERT INTO public.bench_batches (records) VALUES (${Buffer.from(encodeOutboxRow(records))})`
      await runtime.runPromise(Effect.flatMap(EventLog, (log) => log.append(records)))
      for (const response of batch) {
        response.writeHead(202, { 'content-type': 'application/json' })
        response.end('{"status":"accepted"}')
      }
    }
    isRunning = false
  }

  const server = createServer((request, response) => {
    request.resume()
    request.once('end', () => {
      waiting.push(response)
      if (!isRunning) void runBatches()
    })
  })
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening))
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

process.once('message', (plan: HandlerPlan) => {
  void serve(plan).then((address) => process.send?.(address))
})
process.once('disconnect', () => process.exit(0))
