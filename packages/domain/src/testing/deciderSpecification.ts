/** Given facts, when a command, then facts: decider tests that read as a specification. */
import { Result } from 'effect'
import { expect } from 'vitest'

interface Decider<State, Command, Fact, Failure> {
  readonly initialState: State
  readonly decide: (state: State, command: Command) => Result.Result<ReadonlyArray<Fact>, Failure>
  readonly evolve: (state: State, fact: Fact) => State
}

export const specificationOf =
  <State, Command, Fact, Failure extends { readonly _tag: string }>({
    initialState,
    decide,
    evolve,
  }: Decider<State, Command, Fact, Failure>) =>
  (...history: ReadonlyArray<Fact>) => ({
    when: (command: Command) => {
      const decision = () =>
        decide(
          history.reduce<State>((state, fact) => evolve(state, fact), initialState),
          command,
        )
      return {
        /** Expects exactly these facts in this order. */
        // oxlint-disable-next-line unicorn/no-thenable -- no code awaits this object
        then: (...facts: ReadonlyArray<Fact>): void => {
          expect(
            Result.getOrThrowWith(decision(), (failure) => new Error(`refused: ${failure._tag}`)),
          ).toEqual(facts)
        },
        /** Expects no facts and no error. */
        thenNothing: (): void => {
          expect(
            Result.getOrThrowWith(decision(), (failure) => new Error(`refused: ${failure._tag}`)),
          ).toEqual([])
        },
        thenFails: (tag: Failure['_tag'], details: Partial<Failure> = {}): void => {
          const result = decision()
          expect(Result.isFailure(result) ? result.failure : result).toMatchObject({ ...details, _tag: tag })
        },
      }
    },
  })
