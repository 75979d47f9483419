/** Erasure of a person's data on request. */
export { eraseRecipient, type Erasure, erasures, readErasures } from './erasure.ts'
