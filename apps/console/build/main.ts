/**
 * Builds the console, for the image and for the archive:
 *
 *   node apps/console/build/main.ts [folder]   default: apps/console/dist
 */
import { join, resolve } from 'node:path'
import { buildConsole } from './build.ts'

await buildConsole(resolve(process.argv[2] ?? join(import.meta.dirname, '../dist')))
