/** Writes docs/asyncapi.json: `node scripts/run.mjs tools/asyncapi/generate.ts`. */
import { writeFileSync } from 'node:fs'
import { asyncApiText } from './describe.ts'

writeFileSync(new URL('../../docs/asyncapi.json', import.meta.url), asyncApiText())
