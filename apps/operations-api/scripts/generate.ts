/**
 * Generates the API description of the operations API, `openapi.json`, from the endpoints. Run it after
 * every change of an endpoint or of the schemas of its use case:
 *
 *   node scripts/run.mjs apps/operations-api/scripts/generate.ts
 */
import { writeFileSync } from 'node:fs'
import { operationsDescriptionText } from '../src/index.ts'

writeFileSync(new URL('../openapi.json', import.meta.url), operationsDescriptionText())
