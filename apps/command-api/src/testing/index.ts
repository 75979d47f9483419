/** The doubles of command-api that the simulation runs. The image does not contain them. */
export { checkedSend, otpSend, owner, templateOf } from './doubles.ts'
export { makeMemoryLedger, type MemoryLedger } from './memory-ledger.ts'
