/** The parts of `hub send --csv` without a hub: reading, checking, and the result file. */
import { spawnSync } from 'node:child_process'
import { appendFileSync, mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createHubClient } from '@sms-delivery-hub/client'
import fc from 'fast-check'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { hashBlocks, readSameBlocks } from './blocks.ts'
import { checkFile, makeSum } from './check.ts'
import { decodeBlocks, type Encoding } from './encoding.ts'
import { makeMapping, messageOf, problemOf } from './mapping.ts'
import { openResultFile, type RowResult } from './result-file.ts'
import { readRows } from './rows.ts'
import { clientRefOf, type RunIdentity, runIdOf } from './run-id.ts'

let folder = ''
beforeAll(() => {
  folder = mkdtempSync(join(process.env['HUB_TEST_DIR'] ?? tmpdir(), 'hub-csv-'))
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))
const path = (name: string): string => join(folder, name)

const collect = async <A>(all: AsyncIterable<A>): Promise<ReadonlyArray<A>> => {
  const found: Array<A> = []
  for await (const one of all) found.push(one)
  return found
}

const MIB = 1024 * 1024

describe('a later reading of a file', () => {
  /** The bytes that pass before the change is found, and the sentence. */
  const again = async (file: string, hashes: ReadonlyArray<Buffer>) => {
    let bytes = 0
    try {
      for await (const block of readSameBlocks(file, hashes)) bytes += block.length
      return { bytes, problem: null }
    } catch (error) {
      return { bytes, problem: (error as Error).message }
    }
  }
  const content = Buffer.from(`${'x'.repeat(99)}\n`.repeat(25_000))

  it('passes the same bytes', async () => {
    writeFileSync(path('same'), content)
    expect(await again(path('same'), (await hashBlocks(path('same'))).hashes)).toEqual({
      bytes: content.length,
      problem: null,
    })
    writeFileSync(path('empty'), '')
    expect(await again(path('empty'), (await hashBlocks(path('empty'))).hashes)).toEqual({
      bytes: 0,
      problem: null,
    })
  })

  it.each([
    ['', 0],
    ['a', 1],
    ['a\n', 1],
    ['a\n\nb', 3],
    [`${'x'.repeat(2 * MIB - 1)}\ny\n`, 2],
    ['a\rb\r', 2],
    ['a\rb', 2],
    ['a\r\nb\n\rc', 4],
    // The block ends within the line end.
    [`${'x'.repeat(MIB - 1)}\r\ny`, 2],
  ])('counts the lines: %#', async (text, lines) => {
    writeFileSync(path('lines'), text)
    expect((await hashBlocks(path('lines'))).lines).toBe(lines)
  })

  it.each([
    [
      'a changed byte in the first block',
      0,
      (file: string) => writeFileSync(file, `y${String(content).slice(1)}`),
    ],
    [
      'a changed byte in the last block',
      2 * MIB,
      (file: string) => writeFileSync(file, `${String(content).slice(0, -2)}y\n`),
    ],
    ['a row at the end', 2 * MIB, (file: string) => appendFileSync(file, 'more\n')],
    ['a missing end', 2 * MIB, (file: string) => truncateSync(file, content.length - 100)],
    ['a missing block', MIB, (file: string) => truncateSync(file, MIB + 100)],
  ])('passes nothing behind %s, and names the line', async (_name, bytes, change) => {
    writeFileSync(path('changed'), content)
    const { hashes } = await hashBlocks(path('changed'))
    change(path('changed'))
    const found = await again(path('changed'), hashes)
    expect(found.bytes).toBe(bytes)
    const line = Math.floor(bytes / 100) + 1
    expect(found.problem).toContain(`has changed since it was checked, at line ${line} or after it`)
  })

  it('finds an addition to a file that ends with a block', async () => {
    writeFileSync(path('block'), Buffer.alloc(2 * MIB, 'x'))
    const { hashes } = await hashBlocks(path('block'))
    appendFileSync(path('block'), 'y')
    expect(await again(path('block'), hashes)).toMatchObject({ bytes: 2 * MIB })
    truncateSync(path('block'), MIB)
    expect((await again(path('block'), hashes)).problem).toContain('has changed')
  })
})

