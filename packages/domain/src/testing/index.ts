/** Fixtures for tests of other packages and apps. */
export { messageAccepted } from './message-accepted.ts'
