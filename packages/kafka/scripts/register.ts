/**
 * Gives a schema registry of others the hub's schemas, under their ids: `node packages/kafka/scripts/register.ts <url>`. Safe to repeat; to be done before a
 * release that writes with new versions. A registry that asks who one is gets what `REGISTRY_AUTHORIZATION` holds as `Authorization`.
 */
import { Effect, Result } from 'effect'
import { registerSchemas } from '../src/registry/register.ts'

const [url, ...more] = process.argv.slice(2)
if (url === undefined || more.length > 0 || !URL.canParse(url)) {
  console.error(
    'usage: node packages/kafka/scripts/register.ts <url of a Confluent-compatible schema registry>',
  )
  process.exit(2)
}
const authorization = process.env['REGISTRY_AUTHORIZATION']
const done = await Effect.runPromise(
  Effect.result(registerSchemas({ url, ...(authorization === undefined ? {} : { authorization }) })),
)
if (Result.isFailure(done)) {
  console.error(`${done.failure.reason}: ${done.failure.detail}`)
  process.exit(1)
}
for (const { how, id, subject, version } of done.success) {
  console.log(
    `${String(id).padStart(4)}  ${subject} version ${version}: ${how === 'there' ? 'there already' : `registered, ${how}`}`,
  )
}
