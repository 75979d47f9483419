import { assert, describe, it } from '@effect/vitest'
import { Cause, Effect, Exit, Fiber } from 'effect'
import { TestClock } from 'effect/testing'
import { onceReached, Readiness } from './admin.ts'
import { teardown } from './teardown.ts'

describe('readiness', () => {
  it.effect('fails before the app has started', () =>
    Effect.gen(function* () {
      const readiness = yield* Readiness
      assert.deepStrictEqual(yield* readiness.failing, ['starting'])
      yield* readiness.started
      assert.deepStrictEqual(yield* readiness.failing, [])
    }).pipe(Effect.provide(Readiness.layer)),
  )

  it.effect('names the failing checks, and removes a check with its scope', () =>
    Effect.gen(function* () {
      const readiness = yield* Readiness
      yield* readiness.started
      yield* Effect.scoped(
        Effect.gen(function* () {
          yield* readiness.add('database', Effect.succeed(false))
          yield* readiness.add('group', Effect.succeed(true))
          assert.deepStrictEqual(yield* readiness.failing, ['database'])
        }),
      )
      assert.deepStrictEqual(yield* readiness.failing, [])
    }).pipe(Effect.provide(Readiness.layer)),
  )

  it.effect('treats a hanging check as failing', () =>
    Effect.gen(function* () {
      const readiness = yield* Readiness
      yield* readiness.started
      yield* readiness.add('hanging', Effect.never)
      const asked = yield* Effect.forkChild(readiness.failing)
      yield* TestClock.adjust('2 seconds')
      assert.deepStrictEqual(yield* Fiber.join(asked), ['hanging'])
    }).pipe(Effect.scoped, Effect.provide(Readiness.layer)),
  )
})

describe('the exit code', () => {
  const codeOf = (exit: Exit.Exit<unknown, unknown>): number => {
    let code = -1
    teardown(exit, (given) => {
      code = given
    })
    return code
  }

  it('is 0 after an orderly end and 1 after a failure', () => {
    assert.strictEqual(codeOf(Exit.void), 0)
    assert.strictEqual(codeOf(Exit.failCause(Cause.interrupt(1))), 0)
    assert.strictEqual(codeOf(Exit.fail('lost')), 1)
    assert.strictEqual(codeOf(Exit.die(new Error('bug'))), 1)
  })

  it.effect('with a server that was reached once does not depend on it any more', () =>
    Effect.gen(function* () {
      const readiness = yield* Readiness
      yield* readiness.started
      let answers = false
      yield* readiness.add('server', onceReached(Effect.sync(() => answers)))
      assert.deepStrictEqual(yield* readiness.failing, ['server'])
      answers = true
      assert.deepStrictEqual(yield* readiness.failing, [])
      answers = false
      assert.deepStrictEqual(yield* readiness.failing, [])
    }).pipe(Effect.scoped, Effect.provide(Readiness.layer)),
  )
})
