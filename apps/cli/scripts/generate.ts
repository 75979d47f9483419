/** Writes docs/hub.md. */
import { writeFileSync } from 'node:fs'
import { Effect } from 'effect'
import { hubPage } from '../src/page.ts'

writeFileSync(new URL('../../../docs/hub.md', import.meta.url), await Effect.runPromise(hubPage))
