/** Checks a description of an API with the rules of Redocly, which are not ours. */
import { createConfig, lintFromString } from '@redocly/openapi-core'

/** Every recommended rule, and each of them makes the check fail. */
const config = createConfig({ extends: ['recommended-strict'] })

/** One line for each fault, with its rule and its place. */
export const faultsOf = async (text: string): Promise<ReadonlyArray<string>> => {
  const problems = await lintFromString({
    source: text,
    absoluteRef: 'openapi.json',
    config: await config,
  })
  return problems.map(
    ({ location, message, ruleId }) => `${ruleId}: ${message} (${location[0]?.pointer ?? 'document'})`,
  )
}
