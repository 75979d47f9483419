/** gosmpp, in Go, reads every PDU that the SMPP adapter sends, and encodes the same texts. */
import { equal, ok } from 'node:assert/strict'
import { mkdtemp, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Effect } from 'effect'
import { goProgram, runTool } from '../support/external-tools.ts'
import { commandsOf, generateTexts, recordPdus, sendTexts } from '../support/sent-pdus.ts'

const SOURCE = join(import.meta.dirname, 'gosmpp')
/** Only ends a program that hangs. */
const WITHIN_MS = 600_000

const HEADER_OCTETS = 6

/** What gosmpp writes into the bits after the last septet is its own choice: it is no part of the text. */
const withoutSpareBits = (octets: Buffer, bits: number): string => {
  const copy = Buffer.from(octets)
  const last = copy.length - 1
  if (last >= 0) copy[last] = copy[last]! & (0xff >> (8 * copy.length - bits))
  return copy.toString('hex')
}

/**
 * Packs septets as a phone gets them, behind a header whose last septet has `fill` bits too many. Source: 3GPP
 * TS 23.038, 6.1.2.1, and TS 23.040, 9.2.3.24.
 */
const pack = (septets: Buffer, fill: number): string => {
  const octets = Buffer.alloc(Math.ceil((fill + 7 * septets.length) / 8))
  for (const [i, septet] of septets.entries()) {
    for (let bit = 0; bit < 7; bit++) {
      const at = fill + 7 * i + bit
      octets[at >> 3]! |= ((septet >> bit) & 1) << (at & 7)
    }
  }
  return octets.toString('hex')
}

export const judgeGosmpp = async (): Promise<void> => {
  const found = await goProgram(SOURCE)
  if ('missing' in found) return console.log(`Skipped: ${found.missing}`)
  const folder = await mkdtemp(join(process.env['HUB_TEST_DIR'] ?? tmpdir(), 'gosmpp-'))
  const read = async (kind: 'pdus' | 'texts', lines: ReadonlyArray<string>) => {
    const file = join(folder, `${kind}.txt`)
    await writeFile(file, lines.join('\n'))
    const { code, text } = await runTool(found.program, [kind, file], { withinMs: WITHIN_MS })
    if (code !== 0) throw new Error(text)
    return text.trimEnd().split('\n')
  }

  const pdus = await Effect.runPromise(recordPdus)
  const octets = pdus.map((pdu) => pdu.toString('hex'))
  equal((await read('pdus', octets)).join('\n'), octets.join('\n'))

  const texts = generateTexts()
  const sent = await Effect.runPromise(sendTexts(texts))
  const encoded = await read(
    'texts',
    texts.map((text) => JSON.stringify(text)),
  )
  let compared = 0
  for (const [i, line] of encoded.entries()) {
    const { data_coding, parts } = JSON.parse(line) as { data_coding: number; parts: ReadonlyArray<string> }
    const ours = sent[i]!
    equal(ours.dataCoding, data_coding)
    // gosmpp counts a pair of surrogates as one character, so its parts can have more than 140 octets.
    if (data_coding !== 0 && /[\u{10000}-\u{10ffff}]/u.test(texts[i]!)) continue
    compared++
    const isSingle = parts.length === 1
    const fill = isSingle ? 0 : 1
    const bodies = ours.parts.map((part) => (isSingle ? part : part.subarray(HEADER_OCTETS)))
    equal(
      bodies.map((body) => (data_coding === 0 ? pack(body, fill) : body.toString('hex'))).join('\n'),
      parts
        .map((part, at) =>
          data_coding === 0
            ? withoutSpareBits(Buffer.from(part, 'hex'), fill + 7 * (bodies[at]?.length ?? 0))
            : part,
        )
        .join('\n'),
    )
  }
  ok(compared > texts.length / 2)
  const kinds = new Set(commandsOf(pdus)).size
  console.log(
    `gosmpp writes the same octets for ${pdus.length} PDUs of ${kinds} kinds, and the same user data for ` +
      `${compared} of ${texts.length} texts. The others have characters outside the basic plane.`,
  )
}
