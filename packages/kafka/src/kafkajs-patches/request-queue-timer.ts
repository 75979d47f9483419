/**
 * Global patch on import: the request queue of a connection sets a timer only while requests wait.
 *
 * - kafkajs 2.2.4: after the first answer, each connection checks its queue every millisecond
 *   forever. The timer has a negative delay, and Node writes a warning about it.
 * - Why the hub needs more: idle processes use processor time, and the warnings fill the log.
 * - Fails without the patch: `kafkajs-patches.unit.test.ts`, "sets a timer for waiting requests
 *   only while some wait".
 * - Unnecessary when: `scheduleCheckPendingRequests` sets no timer for an empty queue.
 */
import { type RequestQueue, RequestQueueClass } from './internals.ts'

const schedule = RequestQueueClass.prototype.scheduleCheckPendingRequests

RequestQueueClass.prototype.scheduleCheckPendingRequests = function (this: RequestQueue): void {
  if (this.pending.length > 0) schedule.call(this)
}
