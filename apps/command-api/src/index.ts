/** The API process: takes commands, answers queries; no state of its own. */
export { type AppOptions, commandApi } from './app.ts'
// For the bench of what tracing costs.
export { makeTracedAppend } from './accept/traced-append.ts'
export { observe } from './http/observe.ts'
