/**
 * Writes the reference of topics and records into docs/analytics.md:
 * `node scripts/run.mjs packages/kafka/scripts/analytics.ts`, then `npx oxfmt docs`.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { withReference } from '../src/schemas/analytics-reference.ts'

const page = new URL('../../../docs/analytics.md', import.meta.url)
writeFileSync(page, withReference(readFileSync(page, 'utf8')))
