export { skippingInformational } from './informational.ts'
