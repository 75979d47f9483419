/** An outbox table in memory. The image does not contain it. */
export { makeMemoryOutbox, type MemoryOutbox, nextRows, statusOf } from './memory-outbox.ts'
