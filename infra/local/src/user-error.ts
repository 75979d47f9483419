/**
 * Something a person has to put right: what is wrong and how to change it, in one sentence. It is shown without a
 * stack. Anything else that is thrown here is a fault of ours.
 */
export class UserError extends Error {
  /** A log file whose last lines say more. */
  readonly log: string | undefined
  constructor(message: string, log?: string) {
    super(message)
    this.name = 'Problem'
    this.log = log
  }
}