const blocksOf = async function* (bytes: Uint8Array, sizes: ReadonlyArray<number>) {
  let at = 0
  for (const size of sizes) {
    if (at >= bytes.length) return
    yield Buffer.from(bytes.subarray(at, at + size))
    at += size
  }
  if (at < bytes.length) yield Buffer.from(bytes.subarray(at))
}

const decode = async (bytes: Uint8Array, sizes: ReadonlyArray<number> = [], encoding: Encoding = 'utf-8') =>
  (await collect(decodeBlocks(blocksOf(bytes, sizes), encoding))).join('')

/** Characters of one to four octets in UTF-8 (RFC 3629, section 3), without surrogates and byte order marks. */
const codePoint = fc
  .oneof(
    fc.integer({ min: 0, max: 0x7f }),
    fc.integer({ min: 0x80, max: 0x7_ff }),
    fc.integer({ min: 0x8_00, max: 0xd7_ff }),
    fc.integer({ min: 0xe0_00, max: 0xfe_fe }),
    fc.integer({ min: 0x1_00_00, max: 0x10_ff_ff }),
  )
  .map((code) => String.fromCodePoint(code))

describe('the encoding', () => {
  it('UTF-8 is decoded, wherever the blocks end', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.string({ unit: codePoint }),
        fc.array(fc.integer({ min: 1, max: 5 })),
        async (text, sizes) => {
          expect(await decode(Buffer.from(text), sizes)).toBe(text)
        },
      ),
      { numRuns: 50 },
    )
  })

  it.each([['\n'], ['\r'], ['\r\n']])(
    'that is mixed is reported with line and column, and nothing of its block is passed on: %j',
    async (end) => {
      const bytes = Buffer.concat([
        Buffer.from(`phone,name${end}1,Ёж${end}2,`),
        Buffer.from([0xc8, 0xe2]),
        Buffer.from(end),
      ])
      for (let size = 1; size <= bytes.length; size++) {
        const sizes = Array.from({ length: bytes.length }, () => size)
        await expect(decode(bytes, sizes), String(size)).rejects.toThrow(
          'Line 3, column 3: this is not UTF-8',
        )
      }
    },
  )

  it('of another kind from the start is reported with a way out', async () => {
    await expect(decode(Buffer.from([0xd2, 0xe5, 0x2c]))).rejects.toThrow('--encoding windows-1251')
    await expect(decode(Buffer.from('\ufeffphone', 'utf16le'))).rejects.toThrow('the file is UTF-16')
  })

  it('of another kind behind an ASCII heading is not called mixed, wherever the blocks end', async () => {
    // What a spreadsheet saves: the heading is ASCII, and the cells are Windows-1251.
    const bytes = Buffer.concat([Buffer.from('phone,name\n1,'), Buffer.from([0xc8, 0xe2]), Buffer.from('\n')])
    for (const size of [1, 5, 100]) {
      const sizes = Array.from({ length: bytes.length }, () => size)
      const sentence = 'Line 2, column 3: the file is not UTF-8. Save it as UTF-8, or name its encoding'
      await expect(decode(bytes, sizes), String(size)).rejects.toThrow(sentence)
    }
  })

  it('that ends within a character is reported', async () => {
    await expect(decode(Buffer.from('a\nя').subarray(0, 3))).rejects.toThrow('Line 2, column 1')
  })

  it('Windows-1251 is decoded if it is named', async () => {
    expect(await decode(Buffer.from([0xc7, 0xe0]), [1], 'windows-1251')).toBe('За')
  })
})

const rowsOf = async (text: string, delimiter: string | null = null) => {
  const heading = await readRows(decodeBlocks(blocksOf(Buffer.from(text), []), 'utf-8'), delimiter)
  return { columns: heading.columns, rows: (await collect(heading.rows)).flat() }
}

