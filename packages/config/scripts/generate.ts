/**
 * Generates `docs/configuration.md` from the catalogue. Run it after a change of a setting:
 *
 *   node scripts/run.mjs packages/config/scripts/generate.ts
 */
import { writeFileSync } from 'node:fs'
import { configurationPage } from '../src/index.ts'

writeFileSync(new URL('../../../docs/configuration.md', import.meta.url), configurationPage())
