/** Builds the console for the image: `node apps/console/build/main.ts`. */
import { join } from 'node:path'
import { buildConsole } from './build.ts'

await buildConsole(join(import.meta.dirname, '../dist'))
