/** The stores of a hub for tests of commands: an own database, and rows that no command creates. */
import { randomUUID } from 'node:crypto'
import { makeRedisCounters, utcDay } from '@hub/counters'
import type { RunResult } from '@hub/command-line/testing'
import { encodeId, type MessageClass, type Mode, recipientHash } from '@hub/domain'
import { CommandSenders, CommandTemplates } from '@hub/store'
import { freshDatabase, openDatabase, testRedisUrl } from '@hub/testkit'
import { Effect, Redacted } from 'effect'
import { assert } from 'vitest'
import { runHubctl } from './run-hubctl.ts'

const HASH_SECRET = 'a secret of at least 32 characters for tests'

/** `settings`: further environment variables. */
export const makeTestHub = async (settings: Readonly<Record<string, string>> = {}) => {
  const database = await freshDatabase()
  const sql = openDatabase(database.url)
  const environment = {
    HUB_DATABASE_URL: database.url,
    HUB_REDIS_URL: testRedisUrl(),
    HUB_REDIS_PREFIX: `hubctl-${randomUUID()}:`,
    HUB_NUMBER_HASH_SECRET: HASH_SECRET,
    HUBCTL_ACTOR: 'a test',
    ...settings,
  }
  const run = (args: ReadonlyArray<string>, input?: string): Promise<RunResult> =>
    runHubctl(environment, args, input)

  /** Runs a command with `--json` that must succeed, and returns the document. */
  const succeed = async <A>(args: ReadonlyArray<string>, input?: string): Promise<A> => {
    const ran = await run([...args, '--json'], input)
    assert.strictEqual(ran.code, 0, ran.err)
    return ran.json<A>()
  }

  /** Runs a command that must fail without output, and returns its error code. */
  const refusal = async (args: ReadonlyArray<string>, input?: string): Promise<string> => {
    const ran = await run([...args, '--json'], input)
    assert.notStrictEqual(ran.code, 0, ran.out)
    assert.strictEqual(ran.out, '')
    const error = ran.err.slice(ran.err.indexOf('{'))
    return (JSON.parse(error) as { readonly error: { readonly code: string } }).error.code
  }

  return {
    sql,
    /** Runs a command line as another person. */
    runAs: (actor: string, args: ReadonlyArray<string>): Promise<RunResult> =>
      runHubctl({ ...environment, HUBCTL_ACTOR: actor }, args),
    run,
    succeed,
    refusal,
    hashOf: (number: string): string => recipientHash(HASH_SECRET, number),

    /** Inserts a sender as the API does: pending in live mode. Returns `snd_…`. */
    sender: async (account: string, mode: Mode, name: string): Promise<string> => {
      const id = randomUUID()
      const status = mode === 'live' ? 'pending' : 'registered'
      await CommandSenders.insert(sql, {
        id,
        account,
        mode,
        name,
        registration: '{"company": "Shop"}',
        status,
      })
      return encodeId('snd', id)
    },

    /** Inserts a template as the API does. Returns `tpl_…`. */
    template: async (
      account: string,
      mode: Mode,
      name: string,
      messageClass: MessageClass = 'service',
    ): Promise<string> => {
      const id = randomUUID()
      await CommandTemplates.insert(sql, {
        id,
        account,
        mode,
        name,
        class: messageClass,
        sender: 'SHOP',
        body: 'Order {{order}}',
        language: null,
        status: mode === 'live' ? 'pending_moderation' : 'approved',
      })
      return encodeId('tpl', id)
    },

    /** Counts messages for the daily limit, as command-api does when it has accepted them. */
    countAccepted: (messages: number): Promise<number> =>
      Effect.runPromise(
        makeRedisCounters({
          url: Redacted.make(environment.HUB_REDIS_URL),
          prefix: environment.HUB_REDIS_PREFIX,
        }).pipe(
          Effect.flatMap(({ daily }) => daily.count(utcDay(Date.now()), messages)),
          Effect.scoped,
        ),
      ),

    remove: async () => {
      await sql.end()
      await database.drop()
    },
  }
}
export type TestHub = Awaited<ReturnType<typeof makeTestHub>>
