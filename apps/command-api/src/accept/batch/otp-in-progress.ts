/**
 * The codes (`otp`) that this process is recording and publishing, and the codes that Kafka has
 * acknowledged to it. A repeat of a code in progress joins it and gets its outcome.
 */
import type { ApiError } from '@hub/contract'
import { Result } from 'effect'
import type { MessageView } from '../../messages/message.ts'
import type { PendingSend } from '../request.ts'

/** Acknowledged codes in memory: several times those that the projector has not applied yet. */
const MAX_ACKNOWLEDGED = 20_000

interface Joiner {
  readonly send: PendingSend
  readonly view: MessageView
}

export const makeOtpInProgress = () => {
  const joinersOf = new Map<string, Array<Joiner>>()
  const acknowledged = new Set<string>()

  const end = (messageId: string): ReadonlyArray<Joiner> => {
    const joiners = joinersOf.get(messageId) ?? []
    joinersOf.delete(messageId)
    return joiners
  }

  return {
    isAcknowledged: (messageId: string): boolean => acknowledged.has(messageId),
    isInProgress: (messageId: string): boolean => joinersOf.has(messageId),
    begin: (messageId: string): void => void joinersOf.set(messageId, []),
    /** The send gets the outcome of the code. `view`: the message as its lookup found it. */
    join: (messageId: string, send: PendingSend, view: MessageView): void => {
      if (send.outcome !== null) return send.drop()
      send.join()
      joinersOf.get(messageId)?.push({ send, view })
    },
    /** The code will not be published. Returns the sends that joined it: they must be decided again. */
    cancel: (messageId: string): ReadonlyArray<PendingSend> =>
      end(messageId).map(({ send }) => {
        send.again()
        return send
      }),
    /** Kafka has acknowledged the code. */
    confirm: (send: PendingSend, view: MessageView, duplicate: boolean): void => {
      const joiners = end(view.id)
      acknowledged.add(view.id)
      if (acknowledged.size > MAX_ACKNOWLEDGED) {
        const oldest = acknowledged.values().next().value
        if (oldest !== undefined) acknowledged.delete(oldest)
      }
      send.finish(Result.succeed({ view, duplicate }))
      for (const joiner of joiners) joiner.send.finish(Result.succeed({ view: joiner.view, duplicate: true }))
    },
    /** The code was not published, or the result of its append is unknown. */
    fail: (send: PendingSend, messageId: string, error: ApiError): void => {
      const joiners = end(messageId)
      for (const one of [send, ...joiners.map((joiner) => joiner.send)]) {
        if (error.outcome === 'unknown') one.request.doubt()
        one.finish(Result.fail(error))
      }
    },
  }
}
export type OtpInProgress = ReturnType<typeof makeOtpInProgress>