/** Prints the rows of each text behind its heading: the cells, and the line in which the row begins. */
const PYTHON = `
import csv, io, json, sys
found = []
for text in json.load(sys.stdin):
    reader = csv.reader(io.StringIO(text, newline=''))
    next(reader)
    rows, before = [], reader.line_num
    for cells in reader:
        if cells: rows.append({'cells': cells, 'line': before + 1})
        before = reader.line_num
    found.append(rows)
print(json.dumps(found))
`

/** \`null\` without Python. */
const readWithPython = (texts: ReadonlyArray<string>): ReadonlyArray<unknown> | null => {
  const { error, status, stderr, stdout } = spawnSync('python3', ['-c', PYTHON], {
    input: JSON.stringify(texts),
    encoding: 'utf8',
    maxBuffer: 64 * 1024 * 1024,
  })
  if (error !== undefined) return null
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
  return JSON.parse(stdout) as ReadonlyArray<unknown>
}

describe('the rows', () => {
  it('have the line in which they begin, also behind empty lines and cells of several lines', async () => {
    const { columns, rows } = await rowsOf('\ufeffphone, name\r\n1,a\r\n\r\n2,"b\nc\nd"\r\n3,"e, ""f"""\r\n')
    expect(columns).toEqual(['phone', 'name'])
    expect(rows).toEqual([
      { number: 1, line: 2, cells: ['1', 'a'] },
      { number: 2, line: 4, cells: ['2', 'b\nc\nd'] },
      { number: 3, line: 7, cells: ['3', 'e, "f"'] },
    ])
  })

  it.each([
    ['"a;b;c",phone\n1,x\n', 2],
    ['"a\n,,,;";phone\n1;x\n', 2],
    ['\n\n"a;b"\tphone\n1\tx\n', 2],
    ['"a"";;""b",phone\n1,x\n', 2],
  ])('are separated by a character outside of the quotes of the heading: %j', async (text, columns) => {
    expect((await rowsOf(text)).columns).toHaveLength(columns)
  })

  it('have the cells and lines that Python finds, with any line ends, wherever a block ends', async (context) => {
    const cell = fc.string({
      unit: fc.constantFrom('a', 'я', '"', ',', ';', ' ', '\n', '\r', '\r\n'),
      maxLength: 6,
    })
    const lineEnd = fc.constantFrom('\n', '\r', '\r\n')
    const row = fc.tuple(
      fc.array(cell, { minLength: 2, maxLength: 3 }),
      lineEnd,
      fc.array(lineEnd, { maxLength: 2 }),
    )
    const texts = fc.sample(fc.array(row, { minLength: 1, maxLength: 6 }), { numRuns: 500, seed: 35 }).map(
      (rows) =>
        `to,x\r\n${rows
          .map(([cells, end, empty]) => {
            const quoted = cells.map((one) =>
              /[",\r\n]/u.test(one) ? `"${one.replaceAll('"', '""')}"` : one,
            )
            return `${quoted.join(',')}${end}${empty.join('')}`
          })
          .join('')}`,
    )
    const judged = readWithPython(texts)
    if (judged === null) {
      console.log('Skipped: python3 is not installed')
      return context.skip()
    }
    for (const [index, text] of texts.entries()) {
      const bytes = Buffer.from(text)
      for (const sizes of [[], Array.from({ length: bytes.length }, () => 1), [7, 5, 3, 11]]) {
        const heading = await readRows(decodeBlocks(blocksOf(bytes, sizes), 'utf-8'), ',')
        const rows = (await collect(heading.rows)).flat()
        expect(
          rows.map(({ cells, line }) => ({ cells, line })),
          JSON.stringify([text, sizes.length]),
        ).toEqual(judged[index])
      }
    }
  })

  it.each([
    ['phone;name\n1;a,b\n', null],
    ['phone\tname\n1\ta,b\n', null],
    ['phone|name\n1|a,b\n', '|'],
  ])('are separated by the character of the heading, or the given one: %j', async (text, delimiter) => {
    expect((await rowsOf(text, delimiter)).rows[0]?.cells).toEqual(['1', 'a,b'])
  })

  it.each([
    ['', 'Line 1: the file is empty'],
    ['phone,name\n1,a\n2,"b\n', 'Line 3, column 2: a quote is not closed'],
    ['phone,name\n1,"a"b\n', 'Line 2, column 2: text follows a closing quote'],
    ['phone,name\r\n1,"a\r\nb"\r\n\r\n2,"b"c\r\n', 'Line 5, column 2: text follows a closing quote'],
    ['phone,name\r1,"a\rb"\r2,"b"c\r', 'Line 4, column 2: text follows a closing quote'],
    [
      `phone,name\n1,a\n2,"${'b,c\n'.repeat(30_000)}`,
      'Line 3, column 2: a row has more than 100000 characters',
    ],
  ])('that are no CSV are reported with line and column', async (text, problem) => {
    await expect(rowsOf(text)).rejects.toThrow(problem)
  })
})

