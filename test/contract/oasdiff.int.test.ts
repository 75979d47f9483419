/**
 * oasdiff, in Go, judges the contract gate: both say the same about changes of the description of the API. Where they
 * differ, the table of the changes says why. Source: VER-8.
 */
import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import { compareDescriptions } from '../../tools/contract-gate/compare-descriptions.ts'
import { ALLOWED, BREAKING, description } from './description-changes.ts'
import { type Found, goTool, onlyIn, orSkip, runTool } from '../support/external-tools.ts'

const OASDIFF = 'v1.37.0'
/** No part of the description is deprecated, so any day gives the same answers. */
const TODAY = '2026-11-30'
/** Only ends a program that hangs. */
const WITHIN_MS = 300_000

const here = onlyIn('oasdiff')
if ('missing' in here) console.log(`Skipped: ${here.missing}`)

let found: Found<{ readonly folder: string }>
let folder = ''
beforeAll(async () => {
  found = await goTool(`oasdiff-${OASDIFF}`, `github.com/oasdiff/oasdiff@${OASDIFF}`)
  folder = mkdtempSync(join(process.env['HUB_TEST_DIR'] ?? tmpdir(), 'oasdiff-'))
})

/** Whether oasdiff finds a breaking change: one of the levels `ERR` and `WARN`. */
const breaksForOasdiff = async (program: string, was: object, is: object): Promise<boolean> => {
  const files = [join(folder, 'base.json'), join(folder, 'next.json')] as const
  writeFileSync(files[0], JSON.stringify(was))
  writeFileSync(files[1], JSON.stringify(is))
  const { code, text } = await runTool(program, ['breaking', '--format', 'json', ...files], {
    cwd: folder,
    withinMs: WITHIN_MS,
  })
  expect({ code, text: code === 0 ? '' : text }).toEqual({ code: 0, text: '' })
  return (JSON.parse(text) as ReadonlyArray<unknown>).length > 0
}

describe.skipIf('missing' in here).each([
  ['stops', BREAKING],
  ['allows', ALLOWED],
] as const)('the gate %s it, and oasdiff agrees or differs for a reason:', (verdict, changes) => {
  it.for(changes)('$name', async ({ before, change, differs }, context) => {
    const tool = await orSkip(context, found)
    const [was, is] = [description(), description()]
    before?.(was)
    before?.(is)
    change(is)
    const stops = compareDescriptions(was, is, TODAY).some(({ kind }) => kind === 'breaking')
    expect(stops).toBe(verdict === 'stops')
    expect(await breaksForOasdiff(join(tool.folder, 'oasdiff'), was, is)).toBe(
      differs === undefined ? stops : !stops,
    )
  })
})
