/**
 * Generates the API description, `openapi.json`, from the definition. Run it after every change of the
 * definition:
 *
 *   node scripts/run.mjs packages/contract/scripts/generate.ts
 */
import { writeFileSync } from 'node:fs'
import { descriptionText } from '../src/index.ts'

writeFileSync(new URL('../openapi.json', import.meta.url), descriptionText())
