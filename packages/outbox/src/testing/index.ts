/** An outbox table in memory. The image does not contain it. */
export { makeMemoryOutbox, type MemoryOutbox } from './memory-outbox.ts'
