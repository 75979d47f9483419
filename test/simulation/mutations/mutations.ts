/**
 * Faults in the code of the hub, made on purpose. Each replaces a part of one function. The simulation must find
 * every one of them: otherwise its model or its checks are incomplete.
 */

import { join } from 'node:path'
import type { Mutation } from './apply.ts'
import { PROJECTOR_MUTATIONS } from './projector-mutations.ts'

export const ROOT = join(import.meta.dirname, '../../..')

/** Each mutation must be found by one of the seeds from 1 to this one. */
export const SEEDS = 2000

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
    in: 'mayFinishWork',
    find: 'now() < this.#validUntil',
    replace: 'this.#validUntil > 0',
  },
  {
    name: 'the lease lasts longer than the session',
    file: 'packages/kafka/src/consumer/lease.ts',
    in: 'LEASE_MARGIN_MS',
    find: '1500',
    replace: '-6000',
  },
  {
    name: 'a submit does not check the lease',
    file: `${DISPATCHER}/handover/handover-loop.ts`,
    in: 'hasLease',
    find: '[...shards].every((shard) => shard.handle.hasLease())',
    replace: 'shards.size > 0',
  },
  {
    name: 'claims of an earlier owner stay valid behind the fence',
    file: `${ACTOR}/fence.ts`,
    in: 'Fence.isVoid',
    find: 'epoch < this.epoch',
    replace: 'epoch < 0',
  },
  {
    name: 'a new owner uses the epoch of the last one again',
    file: `${ACTOR}/recovery.ts`,
    in: 'advance',
    find: 'slot.fence.epoch + 1',
    replace: 'Math.max(1, slot.fence.epoch)',
  },
  {
    name: 'recovery does not wait for its own fence',
    file: `${ACTOR}/recovery.ts`,
    in: 'advance',
    find: "if (slot.phase !== 'closing' || slot.logPosition <= slot.fenceOffset) return",
    replace: "return slot.phase === 'closing' ? open(slot) : undefined",
    also: {
      in: 'advance',
      find: 'options.control()?.hasLease() !== true',
      replace: 'options.control() === null',
    },
  },
  {
    name: 'recovery begins at the end of the log',
    file: `${ACTOR}/recovery.ts`,
    in: 'locate',
    find: 'committed < low',
    replace: 'topic === topics.messages ? high : committed < low',
  },
  {
    name: 'recovery does not read to the end of the log',
    file: `${ACTOR}/recovery.ts`,
    in: 'locate',
    find: 'ends.get(topics.messages) ?? 0',
    replace: '0',
  },
  {
    name: 'a shard stays open behind the fence of a member without a lease',
    file: `${ACTOR}/recovery.ts`,
    in: 'onFence',
    find: "slot.phase = 'superseded'",
    replace: "slot.phase = 'open'",
    also: {
      in: 'advance',
      find: 'options.control()?.hasLease() !== true',
      replace: 'options.control() === null',
    },
  },
  {
    name: 'a shard keeps its state although another member owned it',
    file: `${ACTOR}/shard-host.ts`,
    in: 'onAssigned',
    find: 'assignment.retained.has(slot.number)',
    replace: '(assignment.shards.includes(slot.number) || assignment.retained.has(slot.number))',
  },
  // ---- low-water marks
  {
    name: 'the marks of the lanes pass messages that are not handed over',
    file: `${ACTOR}/shard-slot.ts`,
    in: 'lowWaterMarks',
    find: 'lanes[lane] ?? null',
    replace: 'lanes.length < 0 ? lane : null',
  },
  {
    name: 'the mark of the reports passes reports that are not recorded',
    file: `${ACTOR}/shard-slot.ts`,
    in: 'lowWaterMarks',
    find: 'mark(this.#topics.operatorReports, reports)',
    replace: 'mark(this.#topics.operatorReports, reports === -1 ? reports : null)',
  },
  {
    name: 'the mark of the log passes open messages',
    file: `${ACTOR}/shard-slot.ts`,
    in: 'lowWaterMarks',
    find: 'mark(this.#topics.messages, log)',
    replace: 'mark(this.#topics.messages, log === -1 ? log : null)',
  },
  {
    name: 'the position of a report is not pinned',
    file: `${DISPATCHER}/shard/shard.ts`,
    in: '#apply',
    find: 'state.recovery.reports.pin(input.report.offset)',
    replace: 'void input.report.offset',
  },
  // ---- the log
  {
    name: 'a failed append is not repeated',
    file: `${ACTOR}/appender.ts`,
    in: 'write',
    find: 'batch.length === 0',
    replace: 'batch.length === 0 || failures > 1',
  },
  {
    name: 'facts that nobody waits for are gathered until an urgent one comes',
    file: `${ACTOR}/appender.ts`,
    in: 'run',
    find: 'if (mayGather()) yield* gathered',
    replace: 'if (mayGather()) yield* urgent.await',
  },
  {
    name: 'a failed append counts as acknowledged',
    file: `${ACTOR}/appender.ts`,
    in: 'write',
    find: 'Effect.as(null)',
    replace: 'Effect.as(batch.map(([{ topic }]): Position => ({ topic, partition: 0, offset: 1_000_000 })))',
  },
  {
    name: 'a message is submitted before its claim is acknowledged',
    file: `${DISPATCHER}/shard/claims.ts`,
    in: 'claim',
    find: "return recordOrGoOn(state, message, decision.success, { type: 'submit', submission })",
    replace:
      "recordOrGoOn(state, message, decision.success, null)\n    return void state.effects.push({ type: 'submit', message, submission })",
  },
  // ---- unknown outcomes and repeats
  {
    name: 'an unknown outcome is submitted again',
    file: `${DOMAIN}/message/decide.ts`,
    in: 'claim',
    find: '!(command.dedupes === true && command.operator === state.operator)',
    replace: 'command.operator !== state.operator',
  },
  {
    name: 'a lost answer counts as a refusal',
    file: `${DISPATCHER}/shard/claims.ts`,
    in: 'onAnswer',
    find: 'return discard(state, message)',
    replace: "return onAnswer(state, message, { type: 'notWritten' }, submission)",
  },
  {
    name: 'a repeated record of a forgotten message is not looked up',
    file: `${DISPATCHER}/shard/lane-records.ts`,
    in: 'enqueue',
    find: "stage === 'queued'",
    replace: "stage === 'final'",
  },
  {
    name: 'a look-up does not wait for the read model',
    file: `${DISPATCHER}/shard/lane-records.ts`,
    in: 'enqueue',
    find: 'message.lookupAfter = { lane: message.laneOffset, log: state.logPosition }',
    replace: 'message.lookupAfter = { lane: -1, log: 0 }',
  },
  {
    name: 'finished messages are forgotten at once',
    file: `${DISPATCHER}/shard/recovery.ts`,
    in: 'onCommitted',
    find: 'if (state.now - message.finishedAt < COMPLETE_MS) break',
    replace: '',
    also: {
      in: 'onCommitted',
      find: 'state.now - message.finishedAt >= REMEMBERED_MS',
      replace: 'message.finishedAt > 0',
    },
  },
  {
    name: 'a repeated record of a known message is queued again',
    file: `${DISPATCHER}/shard/lane-records.ts`,
    in: 'judge',
    find: 'known?.state.accepted ?? recovery.remembered.has(messageId)',
    replace: 'known?.state.accepted ?? false',
  },
  // ---- reports
  {
    name: 'the operator gets its acknowledgement before the report is stored',
    file: `${DISPATCHER}/reports/report-sink.ts`,
    in: 'store',
    find: 'atReportStored(log.append(records))',
    replace: 'Effect.forkDetach(log.append(records))',
  },
  {
    name: 'the report of one part counts for all parts',
    file: `${DISPATCHER}/shard/report-matching.ts`,
    in: 'applyReport',
    find: 'message.awaitedParts.size > 0',
    replace: 'message.awaitedParts.size > 9',
  },
  {
    name: 'one report is matched by recipient to a message of several parts',
    file: `${DISPATCHER}/shard/report-look-up.ts`,
    in: 'reportsOfOtherParts',
    find: 'others.length === parts - 1 ? others : null',
    replace: 'others.length === parts - 1 ? others : []',
  },
  {
    name: 'a claim does not contain the number of parts',
    file: `${DOMAIN}/message/decide.ts`,
    in: 'claim',
    find: 'severalParts(state)',
    replace: '{}',
  },
  {
    name: 'a report without a message in memory is dropped',
    file: `${DISPATCHER}/shard/report-matching.ts`,
    in: 'matchReport',
    find: 'park(state, report)',
    replace: "dropReport(state, report, 'report_unmatched')",
  },
  {
    name: 'a late report does not correct an expired message',
    file: `${DISPATCHER}/shard/report-look-up.ts`,
    in: 'isCorrectable',
    find: "known.reason === 'dlr_timeout_local'",
    replace: "known.reason === 'dlr_timeout'",
  },
  // ---- inbound messages
  {
    name: 'the position of an inbound message is not pinned',
    file: `${DISPATCHER}/shard/shard-runtime.ts`,
    in: 'lowestPinned',
    find: 'inbound.lowest === null',
    replace: 'inbound.lowest !== -1',
  },
  {
    name: 'an inbound message is acknowledged and not stored',
    file: `${DISPATCHER}/reports/report-sink.ts`,
    in: 'storeInbound',
    find: 'messages.length === 0',
    replace: 'messages.length >= 0',
  },
  {
    name: 'inbound messages are done before PostgreSQL has applied them',
    file: `${DISPATCHER}/inbound/apply.ts`,
    in: 'applyShard',
    find: 'yield* store.storeInbound(contents.flatMap(({ stored }) => (stored === null ? [] : [stored]))).pipe(atInboundRecorded)',
    replace:
      'for (const { record } of waiting) shard.inbound.done(record.offset)\n      yield* store.storeInbound(contents.flatMap(({ stored }) => (stored === null ? [] : [stored]))).pipe(atInboundRecorded)',
  },
  // ---- deadlines
  {
    name: 'report deadlines do not pass',
    file: `${DISPATCHER}/shard/shard.ts`,
    in: 'onTick',
    find: "decideAndRecord(state, message, { type: 'PassDeadline', at: now }, null)",
    replace:
      "if (known.stage === 'queued') decideAndRecord(state, message, { type: 'PassDeadline', at: now }, null)",
  },
  {
    name: 'a recovered message has no timer',
    file: `${DISPATCHER}/shard/recovery.ts`,
    in: 'onOpened',
    find: 'setTimer(state, message)',
    replace: 'if (known.accepted && known.final) setTimer(state, message)',
  },
  {
    name: 'a claim without an answer is forgotten',
    file: `${DISPATCHER}/shard/claims.ts`,
    in: 'discard',
    find: 'assumeSent(state, message, END)',
    replace: 'end(state, message, 0)',
  },
  // ---- acceptance
  {
    name: 'an acceptance batch that gathers sends does not begin',
    file: `${ACCEPT}/acceptor.ts`,
    in: 'gather',
    find: 'isGathering = false; if (next() !== null) canStart.openUnsafe()',
    replace: 'isGathering = next() !== null',
  },
  {
    name: 'a code whose client has a refusal before its append is not refunded',
    file: `${ACCEPT}/batch/publish.ts`,
    in: 'publish',
    find: 'if (expired.length > 0) somethingExpired.openUnsafe()',
    replace: 'expired = []',
  },
  {
    name: 'the commit forgets the outbox row',
    file: `${ACCEPT}/batch/record.ts`,
    in: 'extraWrites',
    find: 'all.length === 0',
    replace: 'all.length >= 0',
  },
  {
    name: 'an unknown commit counts as failed',
    file: `${ACCEPT}/batch/record.ts`,
    in: 'isUnknown',
    find: "error.reason !== 'conflict'",
    replace: "error.reason === 'conflict'",
  },
  {
    name: 'a reference that another process took is accepted again',
    file: `${ACCEPT}/batch/decide.ts`,
    in: 'decideSends',
    find: 'known === undefined',
    replace: 'known !== null',
  },
  {
    name: 'a code is a duplicate although Kafka may not contain it',
    file: `${ACCEPT}/batch/decide.ts`,
    in: 'decideRepeat',
    find: "view.class === 'service' || known.published || knowledge.acknowledged(view.id)",
    replace: "view.class === 'service' || view.class === 'otp'",
  },
  {
    name: 'a code that is appended again gets another id',
    file: `${ACCEPT}/batch/decide-and-limit.ts`,
    in: 'messageIdOf',
    find: 'decision.messageId',
    replace: 'send.checked.messageId',
  },
  {
    name: 'a code is accepted although its append failed',
    file: `${ACCEPT}/batch/publish.ts`,
    in: 'onFailure',
    find: 'leaveUnproven(otpSends)',
    replace: 'confirm(otpSends)',
  },
  {
    name: 'an append that may have landed counts as not appended',
    file: `${ACCEPT}/batch/publish.ts`,
    in: 'onFailure',
    find: 'error.notAppended === true ? rollBackUnpublished(otpSends) : Effect.sync(() => leaveUnproven(otpSends))',
    replace: 'rollBackUnpublished(otpSends)',
  },
  {
    name: 'outbox rows are deleted before Kafka has acknowledged them',
    file: `${ACCEPT}/batch/publish.ts`,
    in: 'publish',
    find: 'rows.push(publication.outboxRow)',
    replace: 'rows.push(publication.outboxRow)\n        outbox.addAppended([publication.outboxRow])',
  },
  {
    name: 'a row whose append failed is not left to the relay, and deleted',
    file: 'packages/outbox/src/outbox.ts',
    in: 'appending',
    find: 'leave(row)',
    replace: 'addAppended([row])',
  },
  {
    name: 'a code whose client was refused is published',
    file: `${ACCEPT}/batch/publish.ts`,
    in: 'publish',
    find: 'expired.push(code)',
    replace: '(records.push(code.record), otpSends.push(code))',
  },
  {
    name: 'an unknown commit is not withdrawn',
    file: `${ACCEPT}/recovery/unresolved-commits.ts`,
    in: 'resolve',
    find: 'ledger.withdraw(commit.id)',
    replace: "(commit.id === '' ? ledger.withdraw(commit.id) : Effect.succeed('withdrawn' as const))",
  },
  // ---- limits, opt-outs and batches
  {
    name: 'the spend limit is exceeded by one message',
    file: `${ACCEPT}/ledger/spend.ts`,
    in: 'overspending',
    find: 'after > minorUnits(charge.limit)',
    replace: 'before > minorUnits(charge.limit)',
  },
  {
    name: 'the flood windows do not refuse',
    file: `${ACCEPT}/batch/limits.ts`,
    in: 'errors',
    find: 'verdict === null || verdict === undefined || verdict.reserved',
    replace: 'true',
  },
  {
    name: 'an accepted message releases its reservation',
    file: `${ACCEPT}/batch/acceptance-batch.ts`,
    in: 'runSteps',
    find: 'reservations.confirm(left.accepted, at)',
    replace: 'reservations.release(left.accepted)',
  },
  {
    name: 'a service message passes without Redis',
    file: `${ACCEPT}/batch/limits.ts`,
    in: 'errors',
    find: "one.class === 'otp'",
    replace: "one.class === 'otp' || one.class === 'service'",
  },
  {
    name: 'opt-outs are not looked up',
    file: `${ACCEPT}/batch/decide-and-limit.ts`,
    in: 'ledgerQueryOf',
    find: "owner.mode === 'live'",
    replace: "owner.mode === 'test'",
  },
  {
    name: 'an opt-out does not apply',
    file: `${ACCEPT}/batch/decide.ts`,
    in: 'isOptedOut',
    find: "draft.class === 'service'",
    replace: "draft.class === 'otp'",
  },
  {
    name: 'a batch with codes is not sealed when Kafka has acknowledged them',
    file: `${ACCEPT}/batch/seal-batch.ts`,
    in: 'sealPendingBatch',
    find: 'batch === undefined || request.isSealed || request.isUncertain',
    replace: 'batch === undefined || !request.isSealed || request.isUncertain',
  },
  {
    name: 'a code that was certainly not appended stays charged',
    file: `${ACCEPT}/batch/publish.ts`,
    in: 'rollBackUnpublished',
    find: 'ledger.refund(codes)',
    replace: 'ledger.refund(codes.slice(0, 0))',
  },
  // ---- webhooks
  {
    name: 'the position passes events that are not in a batch',
    file: `${FANOUT}/batching/partition.ts`,
    in: 'storeDue',
    find: 'collector.lowestOffset(batches) ?? position',
    replace: 'batches.length < 0 ? 0 : position',
  },
  {
    name: 'the position passes records that were not ingested',
    file: `${FANOUT}/batching/partition.ts`,
    in: 'ingest',
    find: 'position = record.offset + 1',
    replace: 'position = record.offset + 2',
  },
  {
    name: 'the events of a batch are not in the order of the journal',
    file: `${FANOUT}/batching/collector.ts`,
    in: 'inJournalOrder',
    find: 'events.toSorted((a, b) => a.sequence - b.sequence)',
    replace: '[...events]',
  },
  {
    name: 'a new owner reads on at the end of the topic',
    file: `${FANOUT}/batching/assigned-partitions.ts`,
    in: 'open',
    find: 'position > high ? low : Math.max(position, low)',
    replace: 'position < 0 ? low : high',
  },
  {
    name: 'a batch is attempted after its retry window',
    file: `${FANOUT}/delivery/deliverer.ts`,
    in: 'begin',
    find: 'retryWindowExpired(batch.queuedAt, now(), settings.retryWindowMs)',
    replace: 'false',
  },
  {
    name: 'a failed attempt is recorded as delivered',
    file: `${FANOUT}/delivery/deliverer.ts`,
    in: 'outcomeOf',
    find: "{ subscriptionId: subscription.record.uuid, batch, kind: 'attempt', responseCode, durationMs, reason, startedAt, endedAt: now() }",
    replace:
      "{ subscriptionId: subscription.record.uuid, batch, kind: 'attempt', responseCode, durationMs, reason: null, startedAt, endedAt: now() }",
  },
  {
    name: 'an outcome that was not recorded is dropped',
    file: `${FANOUT}/recording/outcome-recorder.ts`,
    in: 'report',
    find: 'pending.push([subscription, outcome])',
    replace: 'if (outcome.reason === null) pending.push([subscription, outcome])',
  },
  {
    name: 'a new subscription misses the events before its record',
    file: `${FANOUT}/batching/partition.ts`,
    in: 'onSubscriptionChanged',
    find: "record.change === 'created'",
    replace: "record.change === 'deleted'",
  },
  {
    name: 'a loaded subscription has no due batches',
    file: `${FANOUT}/delivery/deliverer.ts`,
    in: 'open',
    find: 'nextDueAt === null',
    replace: 'nextDueAt !== null',
  },
  {
    name: 'a lost partition is not opened again',
    file: `${FANOUT}/batching/assigned-partitions.ts`,
    in: 'life',
    find: 'Effect.sleep(REOPEN_PAUSE)',
    replace: 'Effect.never',
  },
  {
    name: 'a retained partition is read from its committed offset, and its records are dropped',
    file: `${FANOUT}/batching/partition.ts`,
    in: 'ingest',
    find: 'record.offset < position',
    replace: 'record.offset <= position && record.offset > 0',
  },
  // ---- subscriptions that fail
  {
    name: 'a subscription is disabled after ten failures',
    file: `${DOMAIN}/subscription/health.ts`,
    in: 'DISABLE_AFTER_FAILURES',
    find: '20',
    replace: '10',
  },
  {
    name: 'a subscription is disabled after ten minutes',
    file: `${DOMAIN}/subscription/health.ts`,
    in: 'DISABLE_AFTER_MS',
    find: '3_600_000',
    replace: '600_000',
  },
  {
    name: 'the batches of a disabled subscription end when an attempt is due',
    file: `${FANOUT}/delivery/ready-queues.ts`,
    in: 'readDue',
    find: 'store.expired({ subscriptionId, without: held, limit })',
    replace:
      'store.due({ subscriptionId, releasedAt: record.backlogReleasedAt, probe: subscription.probe, cursor, without: held, limit, withBodies: false })',
  },
  {
    name: 'a batch is due at once when no attempt is left in its retry window',
    file: `${DOMAIN}/subscription/delivery.ts`,
    in: 'applyOutcomeToBatch',
    find: 'batch.queuedAt + rules.retryWindowMs',
    replace: 'endedAt',
  },
  {
    name: 'a batch that is delivered and not recorded yet is read as due',
    file: `${FANOUT}/subscriptions/subscription.ts`,
    in: '#heldBatches',
    find: 'this.#inFlight',
    replace: 'this.#inFlight.slice(0, 0)',
  },
  {
    name: 'outcomes are recorded in another order than their attempts ended',
    file: `${FANOUT}/recording/outcome-recorder.ts`,
    in: 'report',
    find: 'pending.push([subscription, outcome])',
    replace: 'pending.unshift([subscription, outcome])',
  },
  {
    name: 'a backlog does not begin with the batch that disabled the subscription',
    file: `${FANOUT}/subscriptions/subscription.ts`,
    in: 'replaceRecord',
    find: 'record.disabledByBatch',
    replace: 'null',
  },
  {
    name: 'a backlog is attempted from its end',
    file: `${FANOUT}/subscriptions/subscription.ts`,
    in: 'beginNext',
    find: 'this.#ready.shift()',
    replace: 'this.#ready.pop()',
  },
  {
    name: 'a failure counts twice',
    file: `${DOMAIN}/subscription/health.ts`,
    in: 'applyAttempt',
    find: 'health.consecutiveFailures + 1',
    replace: 'health.consecutiveFailures + 2',
  },
  // ---- record schemas
  {
    name: 'a record of a newer version is dead-lettered',
    file: 'packages/kafka/src/records/newer-schema.ts',
    in: 'newerSchemaOf',
    find: 'id > NEWEST_SCHEMA && id <= NEWEST_SCHEMA + MAX_NEW_SCHEMAS',
    replace: 'id > NEWEST_SCHEMA + MAX_NEW_SCHEMAS',
  },
  {
    name: 'records behind one of a newer version are read before it',
    file: 'packages/kafka/src/records/newer-schema.ts',
    in: 'beforeNewer',
    find: 'records.slice(0, first)',
    replace: 'records.filter(({ value }) => newerSchemaOf(value) === null)',
  },
  // ---- charges
  {
    name: 'a message that expired before its submit is charged',
    file: `${DOMAIN}/message/state.ts`,
    in: 'isBilled',
    find: "status !== 'rejected' && reason !== 'ttl_expired_before_submit'",
    replace: "status !== 'rejected'",
  },
  {
    name: 'a rejected message is charged',
    file: `${DOMAIN}/message/state.ts`,
    in: 'isBilled',
    find: "status !== 'rejected' && reason !== 'ttl_expired_before_submit'",
    replace: "reason !== 'ttl_expired_before_submit'",
  },
  // ---- projection
  ...PROJECTOR_MUTATIONS,
]
