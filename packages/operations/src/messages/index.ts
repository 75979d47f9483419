/** Messages of all accounts: find, list, timeline, and reveal what is encrypted. */
export { briefTimeline } from './brief-timeline.ts'
export { findBy, OPERATORS } from './find-by.ts'
export { find, SearchResult } from './find.ts'
export { get } from './get.ts'
export { list } from './list.ts'
export { Message } from './message.ts'
export { raw, reveal } from './reveal.ts'
export { timeline } from './timeline.ts'
