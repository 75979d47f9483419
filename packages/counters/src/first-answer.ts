/** Asks several servers that know the same. */
import { connectionFault } from '@hub/config'
import { Effect, Random } from 'effect'
import type { CountersUnavailable } from './port.ts'

/** What a server refuses, which somebody must correct. `undefined`: none has answered like this. */
export const refusalOf = (failures: ReadonlyArray<CountersUnavailable>): CountersUnavailable | undefined =>
  failures.find((failure) => connectionFault(failure)?.isRefusal === true)

/**
 * A server that does not answer must not delay the others, and one that is reachable gets no more questions than
 * necessary. Source: RFC 8305, 5 (the recommended delay between connection attempts).
 */
const NEXT_AFTER_MS = 250

/**
 * Asks the servers one after the other, without waiting for those that are slow, and returns the first answer. The order
 * is random, so that a server whose answer is out of date is not always the first.
 *
 * Fails with what a server refuses, or else with `otherwise`.
 */
export const firstAnswer = <A>(
  urls: ReadonlyArray<string>,
  question: (url: string) => Effect.Effect<A, CountersUnavailable>,
  otherwise: (failures: ReadonlyArray<CountersUnavailable>) => CountersUnavailable,
): Effect.Effect<A, CountersUnavailable> =>
  Effect.gen(function* () {
    const failures: Array<CountersUnavailable> = []
    const inOrder = yield* Random.shuffle(urls)
    const questions = inOrder.map((url, index) =>
      question(url).pipe(
        Effect.tapError((failure) => Effect.sync(() => failures.push(failure))),
        Effect.delay(index * NEXT_AFTER_MS),
      ),
    )
    return yield* Effect.raceAll(questions).pipe(
      Effect.catch(() => Effect.fail(refusalOf(failures) ?? otherwise(failures))),
    )
  })
