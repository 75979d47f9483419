/** What accounts use: charges and statistics of a month, and the performance of templates. */
export { charges } from './charges.ts'
export { days } from './days.ts'
export { MONTH_PATTERN, ofMonth, USAGE_COLUMNS, UsageRow } from './month.ts'
export { templates } from './templates.ts'
