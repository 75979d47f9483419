/** Exports for the benchmark that measures what tracing costs. No other app may import them. */
export { makeTracedAppend } from './accept/traced-append.ts'
export { observe } from './http/observe.ts'
