/** The schema that Renovate publishes judges its configuration. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { ROOT } from '@hub/local-stack'
import { Ajv } from 'ajv'
import { describe, expect, it } from 'vitest'
import { cachedTool, orSkip, runTool } from '../support/external-tools.ts'

const RENOVATE = '44.121.2'
/** A package index that does not respond must not block the tests. */
const WITHIN_MS = 180_000

/** Only the package itself: the schema needs none of its hundreds of dependencies. */
const renovate = () =>
  cachedTool(`renovate-${RENOVATE}`, (folder) =>
    runTool(
      'sh',
      ['-c', `npm pack --silent renovate@${RENOVATE} && tar xzf *.tgz package/renovate-schema.json`],
      {
        cwd: folder,
        withinMs: WITHIN_MS,
      },
    ),
  )

describe('the schema of Renovate', () => {
  it('accepts renovate.json, and refuses a value of another type', async (context) => {
    const { folder } = await orSkip(context, renovate())
    const schema = JSON.parse(readFileSync(join(folder, 'package/renovate-schema.json'), 'utf8')) as object
    const { $schema: _, ...rest } = schema as { readonly $schema: string }
    const validate = new Ajv({ strict: false, allErrors: true, formats: { regex: true } }).compile(rest)
    const configuration = JSON.parse(readFileSync(join(ROOT, 'renovate.json'), 'utf8')) as object
    validate(configuration)
    expect(validate.errors).toBeNull()
    expect(validate({ ...configuration, lockFileMaintenance: { enabled: 'yes' } })).toBe(false)
  })
})
