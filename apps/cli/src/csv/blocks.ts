/**
 * Reads a file in blocks with a hash each. The first reading makes the hashes. Each later one compares a block
 * with its hash before it passes it on, so nothing of a changed file is used.
 */
import { createHash } from 'node:crypto'
import { open } from 'node:fs/promises'
import { refused } from '@hub/command-line'
import { makeLineCounter } from './count.ts'

/** Large enough that hashing costs little, small enough that four of them are no memory. */
const BLOCK_BYTES = 1024 * 1024

/** The hashes of all blocks, in order: 32 bytes for each MiB of the file. */
export type BlockHashes = ReadonlyArray<Buffer>

const sha256 = (block: Uint8Array): Buffer => createHash('sha256').update(block).digest()

/** Fills the buffer as far as the file goes. Returns the number of bytes. */
const fill = async (
  read: (offset: number, length: number) => Promise<number>,
  length: number,
): Promise<number> => {
  let filled = 0
  while (filled < length) {
    const bytes = await read(filled, length - filled)
    if (bytes === 0) break
    filled += bytes
  }
  return filled
}

const blocksOf = async function* (path: string): AsyncGenerator<Buffer, void, undefined> {
  const file = await open(path, 'r')
  try {
    for (;;) {
      const block = Buffer.allocUnsafe(BLOCK_BYTES)
      const bytes = await fill(
        async (offset, length) => (await file.read(block, offset, length, null)).bytesRead,
        BLOCK_BYTES,
      )
      if (bytes > 0) yield block.subarray(0, bytes)
      if (bytes < BLOCK_BYTES) return
    }
  } finally {
    await file.close()
  }
}

export interface FirstReading {
  readonly hashes: BlockHashes
  /** Also without an end of the last one. */
  readonly lines: number
}

/** Reads the file for the first time. */
export const hashBlocks = async (path: string): Promise<FirstReading> => {
  const hashes: Array<Buffer> = []
  const counter = makeLineCounter()
  for await (const block of blocksOf(path)) {
    hashes.push(sha256(block))
    counter.add(block)
  }
  return { hashes, lines: counter.ends() + (counter.isLineOpen() ? 1 : 0) }
}

/** Reads the file again. Fails before the first block that differs. */
export const readSameBlocks = async function* (
  path: string,
  hashes: BlockHashes,
): AsyncGenerator<Buffer, void, undefined> {
  const counter = makeLineCounter()
  let count = 0
  const changed = () =>
    refused(
      'file_changed',
      `${path} has changed since it was checked, at line ${counter.ends() + 1} or after it. Nothing behind that line was sent. Start again with the file as it was, or with a copy of the changed one.`,
    )
  for await (const block of blocksOf(path)) {
    const expected = hashes[count]
    if (expected === undefined || !expected.equals(sha256(block))) throw changed()
    yield block
    count += 1
    counter.add(block)
  }
  if (count !== hashes.length) throw changed()
}
