/** Erasure of a person on request. */
export { eraseRecipient, type Erasure, erasures, readErasures } from './erasure.ts'
