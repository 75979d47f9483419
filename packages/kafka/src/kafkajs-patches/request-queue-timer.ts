/**
 * Global patch on import: the request queue of a connection sets a timer only while requests wait. One
 * timer of the process looks for requests of all connections that took too long, once in a second.
 *
 * - kafkajs 2.2.4: after the first answer, each connection checks its queue every millisecond
 *   forever. The timer has a negative delay, and Node writes a warning about it. Each connection also
 *   looks for late answers ten times in a second.
 * - Why the hub needs more: idle processes use processor time, and the warnings fill the log. The time
 *   limits of requests are a second or more, and all callers have deadlines of their own.
 * - Fails without the patch: `kafkajs-patches.unit.test.ts`, "sets a timer for waiting requests
 *   only while some wait" and "looks for late answers once in a second, with one timer for all
 *   connections".
 * - Unnecessary when: `scheduleCheckPendingRequests` sets no timer for an empty queue, and the other
 *   interval can be set.
 */
import { type RequestQueue, RequestQueueClass } from './internals.ts'

const schedule = RequestQueueClass.prototype.scheduleCheckPendingRequests

RequestQueueClass.prototype.scheduleCheckPendingRequests = function (this: RequestQueue): void {
  if (this.pending.length > 0) schedule.call(this)
}

const LATE_CHECK_MS = 1000

const connected = new Set<RequestQueue>()
let timer: NodeJS.Timeout | null = null

const checkAll = (): void => {
  for (const queue of connected) {
    for (const request of queue.inflight.values())
      if (Date.now() - request.sentAt > request.requestTimeout) request.timeoutRequest()
    if (!queue.isConnected()) queue.destroy()
  }
}

RequestQueueClass.prototype.scheduleRequestTimeoutCheck = function (this: RequestQueue): void {
  connected.add(this)
  timer ??= setInterval(checkAll, LATE_CHECK_MS)
}

const destroy = RequestQueueClass.prototype.destroy

RequestQueueClass.prototype.destroy = function (this: RequestQueue): void {
  destroy.call(this)
  connected.delete(this)
  if (connected.size > 0 || timer === null) return
  clearInterval(timer)
  timer = null
}
