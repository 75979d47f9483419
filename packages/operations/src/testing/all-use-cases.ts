/** All use cases of the package, for rules about each of them. */
import * as Operations from '../index.ts'
import type { UseCase } from '../use-case.ts'

export type AnyUseCase = Pick<
  UseCase<unknown, unknown, unknown, unknown>,
  'name' | 'permission' | 'members' | 'audit' | 'reason' | 'counts' | 'input' | 'output'
>

const isUseCase = (value: unknown): value is AnyUseCase =>
  typeof value === 'object' && value !== null && 'permission' in value && 'run' in value && 'name' in value

/** Each exported use case, by its place. */
export const allUseCases = Object.entries(Operations).flatMap(
  ([name, exported]): ReadonlyArray<[string, AnyUseCase]> => {
    if (isUseCase(exported)) return [[name, exported]]
    if (typeof exported !== 'object') return []
    return Object.entries(exported).flatMap(([key, value]): ReadonlyArray<[string, AnyUseCase]> =>
      isUseCase(value) ? [[`${name}.${key}`, value]] : [],
    )
  },
)
