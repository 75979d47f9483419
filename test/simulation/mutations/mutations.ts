/**
 * Faults in the code of the hub, made on purpose. Each replaces one text in one file. The simulation
 * must find every one of them: otherwise its model or its checks are incomplete.
 */

import { join } from 'node:path'
import { PROJECTOR_MUTATIONS } from './projector-mutations.ts'

export const ROOT = join(import.meta.dirname, '../../..')

/** Each mutation must be found by one of the seeds from 1 to this one. */
export const SEEDS = 2000

export interface Mutation {
  readonly name: string
  /** From the root of the repository. */
  readonly file: string
  /** It occurs exactly once in the file. */
  readonly find: string
  readonly replace: string
  /** Another text of the file: a second mechanism, which would hide the fault. */
  readonly also?: { readonly find: string; readonly replace: string }
}

/** The texts that a mutation replaces. */
export const editsOf = ({ also, find, replace }: Mutation) => [
  { find, replace },
  ...(also === undefined ? [] : [also]),
]

const ACTOR = 'packages/actor/src'
const DISPATCHER = 'apps/dispatcher/src'
const DOMAIN = 'packages/domain/src'
const ACCEPT = 'apps/command-api/src/accept'
const FANOUT = 'apps/webhook-fanout/src'

export const MUTATIONS: ReadonlyArray<Mutation> = [
  // ---- lease, fence and ownership
  {
    name: 'the lease never ends',
    file: 'packages/kafka/src/consumer/lease.ts',
    find: 'return now() < this.#validUntil',
    replace: 'return this.#validUntil > 0',
  },
  {
    name: 'the lease lasts longer than the session',
    file: 'packages/kafka/src/consumer/lease.ts',
    find: 'const LEASE_MARGIN_MS = 1500',
    replace: 'const LEASE_MARGIN_MS = -6000',
  },
  {
    name: 'a submit does not check the lease',
    file: `${DISPATCHER}/handover/handover-loop.ts`,
    find: 'const hasLease = () => [...shards].every((shard) => shard.handle.hasLease())',
    replace: 'const hasLease = () => shards.size > 0',
  },
  {
    name: 'claims of an earlier owner stay valid behind the fence',
    file: `${ACTOR}/fence.ts`,
    find: 'return epoch < this.epoch',
    replace: 'return epoch < 0 && epoch < this.epoch',
  },
  {
    name: 'a new owner uses the epoch of the last one again',
    file: `${ACTOR}/recovery.ts`,
    find: 'epoch: slot.fence.epoch + 1',
    replace: 'epoch: Math.max(1, slot.fence.epoch)',
  },
  {
    name: 'recovery does not wait for its own fence',
    file: `${ACTOR}/recovery.ts`,
    find: `if (slot.phase !== 'closing' || slot.logPosition <= slot.fenceOffset) return
    if (slot.fence.isOwnedBy(slot.owner)) return open(slot)`,
    replace: "if (slot.phase === 'closing') return open(slot)",
    also: {
      find: 'if (options.control()?.hasLease() !== true) return',
      replace: 'if (options.control() === null) return',
    },
  },
  {
    name: 'recovery begins at the end of the log',
    file: `${ACTOR}/recovery.ts`,
    find: 'slot.positions.set(topic, committed < low ? low : Math.min(committed, high))',
    replace:
      'slot.positions.set(topic, topic === topics.messages ? high : committed < low ? low : Math.min(committed, high))',
  },
  {
    name: 'recovery does not read to the end of the log',
    file: `${ACTOR}/recovery.ts`,
    find: 'slot.logEnd = ends.get(topics.messages) ?? 0',
    replace: 'slot.logEnd = 0',
  },
  {
    name: 'a shard stays open behind the fence of a member without a lease',
    file: `${ACTOR}/recovery.ts`,
    find: "slot.phase = 'superseded'",
    replace: "slot.phase = 'open'",
    also: {
      find: 'if (options.control()?.hasLease() !== true) return',
      replace: 'if (options.control() === null) return',
    },
  },
  {
    name: 'a shard keeps its state although another member owned it',
    file: `${ACTOR}/shard-host.ts`,
    find: 'assignment.retained.has(slot.number) &&',
    replace: '(assignment.shards.includes(slot.number) || assignment.retained.has(slot.number)) &&',
  },
  // ---- low-water marks
  {
    name: 'the marks of the lanes pass messages that are not handed over',
    file: `${ACTOR}/shard-slot.ts`,
    find: 'mark(topic, lanes[lane] ?? null)',
    replace: 'mark(topic, lanes.length < 0 ? lane : null)',
  },
  {
    name: 'the mark of the reports passes reports that are not recorded',
    file: `${ACTOR}/shard-slot.ts`,
    find: 'mark(this.#topics.operatorReports, reports)',
    replace: 'mark(this.#topics.operatorReports, reports === -1 ? reports : null)',
  },
  {
    name: 'the mark of the log passes open messages',
    file: `${ACTOR}/shard-slot.ts`,
    find: 'const logMark = mark(this.#topics.messages, log)',
    replace: 'const logMark = mark(this.#topics.messages, log === -1 ? log : null)',
  },
  {
    name: 'the position of a report is not pinned',
    file: `${DISPATCHER}/shard/shard.ts`,
    find: 'state.recovery.reports.pin(input.report.offset)',
    replace: 'if (input.report.offset < 0) state.recovery.reports.pin(input.report.offset)',
  },
  // ---- the log
  {
    name: 'a failed append is not repeated',
    file: `${ACTOR}/appender.ts`,
    find: 'for (let failures = 1; ; failures++) {',
    replace: 'for (let failures = 1; failures < 2; failures++) {',
  },
  {
    name: 'facts that nobody waits for are gathered until an urgent one comes',
    file: `${ACTOR}/appender.ts`,
    find: 'if (mayGather()) yield* gathered',
    replace: 'if (mayGather()) yield* urgent.await',
  },
  {
    name: 'a failed append counts as acknowledged',
    file: `${ACTOR}/appender.ts`,
    find: 'Effect.as(null),',
    replace: 'Effect.as(batch.map(([{ topic }]): Position => ({ topic, partition: 0, offset: 1_000_000 }))),',
  },
  {
    name: 'a message is submitted before its claim is acknowledged',
    file: `${DISPATCHER}/shard/claims.ts`,
    find: "return recordOrGoOn(state, message, decision.success, { type: 'submit', submission })",
    replace:
      "recordOrGoOn(state, message, decision.success, null)\n    return void state.effects.push({ type: 'submit', message, submission })",
  },
  // ---- unknown outcomes and repeats
  {
    name: 'an unknown outcome is submitted again',
    file: `${DOMAIN}/message/decide.ts`,
    find: "if (state.stage === 'handingOver' && !(command.dedupes === true && command.operator === state.operator)) {",
    replace: "if (state.stage === 'handingOver' && command.operator !== state.operator) {",
  },
  {
    name: 'a lost answer counts as a refusal',
    file: `${DISPATCHER}/shard/claims.ts`,
    find: 'if (!state.settings.dedupes(message.route)) return discard(state, message)',
    replace:
      "if (!state.settings.dedupes(message.route)) return onAnswer(state, message, { type: 'notWritten' }, submission)",
  },
  {
    name: 'a repeated record of a forgotten message is not looked up',
    file: `${DISPATCHER}/shard/lane-records.ts`,
    find: "if (stage === 'queued' && isOld) {",
    replace: "if (stage === 'final' && isOld) {",
  },
  {
    name: 'a look-up does not wait for the read model',
    file: `${DISPATCHER}/shard/lane-records.ts`,
    find: 'message.lookupAfter = { lane: message.laneOffset, log: state.logPosition }',
    replace: 'message.lookupAfter = { lane: -1, log: 0 }',
  },
  {
    name: 'finished messages are forgotten at once',
    file: `${DISPATCHER}/shard/recovery.ts`,
    find: 'if (state.now - message.finishedAt < COMPLETE_MS) break',
    replace: '',
    also: {
      find: 'if (state.now - message.finishedAt >= REMEMBERED_MS) forget(state, message)',
      replace: 'if (message.finishedAt > 0) forget(state, message)',
    },
  },
  {
    name: 'a repeated record of a known message is queued again',
    file: `${DISPATCHER}/shard/lane-records.ts`,
    find: 'if (known?.state.accepted ?? recovery.remembered.has(messageId)) {',
    replace: 'if (known?.state.accepted ?? false) {',
  },
  // ---- reports
  {
    name: 'the operator gets its acknowledgement before the report is stored',
    file: `${DISPATCHER}/reports/report-sink.ts`,
    find: 'if (records.length > 0) yield* atReportStored(log.append(records, { mayWait: true }))',
    replace: 'if (records.length > 0) yield* Effect.forkDetach(log.append(records, { mayWait: true }))',
  },
  {
    name: 'the report of one part counts for all parts',
    file: `${DISPATCHER}/shard/report-matching.ts`,
    find: 'if (message.awaitedParts.size > 0) return state.recovery.keepPartReport(message, report.offset)',
    replace:
      'if (message.awaitedParts.size > 9) return state.recovery.keepPartReport(message, report.offset)',
  },
  {
    name: 'one report is matched by recipient to a message of several parts',
    file: `${DISPATCHER}/shard/report-look-up.ts`,
    find: 'return others.length === parts - 1 ? others : null',
    replace: 'return others.length === parts - 1 ? others : []',
  },
  {
    name: 'a claim does not contain the number of parts',
    file: `${DOMAIN}/message/decide.ts`,
    find: '...severalParts(state),',
    replace: '',
  },
  {
    name: 'a report without a message in memory is dropped',
    file: `${DISPATCHER}/shard/report-matching.ts`,
    find: 'if (message === undefined || lacksIds(message)) park(state, report)',
    replace: "if (message === undefined || lacksIds(message)) dropReport(state, report, 'report_unmatched')",
  },
  {
    name: 'a late report does not correct an expired message',
    file: `${DISPATCHER}/shard/report-look-up.ts`,
    find: "known.reason === 'dlr_timeout_local' ||",
    replace: "known.reason === 'dlr_timeout' ||",
  },
  // ---- inbound messages
  {
    name: 'the position of an inbound message is not pinned',
    file: `${DISPATCHER}/shard/shard-runtime.ts`,
    find: 'if (inbound.lowest === null) return lowest',
    replace: 'if (inbound.lowest !== -1) return lowest',
  },
  {
    name: 'an inbound message is acknowledged and not stored',
    file: `${DISPATCHER}/reports/report-sink.ts`,
    find: 'if (messages.length === 0) return',
    replace: 'if (messages.length >= 0) return',
  },
  {
    name: 'inbound messages are done before PostgreSQL has applied them',
    file: `${DISPATCHER}/inbound/apply.ts`,
    find: 'yield* store\n        .storeInbound(contents',
    replace:
      'for (const { record } of waiting) shard.inbound.done(record.offset)\n      yield* store\n        .storeInbound(contents',
  },
  // ---- deadlines
  {
    name: 'report deadlines do not pass',
    file: `${DISPATCHER}/shard/shard.ts`,
    find: "decideAndRecord(state, message, { type: 'PassDeadline', at: now }, null)",
    replace:
      "if (known.stage === 'queued') decideAndRecord(state, message, { type: 'PassDeadline', at: now }, null)",
  },
  {
    name: 'a recovered message has no timer',
    file: `${DISPATCHER}/shard/recovery.ts`,
    find: 'else setTimer(state, message)\n    if (known.stage ===',
    replace: 'else if (known.accepted && known.final) setTimer(state, message)\n    if (known.stage ===',
  },
  {
    name: 'a claim without an answer is forgotten',
    file: `${DISPATCHER}/shard/claims.ts`,
    find: "if (stage === 'handingOver') return assumeSent(state, message, END)",
    replace: "if (stage === 'handingOver') return end(state, message, 0)",
  },
  // ---- acceptance
  {
    name: 'an acceptance batch that gathers sends does not begin',
    file: `${ACCEPT}/acceptor.ts`,
    find: 'isGathering = false\n      if (next() !== null) canStart.openUnsafe()',
    replace: 'isGathering = next() !== null',
  },
  {
    name: 'a code whose client has a refusal before its append is not refunded',
    file: `${ACCEPT}/batch/publish.ts`,
    find: 'if (expired.length > 0) somethingExpired.openUnsafe()',
    replace: 'expired = []',
  },
  {
    name: 'the commit forgets the outbox row',
    file: `${ACCEPT}/batch/record.ts`,
    find: 'outbox: all.length === 0 ? null : encodeOutboxRow(all)',
    replace: 'outbox: all.length >= 0 ? null : encodeOutboxRow(all)',
  },
  {
    name: 'an unknown commit counts as failed',
    file: `${ACCEPT}/batch/record.ts`,
    find: "error._tag === 'StorageUnavailable' && error.reason !== 'conflict' && !NEVER_SENT.has(error.detail)",
    replace:
      "error._tag === 'StorageUnavailable' && error.reason === 'conflict' && !NEVER_SENT.has(error.detail)",
  },
  {
    name: 'a reference that another process took is accepted again',
    file: `${ACCEPT}/batch/decide.ts`,
    find: 'known === undefined ? decideNew(send, knowledge) : decideRepeat(send, known, knowledge, isOwn)',
    replace: 'known !== null ? decideNew(send, knowledge) : decideRepeat(send, known, knowledge, isOwn)',
  },
  {
    name: 'a code is a duplicate although Kafka may not contain it',
    file: `${ACCEPT}/batch/decide.ts`,
    find: "if (view.class === 'service' || known.published || knowledge.acknowledged(view.id)) {",
    replace: "if (view.class === 'service' || view.class === 'otp') {",
  },
  {
    name: 'a code that is appended again gets another id',
    file: `${ACCEPT}/batch/decide-and-limit.ts`,
    find: "decision.type === 'republish' ? decision.messageId :",
    replace: "decision.type === 'republish' ? send.checked.messageId :",
  },
  {
    name: 'a code is accepted although its append failed',
    file: `${ACCEPT}/batch/publish.ts`,
    find: ': Effect.sync(() => leaveUnproven(otpSends)),',
    replace: ': Effect.sync(() => confirm(otpSends)),',
  },
  {
    name: 'an append that may have landed counts as not appended',
    file: `${ACCEPT}/batch/publish.ts`,
    find: 'error.notAppended === true\n              ? rollBackUnpublished(otpSends)',
    replace: 'error.notAppended !== undefined || true\n              ? rollBackUnpublished(otpSends)',
  },
  {
    name: 'outbox rows are deleted before Kafka has acknowledged them',
    file: `${ACCEPT}/batch/publish.ts`,
    find: 'rows.push(publication.outboxRow)',
    replace: 'rows.push(publication.outboxRow)\n        appendedRows.add([publication.outboxRow])',
  },
  {
    name: 'a row whose append failed is not left to the relay, and deleted',
    file: `${ACCEPT}/batch/publish.ts`,
    find: 'for (const row of rows) outboxMode.leaveToRelay(row)\n          return',
    replace: 'appendedRows.add(rows)\n          return',
  },
  {
    name: 'a code whose client was refused is published',
    file: `${ACCEPT}/batch/publish.ts`,
    find: 'if (code.send.outcome !== null) expired.push(code)',
    replace: 'if (code.send.outcome !== null) (records.push(code.record), otpSends.push(code))',
  },
  {
    name: 'an unknown commit is not withdrawn',
    file: `${ACCEPT}/recovery/unresolved-commits.ts`,
    find: 'const result = yield* ledger\n      .withdraw(commit.id)\n      .pipe(',
    replace:
      "const result = yield* (commit.id === '' ? ledger.withdraw(commit.id) : Effect.succeed('withdrawn' as const)).pipe(",
  },
  // ---- limits, opt-outs and batches
  {
    name: 'the spend limit is exceeded by one message',
    file: `${ACCEPT}/ledger/spend.ts`,
    find: 'if (charge.limit !== null && after > minorUnits(charge.limit)) {',
    replace: 'if (charge.limit !== null && before > minorUnits(charge.limit)) {',
  },
  {
    name: 'the flood windows do not refuse',
    file: `${ACCEPT}/batch/limits.ts`,
    find: 'if (verdict === null || verdict === undefined || verdict.reserved) return null',
    replace:
      'if (verdict === null || verdict === undefined || verdict.reserved || !verdict.reserved) return null',
  },
  {
    name: 'an accepted message releases its reservation',
    file: `${ACCEPT}/batch/acceptance-batch.ts`,
    find: 'reservations.confirm(left.accepted, at)',
    replace: 'reservations.release(left.accepted)',
  },
  {
    name: 'a service message passes without Redis',
    file: `${ACCEPT}/batch/limits.ts`,
    find: "if (one.class === 'otp') return null",
    replace: "if (one.class === 'otp' || one.class === 'service') return null",
  },
  {
    name: 'opt-outs are not looked up',
    file: `${ACCEPT}/batch/decide-and-limit.ts`,
    find: "if (checked.class === 'service' && owner.mode === 'live') recipients.add(checked.recipient)",
    replace: "if (checked.class === 'service' && owner.mode === 'test') recipients.add(checked.recipient)",
  },
  {
    name: 'an opt-out does not apply',
    file: `${ACCEPT}/batch/decide.ts`,
    find: "draft.class === 'service' &&\n  (send.owner",
    replace: "draft.class === 'otp' &&\n  (send.owner",
  },
  {
    name: 'a batch with codes is not sealed when Kafka has acknowledged them',
    file: `${ACCEPT}/batch/seal-batch.ts`,
    find: 'if (batch === undefined || request.isSealed || request.isUncertain) return',
    replace: 'if (batch === undefined || !request.isSealed || request.isUncertain) return',
  },
  {
    name: 'a code that was certainly not appended stays charged',
    file: `${ACCEPT}/batch/publish.ts`,
    find: '        ledger.refund(codes).pipe(',
    replace: '        ledger.refund(codes.slice(0, 0)).pipe(',
  },
  // ---- webhooks
  {
    name: 'the position passes events that are not in a batch',
    file: `${FANOUT}/batching/partition.ts`,
    find: 'const next = collector.lowestOffset(batches) ?? position',
    replace: 'const next = batches.length < 0 ? 0 : position',
  },
  {
    name: 'the position passes records that were not ingested',
    file: `${FANOUT}/batching/partition.ts`,
    find: 'position = record.offset + 1\n      ingestedAt = now()',
    replace: 'position = record.offset + 2\n      ingestedAt = now()',
  },
  {
    name: 'the events of a batch are not in the order of the journal',
    file: `${FANOUT}/batching/collector.ts`,
    find: 'return ordered ? events : events.toSorted((a, b) => a.sequence - b.sequence)',
    replace: 'return ordered ? events : [...events]',
  },
  {
    name: 'a new owner reads on at the end of the topic',
    file: `${FANOUT}/batching/assigned-partitions.ts`,
    find: 'const startAt = position > high ? low : Math.max(position, low)',
    replace: 'const startAt = position < 0 ? low : high',
  },
  {
    name: 'a batch is attempted after its retry window',
    file: `${FANOUT}/delivery/deliverer.ts`,
    find: 'if (retryWindowExpired(batch.queuedAt, now(), settings.retryWindowMs)) {',
    replace: 'if (retryWindowExpired(batch.queuedAt, now(), Number.POSITIVE_INFINITY)) {',
  },
  {
    name: 'a failed attempt is recorded as delivered',
    file: `${FANOUT}/delivery/deliverer.ts`,
    find: '      durationMs,\n      reason,\n      startedAt,',
    replace: '      durationMs,\n      reason: reason === null ? reason : null,\n      startedAt,',
  },
  {
    name: 'an outcome that was not recorded is dropped',
    file: `${FANOUT}/recording/outcome-recorder.ts`,
    find: 'pending.push([subscription, outcome])',
    replace: 'if (outcome.reason === null) pending.push([subscription, outcome])',
  },
  {
    name: 'a new subscription misses the events before its record',
    file: `${FANOUT}/batching/partition.ts`,
    find: "if (record.change === 'created' && subscription !== null) {",
    replace: "if (record.change === 'deleted' && subscription !== null) {",
  },
  {
    name: 'a loaded subscription has no due batches',
    file: `${FANOUT}/delivery/deliverer.ts`,
    find: 'if (nextDueAt === null) return\n        queues.wakeAt(',
    replace: 'if (nextDueAt !== null) return\n        queues.wakeAt(',
  },
  {
    name: 'a lost partition is not opened again',
    file: `${FANOUT}/batching/assigned-partitions.ts`,
    find: 'yield* Effect.sleep(REOPEN_PAUSE)',
    replace: 'yield* Effect.never',
  },
  {
    name: 'a retained partition is read from its committed offset, and its records are dropped',
    file: `${FANOUT}/batching/partition.ts`,
    find: 'if (record.offset < position) continue',
    replace: 'if (record.offset <= position && record.offset > 0) continue',
  },
  // ---- subscriptions that fail
  {
    name: 'a subscription is disabled after ten failures',
    file: `${DOMAIN}/subscription/health.ts`,
    find: 'DISABLE_AFTER_FAILURES = 20',
    replace: 'DISABLE_AFTER_FAILURES = 10',
  },
  {
    name: 'a subscription is disabled after ten minutes',
    file: `${DOMAIN}/subscription/health.ts`,
    find: 'DISABLE_AFTER_MS = 3_600_000',
    replace: 'DISABLE_AFTER_MS = 600_000',
  },
  {
    name: 'the batches of a disabled subscription end when an attempt is due',
    file: `${FANOUT}/delivery/ready-queues.ts`,
    find: 'const found = enabled',
    replace: 'const found = !subscription.closed',
  },
  {
    name: 'a batch is due at once when no attempt is left in its retry window',
    file: `${DOMAIN}/subscription/delivery.ts`,
    find: 'dueAt: next ?? batch.queuedAt + rules.retryWindowMs',
    replace: 'dueAt: next ?? endedAt',
  },
  {
    name: 'a batch that is delivered and not recorded yet is read as due',
    file: `${FANOUT}/subscriptions/subscription.ts`,
    find: 'for (const { uuid } of this.#inFlight) held.add(uuid)',
    replace: 'for (const { uuid } of this.#inFlight.slice(0, 0)) held.add(uuid)',
  },
  {
    name: 'outcomes are recorded in another order than their attempts ended',
    file: `${FANOUT}/recording/outcome-recorder.ts`,
    find: 'pending.push([subscription, outcome])',
    replace: 'pending.unshift([subscription, outcome])',
  },
  {
    name: 'a backlog does not begin with the batch that disabled the subscription',
    file: `${FANOUT}/subscriptions/subscription.ts`,
    find: 'this.#record = record\n    this.#failing = record.consecutiveFailures > 0\n    this.#probe = record.disabledByBatch\n  }\n\n  /** Returns',
    replace:
      'this.#record = record\n    this.#failing = record.consecutiveFailures > 0\n    this.#probe = null\n  }\n\n  /** Returns',
  },
  {
    name: 'a backlog is attempted from its end',
    file: `${FANOUT}/subscriptions/subscription.ts`,
    find: 'const batch = this.#ready.shift()',
    replace: 'const batch = this.#ready.pop()',
  },
  {
    name: 'a failure counts twice',
    file: `${DOMAIN}/subscription/health.ts`,
    find: 'const consecutiveFailures = health.consecutiveFailures + 1',
    replace: 'const consecutiveFailures = health.consecutiveFailures + 2',
  },
  // ---- record schemas
  {
    name: 'a record of a newer version is dead-lettered',
    file: 'packages/kafka/src/records/newer-schema.ts',
    find: 'return id > NEWEST_SCHEMA && id <= NEWEST_SCHEMA + MAX_NEW_SCHEMAS ? id : null',
    replace: 'return id > NEWEST_SCHEMA + MAX_NEW_SCHEMAS ? id : null',
  },
  {
    name: 'records behind one of a newer version are read before it',
    file: 'packages/kafka/src/records/newer-schema.ts',
    find: 'records.slice(0, first)',
    replace: 'records.filter(({ value }) => newerSchemaOf(value) === null)',
  },
  // ---- charges
  {
    name: 'a message that expired before its submit is charged',
    file: `${DOMAIN}/message/state.ts`,
    find: "status !== 'rejected' && reason !== 'ttl_expired_before_submit'",
    replace: "status !== 'rejected'",
  },
  {
    name: 'a rejected message is charged',
    file: `${DOMAIN}/message/state.ts`,
    find: "status !== 'rejected' && reason !== 'ttl_expired_before_submit'",
    replace: "reason !== 'ttl_expired_before_submit'",
  },
  // ---- projection
  ...PROJECTOR_MUTATIONS,
]