const TEMPLATE = { name: 'order_ready', class: 'service', placeholders: ['order', 'shop'] }

describe('the mapping', () => {
  const columns = ['phone', 'order_no', 'shop']
  const mapping = makeMapping(columns, TEMPLATE, { to: 'phone', order: 'order_no' }, {})
  const row = (...cells: ReadonlyArray<string>) => ({ number: 1, line: 7, cells })

  it('takes mapped columns, columns of the same name, and constant values', () => {
    expect(messageOf(mapping, row('+79000000001', 'A-1', 'North'))).toEqual({
      to: '+79000000001',
      class: 'service',
      template: 'order_ready',
      variables: { order: 'A-1', shop: 'North' },
    })
    const constant = makeMapping(['to', 'order'], TEMPLATE, {}, { shop: 'South' })
    expect(messageOf(constant, row('+79000000001', 'A-1')).variables).toEqual({ order: 'A-1', shop: 'South' })
  })

  it.each([
    [
      { order: 'order_no' },
      {},
      'Line 1: there is no column "to" for to. The columns are "phone", "order_no", "shop"',
    ],
    [{ to: 'phone' }, {}, 'or give one value with -v order=<value>'],
    [
      { to: 'phone', orders: 'order_no' },
      {},
      '--map orders: the template order_ready has no such placeholder',
    ],
    [{ to: 'phone' }, { to: '+79000000001' }, '-v to: the template order_ready has no such placeholder'],
  ])('reports what is missing or unknown: %j', (map, constants, problem) => {
    expect(() => makeMapping(columns, TEMPLATE, map, constants)).toThrow(problem)
  })

  it('refuses a column that exists twice', () => {
    expect(() => makeMapping(['to', 'order', 'shop', 'order'], TEMPLATE, {}, {})).toThrow(
      'the columns 2 and 4 are both named "order"',
    )
  })

  it.each([
    [['+79000000001', 'A'], 2, 'order_no', 'the number of cells is 2, and that of the heading is 3'],
    [['+79000000001', 'A', 'B', 'C'], 3, 'shop', 'the number of cells is 4'],
    [['89000000001', 'A', 'B'], 1, 'phone', 'the number is not +79 and nine digits'],
    [['', 'A', 'B'], 1, 'phone', 'there is no number'],
    [['+79000000001', 'A', 'x'.repeat(501)], 3, 'shop', 'the value has 501 characters, and at most 500'],
    [['+79000000001', 'A\0B', 'x'], 2, 'order_no', 'the value contains a NUL character'],
  ])('finds the mistake in a row, without its content: %#', (cells, column, columnName, problem) => {
    const found = problemOf(mapping, row(...cells))
    expect(found).toMatchObject({ line: 7, column, columnName })
    expect(found?.problem).toContain(problem)
    expect(JSON.stringify(found)).not.toContain('9000000001')
  })
})

