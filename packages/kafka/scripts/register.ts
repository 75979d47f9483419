/**
 * Registers the schemas in a Confluent-compatible schema registry. Their ids must be those of
 * `schemas/ids.json`, because records contain them. It can be repeated.
 */
import { Effect, Result } from 'effect'
import { registerSchemas } from '../src/registry/register.ts'

const [url, ...rest] = process.argv.slice(2)
if (url === undefined || rest.length > 0 || !URL.canParse(url)) {
  console.error(
    'usage: node packages/kafka/scripts/register.ts <url of a Confluent-compatible schema registry>',
  )
  process.exit(2)
}
const authorization = process.env['REGISTRY_AUTHORIZATION']
const result = await Effect.runPromise(
  Effect.result(registerSchemas({ url, ...(authorization === undefined ? {} : { authorization }) })),
)
if (Result.isFailure(result)) {
  console.error(`${result.failure.reason}: ${result.failure.detail}`)
  process.exit(1)
}
for (const { how, id, subject, version } of result.success) {
  console.log(
    `${String(id).padStart(4)}  ${subject} version ${version}: ${how === 'there' ? 'there already' : `registered, ${how}`}`,
  )
}
