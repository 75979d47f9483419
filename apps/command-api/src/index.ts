/** The API process: takes commands, answers queries; no state of its own. */
export { type AppOptions, commandApi } from './app.ts'
