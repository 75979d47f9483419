/**
 * `hub send --csv`: a run that is interrupted and killed sends each row exactly once, and a file that cannot
 * be sent as a whole sends nothing.
 *
 *   HUB_CSV_ROWS=1000000 npm run test:e2e -- test/cli -t 'exactly once'    # the full length, with the rate
 */
import {
  appendFileSync,
  createReadStream,
  existsSync,
  mkdtempSync,
  readFileSync,
  writeFileSync,
} from 'node:fs'
import { open } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { eventually } from '@hub/testkit'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { operatorStatistics, type TestHub } from '../support/hub.ts'
import { type Account, type HubAdmin, makeHubAdmin } from '../support/hub-admin.ts'
import { lastResultRow, newConfigFolder, runHubCommand, startHubCommand } from '../support/hub-command.ts'

const FULL_ROWS = process.env['HUB_CSV_ROWS']
const ROWS = Number(FULL_ROWS ?? 4000)
/** So that few rows make many batches, which a signal can interrupt. */
const SMALL_BATCH = { batch_max: 100 } as const
/** The heap in which the command must send any number of rows. Without a limit, Node collects garbage late. */
const HEAP_LIMIT = '--max-old-space-size=64'
/** The command reads the last of these rows only when it has sent thousands. */
const CHANGED_ROWS = 6000
/**
 * A run of a million rows takes ten minutes on a quiet machine, and the hub needs as long again until the operator
 * has all of them. On a busy machine, both take several times as long.
 */
const FINISHED_WITHIN_MS = 120_000 + ROWS * 5

const SEND = ['send', '--template', 'order_ready', '--map', 'to=phone', '--map', 'order=order_no', '--yes']

/** `name`: the content of a column that no message uses. */
const writeRows = async (file: string, rows: number, first = 0, name = 'Иванов, И.'): Promise<void> => {
  const handle = await open(file, 'w')
  await handle.write('phone,order_no,name\n')
  let text = ''
  for (let row = first; row < first + rows; row++) {
    text += `+79${String(100_000_000 + row)},A-${row},"${name}"\n`
    if (text.length > 1_000_000 || row === first + rows - 1) {
      await handle.write(text)
      text = ''
    }
  }
  await handle.close()
}

/** The complete lines of the result file behind the heading. */
const resultRows = (file: string): ReadonlyArray<ReadonlyArray<string>> =>
  existsSync(file)
    ? readFileSync(file, 'utf8')
        .split('\n')
        .slice(1, -1)
        .map((line) => line.split(','))
    : []

/** Checks that the result file has each row once, in order, and each with a message of its own. */
const expectEachRowOnce = async (file: string, rows: number): Promise<void> => {
  const messages = new Set<string>()
  let lines = -1
  for await (const line of createInterface({ input: createReadStream(file) })) {
    lines += 1
    if (lines === 0) continue
    const [row, , , result, message = ''] = line.split(',')
    if (row !== String(lines) || (result !== 'accepted' && result !== 'duplicate') || message === '') {
      throw new Error(`Line ${lines + 1} of the result file is not the result of row ${lines}: ${line}`)
    }
    messages.add(message)
  }
  expect([lines, messages.size]).toEqual([rows, rows])
}

/** The failure that a command with --json has printed. */
const failureIn = (err: string): { readonly code: string; readonly message: string } =>
  JSON.parse(err.slice(err.indexOf('{'))).error

