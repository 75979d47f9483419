import { assert, describe, it } from '@effect/vitest'
import { Cause, Effect, Exit, Fiber } from 'effect'
import { TestClock } from 'effect/testing'
import { Readiness } from './admin.ts'
import { teardown } from './teardown.ts'

describe('readiness', () => {
  it.effect('is not given before the app says that everything is wired', () =>
    Effect.gen(function* () {
      const readiness = yield* Readiness
      assert.deepStrictEqual(yield* readiness.failing, ['starting'])
      yield* readiness.started
      assert.deepStrictEqual(yield* readiness.failing, [])
    }).pipe(Effect.provide(Readiness.layer)),
  )

  it.effect('names what fails, and forgets a part when it is gone', () =>
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

  it.effect('takes a check that hangs for one that fails', () =>
    Effect.gen(function* () {
      const readiness = yield* Readiness
      yield* readiness.started
      yield* readiness.add('hanging', Effect.never)
      const asked = yield* Effect.forkChild(readiness.failing)
      yield* TestClock.adjust('1 second')
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

  it('is 0 for an end that was asked for, 1 for one that was not', () => {
    assert.strictEqual(codeOf(Exit.void), 0)
    assert.strictEqual(codeOf(Exit.failCause(Cause.interrupt(1))), 0)
    assert.strictEqual(codeOf(Exit.fail('lost')), 1)
    assert.strictEqual(codeOf(Exit.die(new Error('bug'))), 1)
  })
})
