/** The doubles of the fan-out that the simulation runs. The image does not contain them. */
export { MemoryStore } from './memory-store.ts'
