/**
 * A fault of kafkajs 2.2.4: after the first answer on a connection, its request queue looks for waiting requests every
 * millisecond for ever, by a timer with a negative delay, of which Node warns. It need look only while requests wait;
 * one that comes to wait says so itself.
 */
import { createRequire } from 'node:module'

interface RequestQueue {
  readonly pending: ReadonlyArray<unknown>
  scheduleCheckPendingRequests(): void
}

const require = createRequire(import.meta.url)

/** The class itself, for the test of its shape. */
export const RequestQueueClass = require('kafkajs/src/network/requestQueue') as {
  readonly prototype: RequestQueue
}

const schedule = RequestQueueClass.prototype.scheduleCheckPendingRequests

RequestQueueClass.prototype.scheduleCheckPendingRequests = function (this: RequestQueue): void {
  if (this.pending.length > 0) schedule.call(this)
}
