/**
 * mypy judges the Python client: its modules and tests under strict rules for the oldest Python that it supports, the
 * examples of the pages, and a program whose mistakes its types must find.
 */
import { deepEqual } from 'node:assert/strict'
import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ROOT } from '@hub/local-stack'
import { type Output, pythonTool, runTool } from '../support/external-tools.ts'
import { PYTHON_CLIENT, pythonExamples } from '../support/python-client.ts'

const MYPY = '1.19.1'
const WITHIN_MS = 600_000

/** Each ignored error must exist: mypy reports a comment that is not needed. */
const MISUSE = `
from sms_delivery_hub import HubClient, read_events

hub = HubClient("https://hub.example.com", "hub_test_x")
hub.messages.send({"to": "", "class": "voice", "template": ""})  # type: ignore[typeddict-item]
hub.messages.send({"to": "", "template": ""})  # type: ignore[typeddict-item]
hub.messages.send({"to": "", "class": "otp", "template": "", "text": ""})  # type: ignore[typeddict-unknown-key]
hub.messages.send_batch([{"to": "", "class": "otp", "template": ""}])  # type: ignore[typeddict-item]
hub.messages.list({"state": "sent"})  # type: ignore[arg-type]
hub.account.get()["nothing"]  # type: ignore[typeddict-item]
read_events(b"", None, "")[0]["nothing"]  # type: ignore[typeddict-item]
read_events([], None, "")  # type: ignore[arg-type]
hub.messages.send({"to": "", "class": "otp", "template": "", "variables": {"code": 4821}})
limit: int = hub.account.get()["limits"]["batch_max"]
`

export const judgePythonTypes = async (): Promise<void> => {
  const tool = await pythonTool('mypy', MYPY)
  if ('missing' in tool) return console.log(`skipped, because ${tool.missing}`)
  const folder = mkdtempSync(join(process.env['HUB_TEST_DIR'] ?? tmpdir(), 'python-types-'))
  const files: Array<string> = []
  const write = (name: string, code: string): void => {
    files.push(join(folder, name))
    writeFileSync(join(folder, name), code)
  }
  write('misuse.py', MISUSE)
  for (const page of [join(PYTHON_CLIENT, 'README.md'), 'docs/integrating.md']) {
    for (const [name, code] of pythonExamples(page)) write(name, code)
  }
  const mypy = (...words: ReadonlyArray<string>): Promise<Output> =>
    runTool(join(tool.folder, 'bin/python'), ['-m', 'mypy', '--cache-dir', join(folder, 'cache'), ...words], {
      cwd: join(ROOT, PYTHON_CLIENT),
      withinMs: WITHIN_MS,
    })
  const success = (count: number): string => `Success: no issues found in ${count} source files`
  const own = await mypy()
  deepEqual(
    [own.code, own.text.replace(/\d+(?= source files)/u, 'N').trim()],
    [0, success(0).replace('0', 'N')],
  )
  const examples = await mypy(...files)
  deepEqual([examples.code, examples.text.trim()], [0, success(files.length)])
  console.log(`mypy ${MYPY}: the modules and tests of the client, and ${files.length} programs`)
}
