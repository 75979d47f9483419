/**
 * An error that the user can correct. The message says what is wrong and what to do, in one
 * sentence. The command line prints it without a stack. Every other error is a fault of this code.
 */
export class UserError extends Error {
  /** A log file. Its last lines give more information. */
  readonly log: string | undefined
  constructor(message: string, log?: string) {
    super(message)
    this.name = 'Problem'
    this.log = log
  }
}
