/** The frame of a process of the hub: everything that its apps do in the same way. */
export { type AppOptions, runApp } from './run-app.ts'
