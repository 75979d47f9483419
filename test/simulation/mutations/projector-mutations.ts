/** Faults in the code of the projector: see `mutations.ts`. */

const PROJECTOR = 'apps/projector/src'

export const PROJECTOR_MUTATIONS = [
  // ---- checkpoints and ownership
  {
    name: 'the checkpoint passes a record that is not applied',
    file: `${PROJECTOR}/projection/record-buffer.ts`,
    in: 'takeBatch',
    find: '(records.at(-1)?.offset ?? owned.position) + 1',
    replace: '(records.at(-1)?.offset ?? owned.position) + 2',
  },
  {
    name: 'a projector that lost a partition changes it',
    file: `${PROJECTOR}/projection/transaction.ts`,
    in: 'compareCheckpoints',
    find: 'checkpoint === undefined || checkpoint.epoch !== owned.epoch',
    replace: 'checkpoint === undefined',
  },
  {
    name: 'a new owner reads on at the end of the topics',
    file: `${PROJECTOR}/projection/ownership.ts`,
    in: 'acquirePartitions',
    find: 'position < low || position > high ? low : position',
    replace: 'position < low || position > high ? low : high',
  },
  // ---- records that cannot be applied
  {
    name: 'the checkpoint passes a record whose dead letter was not appended',
    file: `${PROJECTOR}/projection/apply.ts`,
    in: 'deadLetter',
    find: 'Effect.retry({ while: isWanted, schedule: backoffSchedule(QUICK) })',
    replace: 'Effect.ignore',
  },
  {
    name: 'a rejected batch is applied without the record after its middle',
    file: `${PROJECTOR}/projection/record-buffer.ts`,
    in: 'bisect',
    find: 'second.push({ owned: part.owned, records: rest, to: part.to })',
    replace: 'second.push({ owned: part.owned, records: rest.slice(count), to: part.to })',
  },
  // ---- outcomes of messages
  {
    name: 'a late report does not make an outcome due',
    file: `${PROJECTOR}/outcomes/final-now.ts`,
    in: 'finalNow',
    find: 'hasOutcome(row) && (!hasOutcome(old) || old?.status !== row.status)',
    replace: 'hasOutcome(row) && !hasOutcome(old)',
  },
  {
    name: 'a message that is final when it is accepted has no outcome',
    file: `${PROJECTOR}/outcomes/final-now.ts`,
    in: 'finalNow',
    find: '[...accepted.map(({ row }) => row), ...updated]',
    replace: '[...updated]',
  },
  {
    name: 'an outcome is removed although its append failed',
    file: `${PROJECTOR}/outcomes/publish-outcomes.ts`,
    in: 'publishNextOutcomes',
    find: "Effect.tapError(() => countFailure('bus'))",
    replace: 'Effect.ignore',
  },
  // ---- fences
  {
    name: 'a fact of an earlier owner applies behind the fence',
    file: `${PROJECTOR}/projection/decode.ts`,
    in: 'decodeBatch',
    find: '(epochOf(fact) ?? fence) >= fence',
    replace: '(epochOf(fact) ?? fence) >= 0',
  },
  {
    name: 'the fence is forgotten after its transaction',
    file: `${PROJECTOR}/projection/transaction.ts`,
    in: 'movePositions',
    find: 'owned.fence = fence',
    replace: 'owned.fence = Math.min(owned.fence, fence)',
  },
  {
    name: 'the fence is not stored',
    file: `${PROJECTOR}/projection/transaction.ts`,
    in: 'checkpointsAfter',
    find: '{ topic, partition, position: to, fence }',
    replace: '{ topic, partition, position: to, fence: 0 }',
  },
  // ---- the journal
  {
    name: 'the sequence of a journal has a gap',
    file: `${PROJECTOR}/events/journal.ts`,
    in: 'assignSequences',
    find: 'head.sequence += 1',
    replace: 'head.sequence += recorded.size > 0 ? 2 : 1',
  },
  {
    name: 'an event gets the sequence of the last one',
    file: `${PROJECTOR}/events/journal.ts`,
    in: 'assignSequences',
    find: '{ account, mode, id: event.id, type: event.type, sequence: head.sequence, createdAt: head.recordedAt, body: JSON.stringify(envelopeOf(event, { recordedAt: head.recordedAt, mode })) }',
    replace:
      '{ account, mode, id: event.id, type: event.type, sequence: Math.max(1, head.sequence - recorded.size), createdAt: head.recordedAt, body: JSON.stringify(envelopeOf(event, { recordedAt: head.recordedAt, mode })) }',
  },
  {
    name: 'a recorded event is recorded again',
    file: `${PROJECTOR}/events/journal.ts`,
    in: 'assignSequences',
    find: 'new Set(recorded)',
    replace: 'new Set([...recorded].slice(0, 0))',
  },
  {
    name: 'the journal head of a completed batch is not locked',
    file: `${PROJECTOR}/projection/transaction.ts`,
    in: 'journals',
    find: '[...events, ...candidates]',
    replace: 'events.length > 0 ? events : candidates',
  },
  {
    name: 'a batch that its seal completes gets no event',
    file: `${PROJECTOR}/projection/transaction.ts`,
    in: 'recordingOf',
    find: 'events.length === 0 && candidates.length === 0',
    replace: 'events.length === 0',
  },
  {
    name: 'facts before the acceptance cause no event',
    file: `${PROJECTOR}/messages/fold.ts`,
    in: 'fold',
    find: 'emit(draft.subject, statusEvent(draft.subject, change))',
    replace: 'void change',
  },
  {
    name: 'facts before the acceptance cause events in another order',
    file: `${PROJECTOR}/messages/fold.ts`,
    in: 'fold',
    find: 'changesOf(draft)',
    replace: 'changesOf(draft).toReversed()',
  },
  {
    name: 'a crossed spend threshold causes no event',
    file: `${PROJECTOR}/projection/transaction.ts`,
    in: 'write',
    find: '[...events, ...closed.map(batchCompletedEntry), ...crossed.map(spendThresholdEntry)]',
    replace: '[...events, ...closed.map(batchCompletedEntry)]',
  },
  // ---- the outbox
  {
    name: 'events are deleted from the outbox before Kafka has acknowledged them',
    file: `${PROJECTOR}/events/publisher.ts`,
    in: 'publishQueued',
    find: 'working = true',
    replace: 'working = true; outbox.addAppended(publications.map(({ outboxRow }) => outboxRow))',
  },
  {
    name: 'the relay deletes events whose append failed',
    file: `${PROJECTOR}/events/event-outbox.ts`,
    in: 'append',
    find: 'atEventsRelayed',
    replace: 'atEventsRelayed, Effect.ignore',
  },
  {
    name: 'the events of a subscribed account are not published',
    file: `${PROJECTOR}/events/journal.ts`,
    in: 'withRecords',
    find: 'head.subscribed',
    replace: 'head.subscribed && head.sequence > events.length',
  },
  // ---- rows and sums
  {
    name: 'a repeated acceptance replaces the first one',
    file: `${PROJECTOR}/messages/fold.ts`,
    in: 'fold',
    find: 'if (draft.subject !== null) break',
    replace: 'if (draft.subject !== null && draft.seen) break',
  },
  {
    name: 'a late report is ignored',
    file: `${PROJECTOR}/messages/fold.ts`,
    in: 'fold',
    find: 'supersedes(next, draft)',
    replace: "supersedes(next, draft) || draft.status === 'expired'",
  },
  {
    name: 'a later fact replaces a final status',
    file: `${PROJECTOR}/messages/fold.ts`,
    in: 'fold',
    find: '!supersedes(next, draft)',
    replace: 'rank(next.status, next.reason) < rank(draft.status, draft.reason)',
  },
  {
    name: 'a late report replaces the time of the expiry',
    file: `${PROJECTOR}/messages/fold.ts`,
    in: 'fold',
    find: 'draft[time] = fact.at',
    replace: "draft[time === 'finalAt' && draft.timedOutAt !== null ? 'timedOutAt' : time] = fact.at",
  },
  {
    name: 'a repeated claim counts as an attempt',
    file: `${PROJECTOR}/messages/fold.ts`,
    in: 'fold',
    find: 'fact.attempt <= draft.claims',
    replace: 'fact.attempt < draft.claims',
  },
  {
    name: 'a message counts again when it changes',
    file: `${PROJECTOR}/messages/aggregate-deltas.ts`,
    in: 'add',
    find: 'this.#count(before, -1)',
    replace: 'if (before.acceptedByOperator) this.#count(before, -1)',
  },
  {
    name: 'a refused message stays charged if its acceptance is read later',
    file: `${PROJECTOR}/messages/fold.ts`,
    in: 'fold',
    find: '!isBilled(change.status, change.reason)',
    replace: 'false',
  },
  {
    name: 'a refused message stays charged',
    file: `${PROJECTOR}/messages/fold.ts`,
    in: 'fold',
    find: "charge(draft, 'reversal', fact.at)",
    replace: "charge(draft, 'charge', fact.at)",
  },
]
