/**
 * Endpoints: how one use case is called over HTTP. The route, the check of the request, the answer and
 * the API description all follow from one definition.
 */
import {
  perform,
  type Permission,
  requirePermission,
  requireRole,
  type Role,
  rolesOf,
  rolesWith,
  type UseCase,
} from '@hub/operations'
import { Effect, Schema } from 'effect'
import type { Caller } from '../access/caller.ts'
import { type Answer, jsonAnswer, type StreamedAnswer } from '../http/answer.ts'
import type { OwnErrorCode } from '../http/failures.ts'
import { fieldsOf, makeInputDecoder, makeJsonDecoder, type RequestInput } from '../http/input.ts'
import type { OperationServices } from '../layers.ts'

type Method = 'GET' | 'POST' | 'PATCH' | 'DELETE'

interface Texts {
  /** The name of the operation in the API description: `templates.approve`. */
  readonly operation: string
  readonly method: Method
  /** `:name` is a path parameter: a field of the input. */
  readonly path: `/v1/${string}`
  readonly summary: string
  readonly description: string
}

/**
 * The codes with which a use case may refuse the operation, for the API description. `param`: the input
 * that is wrong then.
 */
type Refusals = Readonly<Record<string, { readonly message: string; readonly param?: string }>>

/** An endpoint, as the router and the API description use it. */
export interface Endpoint extends Texts {
  /** Those that may call it; `null`: everybody who is signed in. */
  readonly roles: ReadonlyArray<Role> | null
  readonly input: Schema.Codec<unknown, unknown>
  readonly output: Schema.Codec<unknown, unknown>
  readonly defaults: Readonly<Record<string, unknown>>
  readonly refusals: Refusals
  /** Codes of this API beside those of every endpoint. */
  readonly codes: ReadonlyArray<OwnErrorCode>
  /** The media type of an answer that is no JSON, with a description; `null`: the answer is JSON. */
  readonly media: readonly [type: string, description: string] | null
  /** The use case by its name, without the form of a request; `null`: there is none. */
  readonly performs: {
    readonly name: string
    /** `input`: JSON, complete as hubctl has it. */
    readonly run: (caller: Caller, input: unknown) => Effect.Effect<Answer, unknown, OperationServices>
  } | null
  readonly handle: (
    caller: Caller,
    request: RequestInput,
  ) => Effect.Effect<Answer | StreamedAnswer, unknown, OperationServices>
}

/** The endpoints of one subject, such as templates. */
export interface EndpointGroup {
  readonly name: string
  readonly title: string
  readonly description: string
  readonly endpoints: ReadonlyArray<Endpoint>
}

/** Rows of a page, if a request does not say it. */
export const DEFAULT_LIMIT = 50

export interface UseCaseEndpoint<Input, Output, E, R> extends Texts {
  readonly useCase: UseCase<Input, Output, E, R>
  readonly refusals?: Refusals
  /** Values of parameters that a request leaves out. `limit` has one already. */
  readonly defaults?: Readonly<Record<string, unknown>>
}

/** Defines an endpoint for a use case. `perform` checks the permission and writes the audit trail. */
export const endpoint = <Input, Output, E, R extends OperationServices>(
  is: UseCaseEndpoint<Input, Output, E, R>,
): Endpoint => {
  const { useCase, ...texts } = is
  const input = useCase.input as Schema.Codec<unknown, unknown>
  const output = useCase.output as Schema.Codec<unknown, unknown>
  const hasLimit = 'limit' in (Reflect.get(input, 'fields') ?? {})
  const defaults = { ...(hasLimit ? { limit: DEFAULT_LIMIT } : {}), ...is.defaults }
  const decode = makeInputDecoder(input, is.path, is.method !== 'GET', defaults)
  const decodeJson = makeJsonDecoder(input, 'input')
  const encode = Schema.encodeUnknownEffect(Schema.toCodecJson(output))
  // Before the input is checked: who may not do it needs no help with the form of the request.
  const checkPermission = ({ actor }: Caller) => requireRole(actor, useCase)
  return {
    ...texts,
    performs: {
      name: useCase.name,
      run: Effect.fnUntraced(function* (caller, given) {
        yield* checkPermission(caller)
        const result = yield* perform(caller.actor, useCase, (yield* decodeJson(given)) as Input)
        return jsonAnswer(200, yield* Effect.orDie(encode(result)))
      }),
    },
    roles: rolesOf(useCase),
    input,
    output,
    defaults,
    refusals: refusalsOf(is),
    codes: useCase.counts === undefined ? [] : ['lookup_limit_reached'],
    media: null,
    handle: Effect.fnUntraced(function* (caller, request) {
      yield* checkPermission(caller)
      const decoded = (yield* decode(request)) as Input
      const result = yield* perform(caller.actor, useCase, decoded)
      // An output that does not fit its schema is a defect of the use case.
      return jsonAnswer(200, yield* Effect.orDie(encode(result)))
    }),
  }
}

/** What a list with an optional account also refuses, if members may use it. */
const MEMBER_REFUSALS: Refusals = {
  account_required: { message: 'You are a member of several accounts: choose one.', param: 'account' },
  no_account: { message: 'You are a member of no account.', param: 'account' },
}

/** The refusals of an endpoint, with those that the scope of members adds. */
export const refusalsOf = <Input, Output, E, R>({
  refusals = {},
  useCase,
}: Pick<UseCaseEndpoint<Input, Output, E, R>, 'refusals' | 'useCase'>): Refusals => {
  const { account } = fieldsOf(useCase.input as Schema.Codec<unknown, unknown>)
  const isOptional = account !== undefined && Schema.is(account as Schema.Codec<unknown>)(null)
  return useCase.members === 'named' && isOptional ? { ...MEMBER_REFUSALS, ...refusals } : refusals
}

interface OwnEndpoint extends Texts {
  /** `null`: everybody who is signed in. */
  readonly permission: Permission | null
  readonly output: Schema.Codec<unknown, unknown>
  readonly answer: (caller: Caller) => Effect.Effect<unknown, unknown, OperationServices>
}

/** Defines an endpoint without a use case and without parameters: it concerns only this API. */
export const ownEndpoint = ({ answer, ...is }: OwnEndpoint): Endpoint => {
  const input = Schema.Struct({}) as Schema.Codec<unknown, unknown>
  const decode = makeInputDecoder(input, is.path, is.method !== 'GET', {})
  const encode = Schema.encodeUnknownEffect(Schema.toCodecJson(is.output))
  const { permission, ...texts } = is
  return {
    ...texts,
    roles: permission === null ? null : rolesWith(permission),
    performs: null,
    input,
    defaults: {},
    refusals: {},
    codes: [],
    media: null,
    handle: Effect.fnUntraced(function* (caller, request) {
      if (permission !== null) yield* requirePermission(caller.actor, permission)
      yield* decode(request)
      return jsonAnswer(200, yield* Effect.orDie(encode(yield* answer(caller))))
    }),
  }
}

/** A sentence about the roles that may call an endpoint, for the API description. */
export const rolesSentence = (roles: ReadonlyArray<Role> | null): string =>
  roles === null
    ? 'For everybody who is signed in.'
    : `For the roles ${new Intl.ListFormat('en-GB').format(roles.map((role) => `\`${role}\``))}.`
