/** The environment variables and the current folder, as a service, so that tests can set them. */
import { Context } from 'effect'

export type Environment = Readonly<Record<string, string | undefined>>

export interface Surroundings {
  readonly environment: Environment
  readonly folder: string
}

export const Surroundings = Context.Reference<Surroundings>('@sms-delivery-hub/cli/Surroundings', {
  defaultValue: () => ({ environment: process.env, folder: process.cwd() }),
})
