/**
 * Writes `docs/hubctl.md` from the help of the commands. Run it after each change of a command:
 *
 *   node scripts/run.mjs apps/hubctl/scripts/generate.ts
 */
import { writeFileSync } from 'node:fs'
import { Effect } from 'effect'
import { hubctlPage } from '../src/command-line/reference-page.ts'

writeFileSync(new URL('../../../docs/hubctl.md', import.meta.url), await Effect.runPromise(hubctlPage))
