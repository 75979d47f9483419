/** The doubles of the projector that the simulation runs. The image does not contain them. */
export { journalName, MemoryStore, type MemoryTransaction } from './memory-store.ts'
