/**
 * Loaded into each app of a run before its code (`node --import`). It moves the clock of the process
 * by the milliseconds in a file. A wrong clock of a machine has the same effect: the monotonic clock
 * stays right.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

const READ_EVERY_MS = 250
const file = join(process.env['CLOCK_DIR'] ?? '', process.env['HUB_ADMIN_PORT'] ?? '')
const RealDate = Date
const realNow = Date.now
let movedMs = 0

RealDate.now = () => realNow() + movedMs
globalThis.Date = new Proxy(RealDate, {
  construct: (target, args, newTarget) =>
    Reflect.construct(target, args.length === 0 ? [RealDate.now()] : args, newTarget),
})

setInterval(() => {
  try {
    movedMs = Number(readFileSync(file, 'utf8'))
  } catch {
    movedMs = 0
  }
}, READ_EVERY_MS).unref()
