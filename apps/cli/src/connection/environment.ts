/** The environment variables and the current folder, as a service, so that tests can set them. */
import { Context } from 'effect'

export type Environment = Readonly<Record<string, string | undefined>>

export interface ProcessContext {
  readonly environment: Environment
  readonly folder: string
}

export const ProcessContext = Context.Reference<ProcessContext>('@sms-delivery-hub/cli/ProcessContext', {
  defaultValue: () => ({ environment: process.env, folder: process.cwd() }),
})
