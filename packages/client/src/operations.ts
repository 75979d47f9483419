/** Types of requests and answers, from the API description. */
import type { paths } from './contract.ts'

export type Method = 'get' | 'post' | 'patch' | 'delete'

/** The paths with an operation of this method. */
export type PathOf<M extends Method> = {
  [P in keyof paths]: [NonNullable<paths[P][M]>] extends [never] ? never : P
}[keyof paths]

export type OperationAt<P extends keyof paths, M extends Method> = NonNullable<paths[P][M]>

/** The body of the success response of an operation. */
export type Success<Op> = Op extends { responses: infer Responses }
  ? {
      [Status in keyof Responses]: Status extends 200 | 201 | 202
        ? Responses[Status] extends { content: { 'application/json': infer Body } }
          ? Body
          : never
        : never
    }[keyof Responses]
  : never

type PathParameters<Op> = Op extends { parameters: { path: infer Parameters } }
  ? { readonly path: Parameters }
  : unknown
/** A parameter that is `undefined` is not sent. */
type Query<Parameters> = { readonly [Name in keyof Parameters]: Parameters[Name] | undefined }
type QueryParameters<Op> = Op extends { parameters: { query: infer Parameters } }
  ? { readonly query: Query<Parameters> }
  : Op extends { parameters: { query?: infer Parameters } }
    ? { readonly query?: Query<NonNullable<Parameters>> }
    : unknown
type BodyOption<Op> = Op extends { requestBody: { content: { 'application/json': infer Body } } }
  ? { readonly body: Body }
  : Op extends { requestBody?: infer Optional }
    ? OptionalBody<NonNullable<Optional>>
    : unknown
/** `Content` is `never` for an operation without a body. */
type OptionalBody<Content> = [Content] extends [never]
  ? unknown
  : Content extends { content: { 'application/json': infer Body } }
    ? { readonly body?: Body }
    : unknown

export interface CallOptions {
  readonly signal?: AbortSignal
  /** For a POST: a string of at most 255 characters. Default: a new one for each call. `null`: none. */
  readonly idempotencyKey?: string | null
}

export type Options<Op> = PathParameters<Op> & QueryParameters<Op> & BodyOption<Op> & CallOptions
/** The options argument is optional if no option is required. */
export type Arguments<Op> = object extends Options<Op> ? [options?: Options<Op>] : [options: Options<Op>]

/** The body of a POST or PATCH. */
export type BodyOf<P extends keyof paths, M extends Method> =
  NonNullable<OperationAt<P, M> extends { requestBody?: infer Content } ? Content : never> extends {
    content: { 'application/json': infer Body }
  }
    ? Body
    : never
/** The query parameters of a list. */
export type QueryOf<P extends keyof paths> =
  OperationAt<P, 'get'> extends { parameters: { query?: infer Parameters } }
    ? Query<NonNullable<Parameters>>
    : never
export type AnswerOf<P extends keyof paths, M extends Method> = Success<OperationAt<P, M>>

export type Item<Op> =
  Success<Op> extends { data: ReadonlyArray<infer Element>; has_more: boolean } ? Element : never
export type ListPath = {
  [P in PathOf<'get'>]: [Item<OperationAt<P, 'get'>>] extends [never] ? never : P
}[PathOf<'get'>]
