/**
 * The payload of a message before encryption: in the lanes and the ledger, and in
 * `read.personal_data`. command-api writes it, the dispatcher and the projector read it.
 */
export interface MessagePayload {
  /** The recipient's number (E.164). */
  readonly to: string
  /** Always in the lanes. `read.personal_data` has no text of a code. */
  readonly text?: string | undefined
  /** Missing for a code: its variables contain the code. */
  readonly variables?: Readonly<Record<string, string>> | undefined
}

export const encodePayload = (payload: MessagePayload): Buffer => Buffer.from(JSON.stringify(payload))

/** Returns `null` if it is no payload. By hand, because a schema took as long as the decryption. */
export const decodePayload = (plain: Buffer): MessagePayload | null => {
  let parsed: unknown
  try {
    parsed = JSON.parse(plain.toString('utf8'))
  } catch {
    return null
  }
  if (typeof parsed !== 'object' || parsed === null) return null
  const { text, to, variables } = parsed as Readonly<Record<string, unknown>>
  if (typeof to !== 'string') return null
  if (text !== undefined && typeof text !== 'string') return null
  if (
    variables !== undefined &&
    (typeof variables !== 'object' || variables === null || Array.isArray(variables))
  ) {
    return null
  }
  return parsed as MessagePayload
}
