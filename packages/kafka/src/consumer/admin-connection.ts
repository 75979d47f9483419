/** An admin client that a group member opens at the first request and replaces after a failure. */
import type { Admin } from 'kafkajs'
import { makeKafka, type Fork, type KafkaClient, type KafkaConnection } from '../connection/client.ts'
import { REQUEST_TIMEOUT_MS } from './consumer-instance.ts'

export class AdminConnection {
  readonly #connection: KafkaConnection
  readonly #fork: Fork
  #open:
    | { readonly client: KafkaClient; readonly admin: Admin; readonly connected: Promise<void> }
    | undefined

  constructor(connection: KafkaConnection, fork: Fork) {
    this.#connection = connection
    this.#fork = fork
  }

  async request<A>(send: (admin: Admin) => Promise<A>): Promise<A> {
    if (this.#open === undefined) {
      const retry = { retries: 2, initialRetryTime: 50, maxRetryTime: 200 }
      const client = makeKafka(this.#connection, { requestTimeoutMs: REQUEST_TIMEOUT_MS, retry }, this.#fork)
      const admin = client.kafka.admin()
      this.#open = { client, admin, connected: admin.connect() }
    }
    const { admin, connected } = this.#open
    try {
      await connected
      return await send(admin)
    } catch (error) {
      this.close()
      throw error
    }
  }

  close(): void {
    const open = this.#open
    this.#open = undefined
    open?.client.destroy()
  }
}
