/** The dispatcher as a library, for tests across processes. */
export { type Dispatcher, type DispatcherOptions, GROUP, makeDispatcher } from './dispatcher.ts'
export { KnownMessages } from './known/port.ts'
export { knownMessagesPostgres } from './known/postgres.ts'
