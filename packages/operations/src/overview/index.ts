/** Whether the hub works, for the start page of the console. */
import { Effect, Schema } from 'effect'
import { defineUseCase } from '../use-case.ts'
import { OverviewFeed } from './feed.ts'
import { Overview } from './overview.ts'

export { OverviewFeed } from './feed.ts'
export { Overview, type OverviewPart } from './overview.ts'

export const read = defineUseCase({
  name: 'overview show',
  permission: 'hub.read',
  input: Schema.Struct({}),
  output: Overview,
  audit: null,
  run: () => Effect.flatMap(OverviewFeed, ({ current }) => current),
})
