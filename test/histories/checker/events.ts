/** Judges the event journal and the webhooks. */
import type { Finding } from './finding.ts'
import type { EventEntry } from './history.ts'
import type { History } from './read-history.ts'

const judgeOrder = (account: string, journal: ReadonlyArray<EventEntry>): ReadonlyArray<Finding> => {
  const findings: Array<Finding> = []
  const seen = new Set<string>()
  let previous: EventEntry | null = null
  for (const event of journal) {
    const [id, type, , , createdAt] = event
    if (seen.has(id))
      findings.push({
        guarantee: 'event-order',
        detail: `${id} (${type}) is twice in the journal of ${account}`,
      })
    seen.add(id)
    if (previous !== null && createdAt < previous[4]) {
      findings.push({
        guarantee: 'event-order',
        detail: `${id} of ${createdAt} follows ${previous[0]} of ${previous[4]} in the journal of ${account}`,
      })
    }
    previous = event
  }
  return findings
}

/** A reader that follows the cursor must see the same events in the same order. */
const judgeFollower = (
  history: History,
  account: string,
  journal: ReadonlyArray<EventEntry>,
): ReadonlyArray<Finding> => {
  const followed = history.pages
    .filter((page) => page.account === account && page.reader === 'follower')
    .flatMap(({ events }) => events)
  const different = followed.findIndex(([id], i) => journal[i]?.[0] !== id)
  if (different < 0) {
    const changed = followed.find(([, , , , , digest], i) => journal[i]![5] !== digest)
    return changed === undefined
      ? []
      : [{ guarantee: 'event-content', detail: `${changed[0]} of ${account} has changed since it was read` }]
  }
  const ids = new Set(followed.map(([id]) => id))
  const missed = journal.slice(0, followed.length).filter(([id]) => !ids.has(id))
  return [
    {
      guarantee: 'event-missed',
      detail: `event ${different} of ${account}: the reader got ${followed[different]![0]}, the journal has ${journal[different]?.[0] ?? 'nothing'}; ${missed.length} events are behind the cursor${missed.length === 0 ? '' : `, the first ${missed[0]![0]} of ${missed[0]![4]}`}`,
    },
  ]
}

const FINAL_EVENTS: ReadonlySet<string> = new Set([
  'message.delivered',
  'message.undelivered',
  'message.rejected',
  'message.expired',
])

/** Each message has the events of its history, each once. */
const judgeContent = (history: History): ReadonlyArray<Finding> => {
  const types = new Map<string, Array<string>>()
  for (const journal of history.journals.values()) {
    for (const [, type, message] of journal) {
      if (message === null || !type.startsWith('message.')) continue
      if (!history.finals.has(message)) continue
      const known = types.get(message)
      if (known === undefined) types.set(message, [type])
      else known.push(type)
    }
  }
  return [...history.finals.values()].flatMap(({ history: states, id }): ReadonlyArray<Finding> => {
    const expected = states.map(([status]) => `message.${status}`).toSorted()
    const found = (types.get(id) ?? [])
      .filter((type) => FINAL_EVENTS.has(type) || type === 'message.accepted' || type === 'message.sent')
      .toSorted()
    if (expected.join() === found.join()) return []
    return [
      {
        guarantee: 'event-content',
        detail: `${id} has the events ${found.join(', ') || 'none'}, not ${expected.join(', ')}`,
      },
    ]
  })
}

/** Each batch with an accepted element is completed once. */
const judgeBatches = ({ batches, journals }: History): ReadonlyArray<Finding> => {
  const completed = new Map<string, number>()
  for (const journal of journals.values()) {
    for (const [, type, batch] of journal) {
      if (type === 'batch.completed' && batch !== null) completed.set(batch, (completed.get(batch) ?? 0) + 1)
    }
  }
  const named = new Set(
    batches.flatMap(({ batch, items, replayed }) =>
      batch !== null && !replayed && items.some(([, , , result]) => result === 'accepted') ? [batch] : [],
    ),
  )
  return [...named].flatMap((batch): ReadonlyArray<Finding> => {
    const times = completed.get(batch) ?? 0
    return times === 1
      ? []
      : [{ guarantee: 'event-content', detail: `${batch} has ${times} events batch.completed` }]
  })
}

export const judgeJournal = (history: History): ReadonlyArray<Finding> => [
  ...[...history.journals].flatMap(([account, journal]) => [
    ...judgeOrder(account, journal),
    ...judgeFollower(history, account, journal),
  ]),
  ...judgeContent(history),
  ...judgeBatches(history),
]

export const judgeWebhooks = (history: History): ReadonlyArray<Finding> => {
  const findings: Array<Finding> = []
  const confirmed = new Map<string, Set<string>>()
  const contents = new Map<string, string>()
  const positions = new Map(
    [...history.journals].map(([account, journal]) => [
      account,
      new Map(journal.map(([id, , , , , digest], position) => [id, { position, digest }])),
    ]),
  )
  for (const {
    account,
    at,
    batch,
    confirmed: isConfirmed,
    events,
    mistake,
    subscription,
  } of history.webhooks) {
    if (mistake !== null)
      findings.push({ guarantee: 'webhook-signature', detail: `${batch} at ${at}: ${mistake}` })
    const ids = events.map(([id]) => id).join()
    const before = contents.get(`${subscription} ${batch}`)
    contents.set(`${subscription} ${batch}`, ids)
    if (before !== undefined && before !== ids) {
      findings.push({
        guarantee: 'webhook-content',
        detail: `${batch} has other events at ${at} than before`,
      })
    }
    if (events.length < 1 || events.length > 100) {
      findings.push({ guarantee: 'webhook-content', detail: `${batch} at ${at} has ${events.length} events` })
    }
    let last = -1
    for (const [id, digest] of events) {
      const inJournal = positions.get(account)?.get(id)
      if (inJournal === undefined) {
        findings.push({
          guarantee: 'unexplained',
          detail: `${id} of the webhook ${batch} is not in the journal`,
        })
        continue
      }
      if (inJournal.digest !== digest) {
        findings.push({ guarantee: 'webhook-content', detail: `${id} in ${batch} differs from the journal` })
      }
      if (inJournal.position < last) {
        findings.push({
          guarantee: 'webhook-content',
          detail: `${id} is in ${batch} after an event that follows it`,
        })
      }
      last = inJournal.position
    }
    if (!isConfirmed) continue
    const known = confirmed.get(subscription) ?? new Set()
    confirmed.set(subscription, known)
    for (const [id] of events) known.add(id)
  }
  for (const { name, subscriptions } of history.run.accounts) {
    for (const subscription of subscriptions) {
      const missing = (history.journals.get(name) ?? []).filter(
        ([id]) => confirmed.get(subscription)?.has(id) !== true,
      )
      if (missing.length === 0) continue
      findings.push({
        guarantee: 'webhook-missing',
        detail: `${missing.length} events of ${name} did not reach ${subscription}, the first ${missing[0]![0]} (${missing[0]![1]}) of ${missing[0]![4]}`,
      })
    }
  }
  return findings
}
