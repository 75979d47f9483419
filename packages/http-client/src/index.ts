export { boundedFetch } from './bounded-fetch.ts'
export { skippingInformational } from './informational.ts'
