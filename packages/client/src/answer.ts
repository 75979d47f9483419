/** Bounds on what a server can make the client do: the length of an answer, and the number of pages. */
import { HubError } from './errors.ts'

export { HubError } from './errors.ts'

/** The longest answers are lists with a hundred objects and batches with a thousand results: some MiB. */
const MAX_MEBIBYTES = 32
const MAX_BYTES = MAX_MEBIBYTES * 1024 * 1024

/** Parses the body of an answer. Stops reading, and fails, if it is too long. */
export const readJson = async (response: Response): Promise<unknown> => {
  const decoder = new TextDecoder()
  let text = ''
  let bytes = 0
  const reader = response.body?.getReader()
  for (;;) {
    const part = await reader?.read()
    if (part === undefined || part.done) return JSON.parse(text + decoder.decode())
    bytes += part.value.length
    if (bytes > MAX_BYTES) {
      await reader?.cancel()
      throw new HubError({
        status: response.status,
        code: 'answer_too_long',
        message: `The answer is longer than ${MAX_MEBIBYTES} MiB.`,
        isOutcomeUnknown: true,
      })
    }
    text += decoder.decode(part.value, { stream: true })
  }
}

/**
 * Returns a check of the cursors of pages that follow each other. It fails within a few rounds if they go round
 * in a circle, with one cursor in memory (Brent's algorithm).
 */
export const makeCursorCheck = () => {
  let remembered: string | null | undefined
  let pages = 0
  let kept = 1
  return (cursor: string | null): void => {
    if (cursor === remembered) {
      throw new HubError({
        status: null,
        code: 'cursor_repeated',
        message: 'The hub answers with the same cursor again, so the list has no end.',
      })
    }
    pages += 1
    if (pages < kept) return
    remembered = cursor
    pages = 0
    kept *= 2
  }
}
