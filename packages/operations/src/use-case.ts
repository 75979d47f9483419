/** The form of a use case: one operation of hub staff or of members, which hubctl and the operations API call. */
import type { Effect, Schema } from 'effect'
import type { Actor } from './actor.ts'
import type { OperationRefused } from './failures.ts'
import type { Permission } from './permission.ts'
import type { AuditFacts } from './tables/audit.ts'

export interface UseCase<Input, Output, E, R> {
  /** As in the audit trail and in hubctl, without flags: `keys issue`. */
  readonly name: string
  readonly permission: Permission
  /**
   * Whether members may use it within their accounts (`scope.ts`). Its input names the account, or what belongs to
   * one. `self`: it names nothing, and `run` shows only the accounts of its actor. Missing: only hub staff may.
   */
  readonly members?: 'named' | 'self'
  /** The input. Ids are public ids, times are timestamps in UTC, `null` is "any" or "none". */
  readonly input: Schema.Codec<Input, unknown>
  readonly output: Schema.Codec<Output, unknown>
  /**
   * A rule about the input that its schema cannot express: the sentence about a wrong input, or
   * `null`. A wrong input is not recorded, like one that does not match the schema.
   */
  readonly check?: (input: Input) => string | null
  /**
   * The arguments in the audit trail, without personal data. `null`: the use case neither changes
   * something nor reads data of a person, so it is not recorded.
   */
  readonly audit: ((input: Input) => AuditFacts) | null
  /**
   * The facts of the outcome in the audit trail. A method, so that a use case is also one with a less
   * exact output.
   */
  result?(output: Output): AuditFacts
  /**
   * Only if the use case reveals or erases personal data, or drops a record: why the actor does it. Through
   * the API a reason is required. With hubctl it may be missing.
   */
  readonly reason?: (input: Input) => string | null
  /**
   * Whether a run counts for the limit of look-ups of a person (docs/decisions/persons.md#limit-of-look-ups):
   * it shows the number or a text of a person, or what belongs to a number. Only of a recorded use case.
   */
  readonly counts?: (input: Input) => boolean
  readonly run: (input: Input, actor: Actor) => Effect.Effect<Output, E | OperationRefused, R>
}

type JsonSchema = Schema.Codec<unknown, unknown>

/** A use case that keeps the types of its schemas, for the API description. */
interface DescribedUseCase<In extends JsonSchema, Out extends JsonSchema, E, R> extends UseCase<
  In['Type'],
  Out['Type'],
  E,
  R
> {
  readonly input: In & Schema.Codec<In['Type'], unknown>
  readonly output: Out & Schema.Codec<Out['Type'], unknown>
}

/** Defines a use case. The types of input and output follow from the schemas. */
export const defineUseCase = <In extends JsonSchema, Out extends JsonSchema, E, R>(
  useCase: DescribedUseCase<In, Out, E, R>,
): DescribedUseCase<In, Out, E, R> => useCase
