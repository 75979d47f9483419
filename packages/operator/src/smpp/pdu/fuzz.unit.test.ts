/**
 * Random and mutated PDUs. No octets make the decoder fail, and each decoded PDU is encoded to the same
 * octets. `HUB_PDU_FUZZ=10000000 npm run test:unit -- pdu/fuzz` runs ten million.
 */
import { expect, it } from 'vitest'
import { COMMANDS, definitionOf, type Command, type FieldName, TLVS } from './definitions.ts'
import { decodePdu } from './decode.ts'
import { makePduWriter } from './encode.ts'

const RUNS = Number(process.env['HUB_PDU_FUZZ'] ?? 100_000)
const SEED = Number(process.env['HUB_PDU_FUZZ_SEED'] ?? 1)
/** Ten million need minutes. */
const WITHIN_MS = 60_000 + RUNS / 10

/** mulberry32: a small generator of 32-bit numbers, so that a failure can be repeated. */
const makeRandom = (seed: number) => {
  let state = seed
  return (below: number): number => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32) * below)
  }
}

const COMMAND_NAMES = Object.keys(COMMANDS) as ReadonlyArray<Command>
const TAGS = Object.values(TLVS).map(({ tag }) => tag)
const NAMES = [
  ...new Set([
    ...COMMAND_NAMES.flatMap((name) => definitionOf(name).fields.map(([field]) => field)),
    ...Object.keys(TLVS),
  ]),
] as ReadonlyArray<FieldName>

const makeGenerator = (random: (below: number) => number) => {
  // Slices of random octets, because making each octet would take most of the time.
  const pool = Buffer.from(Array.from({ length: 100_000 }, () => random(256)))
  const texts = pool.map((octet) => octet || 1) as Buffer
  const octets = (most: number, from: Buffer = pool) => {
    const start = random(from.length - most)
    return from.subarray(start, start + random(most + 1))
  }

  const body = (command: Command): Buffer => {
    const pieces: Array<Buffer> = []
    for (const [, kind] of definitionOf(command).fields) {
      if (kind === 'octet') pieces.push(Buffer.of(random(256)))
      else if (kind === 'text') pieces.push(octets(12, texts), Buffer.of(0))
      else {
        const content = octets(60)
        pieces.push(Buffer.of(content.length), content)
      }
    }
    for (let i = random(5); i > 0; i--) {
      const content = octets(random(8) === 0 ? 300 : 6)
      const header = Buffer.alloc(4)
      header.writeUInt16BE(random(3) === 0 ? random(0x1_0000) : TAGS[random(TAGS.length)]!)
      header.writeUInt16BE(content.length, 2)
      pieces.push(header, content)
    }
    return Buffer.concat(pieces)
  }

  const mutate = (octetsBefore: Buffer): Buffer => {
    const at = random(octetsBefore.length + 1)
    switch (random(5)) {
      case 0:
        return octetsBefore.subarray(0, at)
      case 1:
        return Buffer.concat([octetsBefore.subarray(0, at), octets(4), octetsBefore.subarray(at)])
      case 2:
        return Buffer.concat([octetsBefore.subarray(0, at), octetsBefore.subarray(at + random(8))])
      case 3:
        return Buffer.concat([octetsBefore, octets(6)])
      default: {
        const changed = Buffer.from(octetsBefore)
        if (at < changed.length) changed[at] = [0, 1, 0x7f, 0x80, 0xff, random(256)][random(6)]!
        return changed
      }
    }
  }

  return (): Buffer => {
    const command = COMMAND_NAMES[random(COMMAND_NAMES.length)]!
    let content = random(10) === 0 ? octets(80) : body(command)
    for (let i = random(4); i > 0; i--) content = mutate(content)
    const frame = Buffer.concat([Buffer.alloc(16), content])
    frame.writeUInt32BE(frame.length)
    frame.writeUInt32BE(random(20) === 0 ? random(2 ** 32) : COMMANDS[command].id, 4)
    frame.writeUInt32BE(random(3) === 0 ? random(2 ** 32) : 0, 8)
    frame.writeUInt32BE(random(2 ** 32), 12)
    return frame
  }
}

it(
  `${RUNS} random and mutated PDUs are decoded without an exception and encoded to the same octets`,
  { timeout: WITHIN_MS },
  () => {
    const random = makeRandom(SEED)
    const next = makeGenerator(random)
    const writer = makePduWriter()
    let complete = 0
    for (let run = 0; run < RUNS; run++) {
      const frame = next()
      try {
        const pdu = decodePdu(frame)
        writer.add(pdu)
        if (!writer.take().equals(frame)) throw new Error('the encoded octets differ')
        const name = NAMES[run % NAMES.length]!
        const [text, number, octets] = [pdu.text(name), pdu.number(name), pdu.octets(name)]
        const isRight =
          typeof text === 'string' &&
          (number === null || (Number.isInteger(number) && number >= 0 && number <= 0xffff_ffff)) &&
          (octets === null || octets.length <= frame.length)
        if (!isRight) throw new Error(`the value of ${name} is invalid`)
        if (pdu.rest.length === 0) complete++
      } catch (error) {
        expect.fail(`run ${run} of the seed ${SEED}: ${String(error)}: ${frame.toString('hex')}`)
      }
    }
    // Both kinds were tested: PDUs that are complete, and PDUs that are not.
    expect(complete).toBeGreaterThan(RUNS / 5)
    expect(complete).toBeLessThan(RUNS * 0.9)
  },
)
