/** Faults in the code of the projector: see `mutations.ts`. */

const PROJECTOR = 'apps/projector/src'

export const PROJECTOR_MUTATIONS = [
  // ---- checkpoints and ownership
  {
    name: 'the checkpoint passes a record that is not applied',
    file: `${PROJECTOR}/projection/record-buffer.ts`,
    find: 'return { owned, records, to: (records.at(-1)?.offset ?? owned.position) + 1 }',
    replace: 'return { owned, records, to: (records.at(-1)?.offset ?? owned.position) + 2 }',
  },
  {
    name: 'a projector that lost a partition changes it',
    file: `${PROJECTOR}/projection/transaction.ts`,
    find: "if (checkpoint === undefined || checkpoint.epoch !== owned.epoch) return 'superseded'",
    replace: "if (checkpoint === undefined) return 'superseded'",
  },
  {
    name: 'a new owner reads on at the end of the topics',
    file: `${PROJECTOR}/projection/ownership.ts`,
    find: 'const from = position < low || position > high ? low : position',
    replace: 'const from = position < low || position > high ? low : high',
  },
  // ---- records that cannot be applied
  {
    name: 'the checkpoint passes a record whose dead letter was not appended',
    file: `${PROJECTOR}/projection/apply.ts`,
    find: 'Effect.retry({ while: isWanted, schedule: backoffSchedule(QUICK) }),\n        Effect.as(true),',
    replace: 'Effect.ignore,\n        Effect.as(true),',
  },
  {
    name: 'a rejected batch is applied without the record after its middle',
    file: `${PROJECTOR}/projection/record-buffer.ts`,
    find: 'second.push({ owned: part.owned, records: rest, to: part.to })',
    replace: 'second.push({ owned: part.owned, records: rest.slice(count), to: part.to })',
  },
  // ---- outcomes of messages
  {
    name: 'a late report does not make an outcome due',
    file: `${PROJECTOR}/outcomes/final-now.ts`,
    find: '(!hasOutcome(old) || old?.status !== row.status)',
    replace: '!hasOutcome(old)',
  },
  {
    name: 'a message that is final when it is accepted has no outcome',
    file: `${PROJECTOR}/outcomes/final-now.ts`,
    find: '[...accepted.map(({ row }) => row), ...updated]',
    replace: '[...updated]',
  },
  {
    name: 'an outcome is removed although its append failed',
    file: `${PROJECTOR}/outcomes/publish-outcomes.ts`,
    find: "Effect.tapError(() => countFailure('bus')),",
    replace: 'Effect.ignore,',
  },
  // ---- fences
  {
    name: 'a fact of an earlier owner applies behind the fence',
    file: `${PROJECTOR}/projection/decode.ts`,
    find: 'else if ((epochOf(fact) ?? fence) >= fence) logFacts.push(fact)',
    replace: 'else if ((epochOf(fact) ?? fence) >= 0) logFacts.push(fact)',
  },
  {
    name: 'the fence is forgotten after its transaction',
    file: `${PROJECTOR}/projection/transaction.ts`,
    find: '    owned.fence = fence\n',
    replace: '    owned.fence = Math.min(owned.fence, fence)\n',
  },
  {
    name: 'the fence is not stored',
    file: `${PROJECTOR}/projection/transaction.ts`,
    find: '({ topic, partition, position: to, fence }))',
    replace: '({ topic, partition, position: to, fence: fence - fence }))',
  },
  // ---- the journal
  {
    name: 'the sequence of a journal has a gap',
    file: `${PROJECTOR}/events/journal.ts`,
    find: 'head.sequence += 1',
    replace: 'head.sequence += recorded.size > 0 ? 2 : 1',
  },
  {
    name: 'an event gets the sequence of the last one',
    file: `${PROJECTOR}/events/journal.ts`,
    find: 'sequence: head.sequence,\n',
    replace: 'sequence: Math.max(1, head.sequence - recorded.size),\n',
  },
  {
    name: 'a recorded event is recorded again',
    file: `${PROJECTOR}/events/journal.ts`,
    find: 'const seen = new Set(recorded)',
    replace: 'const seen = new Set([...recorded].slice(0, 0))',
  },
  {
    name: 'the journal head of a completed batch is not locked',
    file: `${PROJECTOR}/projection/transaction.ts`,
    find: 'journals: journalsOf([...events, ...candidates]),',
    replace: 'journals: journalsOf(events.length > 0 ? events : candidates),',
  },
  {
    name: 'a batch that its seal completes gets no event',
    file: `${PROJECTOR}/projection/transaction.ts`,
    find: 'if (events.length === 0 && candidates.length === 0) return null',
    replace: 'if (events.length === 0) return null',
  },
  {
    name: 'facts before the acceptance cause no event',
    file: `${PROJECTOR}/messages/fold.ts`,
    find: '          emit(draft.subject, statusEvent(draft.subject, change))',
    replace: '',
  },
  {
    name: 'facts before the acceptance cause events in any order',
    file: `${PROJECTOR}/messages/fold.ts`,
    find: 'draft.waiting.toSorted((a, b) => rankOf(a) - rankOf(b))',
    replace: 'draft.waiting.toSorted((a, b) => rankOf(a) - rankOf(a) + 0 * rankOf(b))',
  },
  {
    name: 'a crossed spend threshold causes no event',
    file: `${PROJECTOR}/projection/transaction.ts`,
    find: 'const entries = [...events, ...closed.map(batchCompletedEntry), ...crossed.map(spendThresholdEntry)]',
    replace: 'const entries = [...events, ...closed.map(batchCompletedEntry)]',
  },
  // ---- the outbox
  {
    name: 'events are deleted from the outbox before Kafka has acknowledged them',
    file: `${PROJECTOR}/events/publisher.ts`,
    find: 'const publications = [first.value, ...(yield* Queue.clear(queue))]',
    replace:
      'const publications = [first.value, ...(yield* Queue.clear(queue))]\n    yield* store.deleteOutboxRows(publications.map(({ outboxId }) => outboxId))',
  },
  {
    name: 'the relay deletes events whose append failed',
    file: `${PROJECTOR}/events/publisher.ts`,
    find: 'atEventsRelayed(append(records, RELAY_DEADLINE_MS))',
    replace: 'Effect.ignore(append(records, RELAY_DEADLINE_MS))',
  },
  {
    name: 'the events of a subscribed account are not published',
    file: `${PROJECTOR}/events/journal.ts`,
    find: 'heads.filter((head) => head.subscribed)',
    replace: 'heads.filter((head) => head.subscribed && head.sequence > events.length)',
  },
  // ---- rows and sums
  {
    name: 'a repeated acceptance replaces the first one',
    file: `${PROJECTOR}/messages/fold.ts`,
    find: 'if (draft.subject !== null) break',
    replace: 'if (draft.subject !== null && draft.seen) break',
  },
  {
    name: 'a late report is ignored',
    file: `${PROJECTOR}/messages/fold.ts`,
    find: 'if (next === null || !supersedes(next, draft)) break',
    replace: "if (next === null || !supersedes(next, draft) || draft.status === 'expired') break",
  },
  {
    name: 'a later fact replaces a final status',
    file: `${PROJECTOR}/messages/fold.ts`,
    find: 'if (next === null || !supersedes(next, draft)) break',
    replace: 'if (next === null || rankOf(next) < rankOf(draft)) break',
  },
  {
    name: 'a repeated claim counts as an attempt',
    file: `${PROJECTOR}/messages/fold.ts`,
    find: 'if (fact.attempt <= draft.claims) break',
    replace: 'if (fact.attempt < draft.claims) break',
  },
  {
    name: 'a message counts again when it changes',
    file: `${PROJECTOR}/messages/aggregate-deltas.ts`,
    find: 'this.#count(before, -1)',
    replace: 'if (before.acceptedByOperator) this.#count(before, -1)',
  },
  {
    name: 'a refused message stays charged if its acceptance is read later',
    file: `${PROJECTOR}/messages/fold.ts`,
    find: "if (!isBilled(change.status, change.reason)) charge(draft, 'reversal', change.at)",
    replace:
      "if (!isBilled(change.status, change.reason) && change.at < 0) charge(draft, 'reversal', change.at)",
  },
  {
    name: 'a refused message stays charged',
    file: `${PROJECTOR}/messages/fold.ts`,
    find: "if (!isBilled(next.status, next.reason)) charge(draft, 'reversal', fact.at)",
    replace: "if (!isBilled(next.status, next.reason)) charge(draft, 'charge', fact.at)",
  },
]