/** `fixture`: the hub, whose live operator is reached over HTTP, and the command that starts `hub`. */
export const describeSendCsv = (
  fixture: () => { readonly hub: TestHub; readonly program: ReadonlyArray<string> },
): void => {
  describe('hub send --csv', () => {
    let hub: TestHub
    let program: ReadonlyArray<string>
    let admin: HubAdmin
    let account: Account
    let folder = ''
    let config = ''
    beforeAll(async () => {
      const [node = '', ...words] = fixture().program
      program = [node, HEAP_LIMIT, ...words]
      hub = fixture().hub
      admin = makeHubAdmin(hub)
      account = await admin.createAccount({
        live: FULL_ROWS === undefined ? SMALL_BATCH : {},
        test: SMALL_BATCH,
      })
      folder = mkdtempSync(join(process.env['HUB_TEST_DIR'] ?? tmpdir(), 'csv-'))
      config = newConfigFolder()
      // The command finds the keys of this account where it finds those of a local hub.
      writeFileSync(
        join(folder, 'hub.json'),
        JSON.stringify({ base_url: hub.describe().base_url, keys: account.keys }),
      )
    })
    afterAll(() => admin.close())

    const path = (name: string): string => join(folder, name)
    const start = (args: ReadonlyArray<string>) => startHubCommand({ dataDir: folder }, config, args, program)
    const run = (args: ReadonlyArray<string>) => runHubCommand({ dataDir: folder }, config, args, program)

    /** The accepted messages of the account. The ledger has a message as soon as its send is answered. */
    const countAccepted = async (): Promise<{ readonly messages: number; readonly refs: number }> => {
      const [found] = await admin.sql<[{ readonly messages: number; readonly refs: number }]>`
        select
          (select count(*)::int from command.acceptances where account = ${account.uuid}) as messages,
          (select count(*)::int from command.client_refs where account = ${account.uuid}) as refs`
      return found
    }

    it(
      'sends each row exactly once, although it is interrupted once and killed twice',
      async () => {
        const file = path('people.csv')
        const results = path('people.result.csv')
        await writeRows(file, ROWS)
        const args = [...SEND, '--csv', file, '--live']

        let largest = 0
        for (const signal of ['SIGINT', 'SIGKILL', 'SIGKILL'] as const) {
          const running = start(args)
          const ended = running.ended.then(() => {
            throw new Error(`The run ended before it was stopped:\n${running.err()}`)
          })
          await Promise.race([
            ended,
            // With the full length, each run sends about a quarter of the rows.
            eventually(
              async () => {
                const rows = await lastResultRow(results)
                return rows > largest + (FULL_ROWS === undefined ? 0 : ROWS / 4)
              },
              { withinMs: FINISHED_WITHIN_MS, everyMs: FULL_ROWS === undefined ? 5 : 500 },
            ),
          ])
          running.child.kill(signal)
          const code = await running.ended
          expect(code).toBe(signal === 'SIGINT' ? 130 : null)
          if (signal === 'SIGINT') expect(running.err()).toContain('nothing is sent twice')
          const rows = await lastResultRow(results)
          expect(rows).toBeGreaterThan(largest)
          expect(rows).toBeLessThan(ROWS)
          largest = rows
        }

        const startedAt = performance.now()
        const last = await run(args)
        expect(last.code, last.err).toBe(0)
        const rate = Math.round(((ROWS - largest) * 1000) / (performance.now() - startedAt))
        console.log(`${ROWS - largest} rows in the last run, ${rate} rows/s with the check`)
        expect(last.json).toMatchObject({ rows: ROWS, rejected: 0, skipped: 0 })
        expect(last.json.accepted + last.json.duplicate).toBe(ROWS)

        await expectEachRowOnce(results, ROWS)
        // The result file has no personal data.
        expect(readFileSync(results).includes('+79')).toBe(false)

        await eventually(async () => (await operatorStatistics(hub))['references'] === ROWS, {
          withinMs: FINISHED_WITHIN_MS,
          everyMs: 500,
        })
        expect((await operatorStatistics(hub))['repeated']).toBe(0)
        expect(await countAccepted()).toEqual({ messages: ROWS, refs: ROWS })

        // The finished run again: nothing is left to do.
        const again = await run(args)
        expect(again.code).toBe(0)
        expect(again.json).toEqual(last.json)
        expect((await operatorStatistics(hub))['references']).toBe(ROWS)
      },
      FINISHED_WITHIN_MS * 3,
    )

    it('without its result file sends nothing twice, and with another name sends again', async () => {
      const file = path('again.csv')
      await writeRows(file, 250, 5_000_000)
      const before = await countAccepted()
      const first = await run([...SEND, '--csv', file])
      expect(first.json).toMatchObject({ accepted: 250, duplicate: 0 })
      const second = await run([...SEND, '--csv', file, '--result', path('second.csv')])
      expect(second.json).toMatchObject({ run: first.json.run, accepted: 0, duplicate: 250 })
      expect((await countAccepted()).messages - before.messages).toBe(250)
      const named = await run([...SEND, '--csv', file, '--run', 'b', '--result', path('b.csv')])
      expect(named.json).toMatchObject({ accepted: 250, duplicate: 0 })
    })

    it.each([
      ['a missing column', 'phone,order\n+79000000001,A\n', 'Line 1: there is no column "order_no"'],
      ['a bad number', 'phone,order_no\n+79000000001,A\n89000000001,B\n', 'line 3, column 1 ("phone")'],
      ['a long cell', `phone,order_no\n+79000000001,${'x'.repeat(501)}\n`, 'line 2, column 2 ("order_no")'],
      ['an open quote', 'phone,order_no\n+79000000001,"A\n', 'Line 2, column 2: a quote is not closed'],
      [
        'a control character',
        'phone,order_no\n+79000000001,A\u0007\n',
        'line 2, column 2 ("order_no"): template_variable',
      ],
      [
        'mixed encodings',
        Buffer.concat([
          Buffer.from('phone,order_no\n+79000000001,Ж\n+79000000001,'),
          Buffer.from([0xc6, 10]),
        ]),
        'Line 3, column 14: this is not UTF-8',
      ],
    ])('with %s sends nothing, and names line and column', async (name, content, problem) => {
      const file = path(`${name.replaceAll(' ', '-')}.csv`)
      writeFileSync(file, content)
      const before = await countAccepted()
      const ran = await run([...SEND, '--csv', file])
      expect(ran.code).toBe(1)
      // A mistake in the heading is the failure itself; mistakes in rows are listed before it.
      expect(`${failureIn(ran.err).message} ${ran.err}`).toContain(problem)
      expect(ran.err).not.toContain('89000000001')
      expect(await countAccepted()).toEqual(before)
      expect(existsSync(file.replace('.csv', '.result.csv'))).toBe(false)
    })

    it('with --skip-invalid sends the valid rows, and lists the others as skipped', async () => {
      const file = path('skip.csv')
      writeFileSync(file, 'phone,order_no\n1,A\n+79000000001,B\n+79000000002,C\n2,D\n')
      const ran = await run([...SEND, '--csv', file, '--skip-invalid'])
      expect(ran.code).toBe(0)
      expect(ran.json).toMatchObject({ rows: 4, accepted: 2, skipped: 2 })
      expect(resultRows(path('skip.result.csv')).map(([row, line, , result]) => [row, line, result])).toEqual(
        [
          ['1', '2', 'skipped'],
          ['2', '3', 'accepted'],
          ['3', '4', 'accepted'],
          ['4', '5', 'skipped'],
        ],
      )
    })

    it('continues behind the last result, and asks where', async () => {
      const results = path('skip.result.csv')
      const whole = readFileSync(results)
      const lines = String(whole).split('\n')
      writeFileSync(results, `${lines.slice(0, 3).join('\n')}\n`)
      const args = [...SEND, '--csv', path('skip.csv')]
      const asked = await run(args.filter((word) => word !== '--yes'))
      expect(asked.err).toContain('2 rows already have a result')
      expect(asked.err).toContain('Continue behind line 3 of 5')
      // The first start had --skip-invalid.
      const ran = await run(args)
      expect(ran.json).toMatchObject({ rows: 4, accepted: 1, duplicate: 1, skipped: 2 })
      expect(String(readFileSync(results))).toBe(
        String(whole).replace(/^(3,4,[^,]*),accepted/mu, '$1,duplicate'),
      )
    })

    it('asks where it continues in a file whose lines end with a carriage return alone', async () => {
      const file = path('carriage-return.csv')
      writeFileSync(file, 'phone,order_no\r+79000000021,A\r+79000000022,B\r')
      expect((await run([...SEND, '--csv', file])).json).toMatchObject({ rows: 2, accepted: 2 })
      const results = path('carriage-return.result.csv')
      const [heading, first] = String(readFileSync(results)).split('\n')
      writeFileSync(results, `${heading}\n${first}\n`)
      const asked = await run([...SEND.filter((word) => word !== '--yes'), '--csv', file])
      expect(asked.code).toBe(1)
      expect(asked.err).toContain('Continue behind line 2 of 3,')
      expect((await run([...SEND, '--csv', file])).json).toMatchObject({ rows: 2, duplicate: 1 })
    })

    it('with a row that the hub rejects sends the others, and the result file says why', async () => {
      const file = path('rejected.csv')
      writeFileSync(file, 'phone,order_no\n+79000000013,A\n+79000000001,B\n')
      const ran = await run([...SEND, '--csv', file])
      expect(ran.code).toBe(1)
      expect(ran.json).toMatchObject({ accepted: 1, rejected: 1 })
      expect(failureIn(ran.err).code).toBe('rows_rejected')
      expect(resultRows(path('rejected.result.csv'))[0]?.slice(3)).toEqual([
        'rejected',
        '',
        'recipient_opted_out',
        'to',
      ])
    })

    it('with --dry-run estimates and sends nothing', async () => {
      const file = path('dry.csv')
      await writeRows(file, 1200, 20_000_000)
      const before = await countAccepted()
      const ran = await run([...SEND, '--csv', file, '--dry-run'])
      expect(ran.json).toMatchObject({ rows: 1200, invalid: 0, parts: 1200, price: { currency: 'RUB' } })
      expect(await countAccepted()).toEqual(before)
    })

    it('without --yes and without a terminal sends nothing', async () => {
      const file = path('dry.csv')
      const ran = await run([...SEND.filter((word) => word !== '--yes'), '--csv', file])
      expect(ran.code).toBe(1)
      expect(ran.err).toContain('confirmation_required')
      expect(ran.err).toContain('Send 1,200 messages, 1,200 parts')
      // A refused confirmation leaves no result file that looks like a run.
      expect(existsSync(path('dry.result.csv'))).toBe(false)
    })

    // The last test: the hub may still accept batches of the stopped run when the next test counts.
    it('that changes during the run stops before the change, with the line', async () => {
      const file = path('changing.csv')
      const results = path('changing.result.csv')
      // A row has a KiB and the command reads in MiB, so it does not read the whole file at once.
      await writeRows(file, CHANGED_ROWS, 10_000_000, 'x'.repeat(1000))
      const running = start([...SEND, '--csv', file, '--json'])
      await eventually(() => existsSync(results), { everyMs: 5 })
      appendFileSync(file, '+79000000001,late,"x"\n')
      expect(await running.ended, running.err()).toBe(1)
      const { code, message } = failureIn(running.err())
      expect(code).toBe('file_changed')
      expect(message).toMatch(/at line \d+ or after it/u)
      expect(resultRows(results).length).toBeLessThan(CHANGED_ROWS)
    })
  })
}
