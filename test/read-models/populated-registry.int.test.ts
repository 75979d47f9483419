/**
 * Apicurio Registry with the schemas of others: the command that registers the schemas of the hub changes nothing,
 * and says why.
 */
import { ROOT } from '@hub/local-stack'
import { expect, it } from 'vitest'
import { orSkip, runTool } from '../support/external-tools.ts'
import { startRegistry } from '../support/schema-registry.ts'

/** Only ends a run that hangs. */
const WITHIN_MS = 300_000

const ORDER = JSON.stringify({ type: 'record', name: 'Order', namespace: 'shop', fields: [] })

it.for([
  ['a subject of others', 'orders-value', /other_schema: .*id 1, which version 1 of hub\.MessageAccepted/u],
  ['another schema under a subject of the hub', 'hub.ShardOpened', /other_schema: .*hub\.ShardOpened/u],
] as const)('%s', async ([_what, subject, sentence], context) => {
  const registry = await startRegistry()
  try {
    const { url } = await orSkip(context, registry)
    const call = async (path: string, body?: unknown) => {
      const response = await fetch(url + path, {
        method: body === undefined ? 'GET' : 'POST',
        headers: { 'content-type': 'application/vnd.schemaregistry.v1+json' },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      })
      expect(response.ok).toBe(true)
      return response.json()
    }
    await call(`/subjects/${subject}/versions`, { schema: ORDER })
    const { code, text } = await runTool(process.execPath, ['packages/kafka/scripts/register.ts', url], {
      cwd: ROOT,
      withinMs: WITHIN_MS,
    })
    expect(code).toBe(1)
    expect(text.trim().split('\n')).toHaveLength(1)
    expect(text).toMatch(sentence)
    expect(await call('/subjects')).toEqual([subject])
  } finally {
    if ('stop' in registry) await registry.stop()
  }
})
