/** What the command lines of the hub have in common. */
export { isLoopbackAddress, isPrivateAddress, urlOf } from './address.ts'
export { defineCommand, defineGroup, NOTHING } from './command.ts'
export { completionScript, type Shell, SHELLS } from './completion-script.ts'
export { confirm, isOnTerminal, Yes } from './confirm.ts'
export { CommandFailed, EXIT, ofCommandLine, refused, unavailable, usageError } from './failure.ts'
export { type Cell, type Columns, fields, Json, printNote, show, showList, table } from './output.ts'
export { referencePage } from './reference-page.ts'
export { runProgram } from './run.ts'
