/** The read model as the look-ups of the dispatchers see it. */
import type { LookedUpMessage, LookedUpModel } from '@hub/dispatcher/testing'
import type { MessageRow } from '@hub/projector'
import type { MemoryStore } from '@hub/projector/testing'

export const lookedUpModel = ({ tables }: MemoryStore): LookedUpModel => {
  const lookedUp = ({ attempts, messageId, reason, seen, status }: MessageRow): LookedUpMessage => {
    const ids = [...tables.operatorIds.values()].filter((one) => one.messageId === messageId)
    return {
      id: messageId,
      accepted: tables.facts.get(messageId) ?? null,
      state: {
        status,
        reason,
        attempts,
        seen,
        operator: ids[0]?.operator ?? null,
        operatorIds: ids.map(({ operatorId }) => operatorId),
      },
    }
  }
  return {
    position: (topic, partition) => tables.checkpoints.get(`${topic}/${partition}`)?.position ?? 0,
    messages: {
      get: (id) => {
        const row = tables.messages.get(id)
        return row === undefined ? undefined : lookedUp(row)
      },
      values: () => [...tables.messages.values()].map(lookedUp),
    },
  }
}