describe('the check of a file', () => {
  const bodies: Array<{ readonly bytes: number; readonly messages: ReadonlyArray<unknown> }> = []
  const server = createServer((request, response) => {
    const chunks: Array<Buffer> = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const body = Buffer.concat(chunks)
      const { messages } = JSON.parse(body.toString()) as { readonly messages: ReadonlyArray<unknown> }
      bodies.push({ bytes: body.length, messages })
      const totals = { parts: messages.length, price: { amount: '1.00', currency: 'RUB' } }
      response
        .writeHead(200, { 'content-type': 'application/json' })
        .end(JSON.stringify({ object: 'list', data: [], totals }))
    })
  })
  beforeAll(() => new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve)))
  beforeEach(() => bodies.splice(0))
  afterAll(() => server.close())

  const check = async (
    file: string,
    options: {
      readonly placeholders: ReadonlyArray<string>
      readonly constants?: Readonly<Record<string, string>>
    },
  ) =>
    checkFile({
      file: {
        path: file,
        encoding: 'utf-8',
        delimiter: null,
        hashes: (await hashBlocks(file)).hashes,
        template: { ...TEMPLATE, placeholders: options.placeholders },
        map: {},
        constants: options.constants ?? {},
      },
      client: createHubClient({
        baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
        apiKey: 'hub_test_x',
      }),
      batchMax: 1000,
      onProgress: () => {},
      signal: new AbortController().signal,
    })

  it('with long cells asks for estimates that the hub can read', async () => {
    /** The hub refuses a longer body. */
    const longestBody = 4 * 1024 * 1024
    const rows = 1500
    writeFileSync(
      path('long.csv'),
      `to,order,shop\n${`+79000000001,${'€'.repeat(500)},${'"'.repeat(2)}\n`.repeat(rows)}`,
    )
    const checked = await check(path('long.csv'), {
      placeholders: ['order', 'shop', 'a', 'b', 'c'],
      constants: { a: '€'.repeat(500), b: '€'.repeat(500), c: '€'.repeat(500) },
    })
    const price = { amount: `${bodies.length}.00` }
    expect(checked).toMatchObject({ rows, invalid: 0, parts: rows, price })
    expect(bodies.flatMap(({ messages }) => messages)).toHaveLength(rows)
    for (const { bytes } of bodies) expect(bytes).toBeLessThanOrEqual(longestBody)
  })
})

const RUN = 'a'.repeat(32)
const resultOf = (row: number): RowResult => ({
  row,
  line: row + 1,
  outcome: row % 3 === 0 ? 'rejected' : 'accepted',
  ...(row % 3 === 0 ? { error: 'recipient_opted_out', param: 'to' } : { messageId: `msg_${row}` }),
})

const writeResults = async (file: string, rows: number): Promise<void> => {
  const results = await openResultFile(file, RUN)
  for (let row = results.lastRow + 1; row <= rows; row++) await results.add(resultOf(row))
  await results.close()
}

