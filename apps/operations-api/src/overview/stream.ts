/** The overview as server-sent events. */
import { Overview, requirePermission } from '@hub/operations'
import { Duration, Effect, Stream } from 'effect'
import type { Caller } from '../access/caller.ts'
import type { Sessions } from '../access/sessions.ts'
import type { StreamedAnswer } from '../http/answer.ts'
import { makeCallerEnd } from '../http/streams.ts'
import { makeCallerLimit } from '../http/work.ts'

export const OVERVIEW_STREAM_PATH = '/v1/overview/stream'

/** After this time the stream ends. The client connects again, and its token is checked again. */
const LONGEST_STREAM = Duration.minutes(5)
/** The browser waits for this time before it connects again. */
const RETRY_MS = 2000

const encoder = new TextEncoder()

/** Viewers share the text of an overview: it has some ten kilobytes. */
const texts = new WeakMap<object, Uint8Array>()

const eventOf = (overview: Overview.Overview | null): Uint8Array => {
  if (overview === null) return encoder.encode(': nothing has changed\n\n')
  const known = texts.get(overview)
  if (known !== undefined) return known
  const text = encoder.encode(`event: overview\nretry: ${RETRY_MS}\ndata: ${JSON.stringify(overview)}\n\n`)
  texts.set(overview, text)
  return text
}

/** Tabs of one person that show the overview, each with a connection of its own. */
const MAX_OF_CALLER = 10

/** A stream ends with the process, soon after the session of its caller, or after a few minutes. */
export const makeOverviewStreams = (sessions: Pick<Sessions['Service'], 'find'>) => {
  const open = makeCallerLimit(MAX_OF_CALLER)
  const endOf = makeCallerEnd(sessions)
  return Effect.fnUntraced(function* (caller: Caller) {
    yield* requirePermission(caller.actor, Overview.read.permission)
    const { changes } = yield* Overview.OverviewFeed
    const end = Effect.race(yield* endOf(caller), Effect.sleep(LONGEST_STREAM))
    yield* open.check(caller)
    // The client may have disconnected meanwhile. So the stream counts from its begin.
    const body = Stream.unwrap(
      Effect.as(open.open(caller), changes.pipe(Stream.map(eventOf), Stream.interruptWhen(end))),
    )
    return { body, contentType: 'text/event-stream; charset=utf-8', headers: {} } satisfies StreamedAnswer
  })
}
