/** What accounts use: charges of a month, and the performance of templates. */
export { charges, chargesCsv } from './charges.ts'
export { templates } from './templates.ts'
