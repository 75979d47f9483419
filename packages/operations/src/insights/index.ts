/** What becomes of messages: delivery, times and failures. */
export { read } from './read.ts'
