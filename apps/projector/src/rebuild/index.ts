export { type RebuildOptions, runRebuilds } from './runner.ts'