describe('the result file', () => {
  it('continues behind its last complete line, wherever it was cut off', async () => {
    const file = path('cut.csv')
    await writeResults(file, 6)
    const whole = readFileSync(file)
    for (let bytes = 0; bytes <= whole.length; bytes++) {
      writeFileSync(file, whole.subarray(0, bytes))
      const results = await openResultFile(file, RUN)
      const complete = Math.max(0, whole.subarray(0, bytes).toString().split('\n').length - 2)
      expect(results.lastRow, String(bytes)).toBe(complete)
      await results.close()
      await writeResults(file, 6)
      expect(readFileSync(file).equals(whole), String(bytes)).toBe(true)
    }
  })

  it('continues before what a crash of the machine left', async () => {
    const file = path('crash.csv')
    await writeResults(file, 6)
    const whole = readFileSync(file)
    const lines = whole.toString().split('\n')
    for (const damaged of ['\0'.repeat(80), lines[6], 'x,y']) {
      writeFileSync(file, `${lines.slice(0, 4).join('\n')}\n${damaged}\n${lines.slice(5).join('\n')}`)
      const results = await openResultFile(file, RUN)
      expect([results.lastRow, results.counts()]).toEqual([
        3,
        { accepted: 2, rejected: 1, duplicate: 0, skipped: 0 },
      ])
      await results.close()
      await writeResults(file, 6)
      expect(readFileSync(file).equals(whole)).toBe(true)
    }
  })

  it.each([
    [
      'of another run',
      `row,line,client_ref,result,message_id,error,param\n1,2,csv-${'b'.repeat(32)}-1,accepted,msg_1,,\n`,
    ],
    ['that is something else', 'phone,name\n+79000000001,a\n'],
    ['without a line', 'something'],
  ])('%s is refused and stays as it is', async (_name, content) => {
    const file = path('foreign.csv')
    writeFileSync(file, content)
    await expect(openResultFile(file, RUN)).rejects.toMatchObject({ code: 'result_of_another_run' })
    expect(readFileSync(file, 'utf8')).toBe(content)
  })

  it('keeps texts of the hub as data of a spreadsheet, and continues behind them', async () => {
    const file = path('formulas.csv')
    const first = await openResultFile(file, RUN)
    await first.add({ ...resultOf(1), messageId: '=HYPERLINK("http://evil.example")' })
    await first.add({ ...resultOf(2), messageId: '\n3,4,x,accepted,,,' })
    await first.add({ ...resultOf(3), error: '\uff1d1', param: 'a;=1' })
    await first.close()
    // The lines that OWASP's guidance for CSV injection asks for.
    expect(readFileSync(file, 'utf8').split('\n').slice(1)).toEqual([
      `1,2,csv-${RUN}-1,accepted,"'=HYPERLINK(""http://evil.example"")",,`,
      `2,3,csv-${RUN}-2,accepted,"\\u000a3,4,x,accepted,,,",,`,
      `3,4,csv-${RUN}-3,rejected,,'\uff1d1,"a;'=1"`,
      '',
    ])
    const again = await openResultFile(file, RUN)
    expect(again.lastRow).toBe(3)
    await again.close()
  })

  it('is written by one process at a time, and a lock of a killed process does not count', async () => {
    const file = path('locked.csv')
    const first = await openResultFile(file, RUN)
    await expect(openResultFile(file, RUN)).rejects.toMatchObject({ code: 'run_in_progress' })
    await first.close()
    // No process has this id: it is above the highest one.
    writeFileSync(`${file}.lock`, '4194305')
    await (await openResultFile(file, RUN)).close()
  })
})

describe('the id of a run', () => {
  const identity: RunIdentity = {
    account: 'acc_1',
    template: 'order_ready',
    map: { to: 'phone', order: 'order_no' },
    constants: {},
    encoding: 'utf-8',
    delimiter: null,
    run: '',
  }
  const blocks = [Buffer.alloc(32, 1), Buffer.alloc(32, 2)]

  it('is the same for the same file, template and values, in any order of the flags', async () => {
    const id = await runIdOf(blocks, identity)
    expect(id).toMatch(/^[0-9a-f]{32}$/u)
    expect(await runIdOf(blocks, { ...identity, map: { order: 'order_no', to: 'phone' } })).toBe(id)
    expect(clientRefOf(id, 1_000_000).length).toBeLessThanOrEqual(128)
  })

  it('differs for another file, account, template, column, value, encoding, delimiter and name', async () => {
    const ids = await Promise.all([
      runIdOf(blocks, identity),
      runIdOf(blocks.slice(1), identity),
      ...[
        { account: 'acc_2' },
        { template: 'other' },
        { map: { to: 'mobile', order: 'order_no' } },
        { constants: { shop: 'South' } },
        { encoding: 'windows-1251' },
        { delimiter: ';' },
        { run: 'second' },
      ].map((change) => runIdOf(blocks, { ...identity, ...change })),
    ])
    expect(new Set(ids).size).toBe(ids.length)
  })
})

it('prices are added exactly', () => {
  const sum = makeSum()
  for (let count = 0; count < 1000; count++) sum.add({ amount: '0.10', currency: 'RUB' })
  sum.add({ amount: '2', currency: 'RUB' })
  sum.add({ amount: '0.005', currency: 'RUB' })
  expect(sum.total()).toEqual({ amount: '102.005', currency: 'RUB' })
})
