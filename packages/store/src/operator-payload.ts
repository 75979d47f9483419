/**
 * The authenticated data of what operators sent: no other record can carry its encrypted payload.
 * Dispatchers encrypt it, and hubctl decrypts it.
 */
interface OperatorMessage {
  readonly operator: string
  readonly operatorId: string
}

/** Of a delivery report. */
export const reportContext = ({ operator, operatorId }: OperatorMessage): string =>
  `report:${operator}:${operatorId}`

/** Of an inbound message. */
export const inboundContext = ({ operator, operatorId }: OperatorMessage): string =>
  `inbound:${operator}:${operatorId}`

/** Of an answer to a submit. */
export const answerContext = (answer: { readonly operator: string; readonly messageId: string }): string =>
  `answer:${answer.operator}:${answer.messageId}`
