/** An own database for tests of use cases that need no other server. */
import { randomUUID } from 'node:crypto'
import { encodeId } from '@hub/domain'
import { CommandAccounts, DEADLINE_OF_STAFF, makeSql, Sql } from '@hub/store'
import { freshDatabase, openDatabase } from '@hub/testkit'
import { ConfigProvider, Effect, Layer, ManagedRuntime, Redacted, Schema } from 'effect'
import type { Actor } from '../actor.ts'
import { perform } from '../perform.ts'
import { type AuditRow, readNewest } from '../tables/audit.ts'
import type { UseCase } from '../use-case.ts'

/** Connections of the use cases of a test. */
const CONNECTIONS = 2

/** Ends a test whose pages never end. */
const MOST_PAGES = 10

/** The items of all pages of one item each. */
export const readPages = async <Item>(
  read: (page: {
    readonly limit: number
    readonly cursor: string | null
  }) => Promise<{ readonly data: ReadonlyArray<Item>; readonly next_cursor: string | null }>,
): Promise<ReadonlyArray<Item>> => {
  const items: Array<Item> = []
  let cursor: string | null = null
  do {
    const page = await read({ limit: 1, cursor })
    if (page.data.length !== 1) throw new Error(`a page of one item has ${page.data.length}`)
    items.push(...page.data)
    cursor = page.next_cursor
  } while (cursor !== null && items.length < MOST_PAGES)
  return items
}

/** `settings`: what use cases read while they run. */
export const makeTestDatabase = async (settings: Readonly<Record<string, string>> = {}) => {
  const database = await freshDatabase()
  const sql = openDatabase(database.url)
  const runtime = ManagedRuntime.make(
    Layer.merge(
      // Use cases that start together wait for each other, on a busy machine longer than the deadline of a client.
      Layer.effect(
        Sql,
        makeSql(Redacted.make(database.url), CONNECTIONS, 'operations-test', DEADLINE_OF_STAFF),
      ),
      ConfigProvider.layer(ConfigProvider.fromUnknown(settings)),
    ),
  )

  return {
    url: database.url,
    sql,
    runtime,

    /** Performs a use case. The input and the output must match their schemas. */
    run: async <Input, Output, E>(
      actor: Actor,
      useCase: UseCase<Input, Output, E, Sql>,
      input: Input,
    ): Promise<Output> => {
      const decoded = Schema.decodeUnknownSync(useCase.input)(input)
      const output = await runtime.runPromise(perform(actor, useCase, decoded))
      return Schema.decodeUnknownSync(useCase.output)(output)
    },

    /** Performs a use case that must fail, and returns the failure. */
    refusal: <Input, Output, E>(actor: Actor, useCase: UseCase<Input, Output, E, Sql>, input: Input) =>
      runtime.runPromise(Effect.flip(perform(actor, useCase, input))),

    /** The newest rows of the audit trail. */
    auditRows: (
      command: string | null = null,
      actor: string | null = null,
    ): Promise<ReadonlyArray<AuditRow>> =>
      runtime.runPromise(
        Effect.flatMap(Sql, (q) =>
          q.run((on) => readNewest(on, { actor, command, before: null, limit: 100 })),
        ),
      ),

    /** Inserts an account. Returns its UUID and its public id. */
    account: async (name: string): Promise<{ readonly uuid: string; readonly id: string }> => {
      const uuid = randomUUID()
      await CommandAccounts.insert(sql, { id: uuid, name })
      return { uuid, id: encodeId('acc', uuid) }
    },

    remove: async () => {
      await runtime.dispose()
      await sql.end()
      await database.drop()
    },
  }
}
export type TestDatabase = Awaited<ReturnType<typeof makeTestDatabase>>
