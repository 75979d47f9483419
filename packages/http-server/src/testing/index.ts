export { answered, listenerContract, openRaw } from './listener.contract.ts'
