/** `hub messages export` that is ended in the middle of a list, or whose hub stops answering. */
import type { ChildProcess } from 'node:child_process'
import { appendFileSync, existsSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { eventually } from '@hub/testkit'
import { afterEach, describe, expect, it } from 'vitest'
import { type HubCommand, newConfigFolder, startHubCommand } from '../support/hub-command.ts'
import { type ScriptedHub, startScriptedHub } from './scripted-hub.ts'

const MESSAGES = 250
/** The third page of the list is not answered at first. */
const HELD = 'msg_200'

const servers: Array<ScriptedHub> = []
const children: Array<ChildProcess> = []
afterEach(async () => {
  for (const child of children.splice(0)) child.kill('SIGKILL')
  for (const server of servers.splice(0)) await server.stop()
})

/** A hub, a folder for the file, and the command that writes it. */
const prepare = async () => {
  const hub = await startScriptedHub({ messages: MESSAGES, heldCursor: HELD })
  servers.push(hub)
  const folder = mkdtempSync(join(process.env['HUB_TEST_DIR'] ?? tmpdir(), 'export-'))
  const output = join(folder, 'messages.csv')
  const start = (...words: ReadonlyArray<string>): HubCommand => {
    const command = startHubCommand(hub, newConfigFolder(), ['messages', 'export', ...words])
    children.push(command.child)
    return command
  }
  return { hub, folder, output, start, untilHeld: () => eventually(() => hub.cursors().includes(HELD)) }
}

const idsIn = (csv: string): ReadonlyArray<string> =>
  csv
    .trimEnd()
    .split('\n')
    .slice(1)
    .map((line) => line.split(',')[0] ?? '')

const ALL = Array.from({ length: MESSAGES }, (_, index) => `msg_${index + 1}`)

describe('an export', () => {
  it.each(['SIGINT', 'SIGKILL'] as const)('that %s ends is continued by the same command', async (signal) => {
    const { folder, hub, output, start, untilHeld } = await prepare()
    const ended = start('--output', output)
    await untilHeld()
    ended.child.kill(signal)
    expect(await ended.ended).toBe(signal === 'SIGINT' ? 130 : null)
    if (signal === 'SIGINT') {
      expect(ended.err()).toContain(
        'Stopped after 200 messages, behind msg_200. Start the same command again',
      )
    }
    expect(existsSync(output)).toBe(false)
    const [part = ''] = readdirSync(folder).filter((name) => name.endsWith('.part'))
    expect(idsIn(readFileSync(join(folder, part), 'utf8'))).toEqual(ALL.slice(0, 200))

    // What a crash of the machine leaves.
    appendFileSync(join(folder, part), 'msg_201,deliv')
    hub.release()
    const before = hub.cursors().length
    const next = start('--output', output)
    expect(await next.ended, next.err()).toBe(0)
    expect(next.err()).toContain('Continuing behind msg_200, with 200 messages.')
    expect(idsIn(readFileSync(output, 'utf8'))).toEqual(ALL)
    // The account, and one page.
    expect(hub.cursors().slice(before)).toEqual([null, HELD])
    expect(readdirSync(folder)).toEqual(['messages.csv'])
  })

  it('with other filters does not continue the file', async () => {
    const { hub, output, start, untilHeld } = await prepare()
    const ended = start('--output', output)
    await untilHeld()
    ended.child.kill('SIGKILL')
    await ended.ended
    hub.release()
    const other = start('--output', output, '--status', 'delivered')
    expect(await other.ended, other.err()).toBe(0)
    expect(other.err()).not.toContain('Continuing')
    expect(idsIn(readFileSync(output, 'utf8'))).toEqual(ALL)
  })

  it('says where it stopped when the hub stops answering', async () => {
    const { hub, output, start, untilHeld } = await prepare()
    const toFile = start('--output', output)
    await untilHeld()
    const toPipe = start()
    await eventually(() => hub.cursors().filter((cursor) => cursor === HELD).length === 2)
    await hub.stop()
    expect([await toFile.ended, await toPipe.ended]).toEqual([3, 3])
    for (const { err } of [toFile, toPipe]) {
      expect(err()).toContain('Stopped after 200 messages, behind msg_200.')
      expect(err()).toContain('(hub_unreachable)')
    }
    expect(idsIn(toPipe.out())).toEqual(ALL.slice(0, 200))
    await hub.start()
  })

  it('does not change a file that exists', async () => {
    const { output, start } = await prepare()
    writeFileSync(output, 'mine')
    const refused = start('--output', output)
    expect(await refused.ended).toBe(1)
    expect(refused.err()).toContain('(file_exists)')
    expect(readFileSync(output, 'utf8')).toBe('mine')
  })
})
