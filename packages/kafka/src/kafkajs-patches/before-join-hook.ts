/**
 * Global patch on import: a hook that runs before every join and rejoin, and one join for
 * concurrent callers.
 *
 * - kafkajs 2.2.4: `joinAndSync` sends JoinGroup at once. The consumer learns of a rebalance only
 *   after it, by the event GROUP_JOIN. The fetchers of several brokers may join concurrently.
 * - Why the hub needs more: a member must finish its work in progress before another member gets
 *   its partitions.
 * - Fails without the patch: `kafkajs-patches.unit.test.ts`, "runs the hook before the join, and
 *   joins once for concurrent callers".
 * - Unnecessary when: kafkajs awaits a listener before JoinGroup, such as Java's
 *   `onPartitionsRevoked`.
 */
import type { Assigner } from 'kafkajs'
import { type InnerGroup, InnerGroupClass } from './internals.ts'

/** Runs before every JoinGroup. kafkajs joins when the promise resolves. */
type BeforeJoin = (group: InnerGroup) => Promise<void>

const hooks = new WeakMap<Assigner, BeforeJoin>()

/** Sets the hook of the group that uses this assignor. kafkajs gives no other access to it. */
export const setBeforeJoin = (assignor: Assigner, hook: BeforeJoin): void => {
  hooks.set(assignor, hook)
}

const joinAndSync = InnerGroupClass.prototype.joinAndSync
const joinsInProgress = new WeakMap<InnerGroup, Promise<void>>()

InnerGroupClass.prototype.joinAndSync = function (this: InnerGroup): Promise<void> {
  const hook = this.assigners.map((assignor) => hooks.get(assignor)).find((found) => found !== undefined)
  if (hook === undefined) return joinAndSync.call(this)
  const inProgress = joinsInProgress.get(this)
  if (inProgress !== undefined) return inProgress
  const join = async () => {
    await hook(this)
    await joinAndSync.call(this)
  }
  const joining = join().finally(() => joinsInProgress.delete(this))
  joinsInProgress.set(this, joining)
  return joining
}
