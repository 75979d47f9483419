/** The dispatcher as a library, for tests across processes. */
export { type Dispatcher, type DispatcherOptions, GROUP, makeDispatcher } from './dispatcher.ts'
export { OptOuts } from './inbound/opt-outs.ts'
export { optOutsPostgres } from './inbound/postgres.ts'
export { KnownMessages } from './known/port.ts'
export { knownMessagesPostgres } from './known/postgres.ts'
