/**
 * The id of a run: the same for the same file, template and values, on any machine. With the number of
 * a row it is the `client_ref` of a message, so a repeated run sends nothing twice
 * (docs/decisions/command-line.md#runs).
 */
import { createHash, scrypt } from 'node:crypto'
import type { BlockHashes } from './blocks.ts'

export interface RunIdentity {
  /** The account, so that two accounts with one file have different ids. */
  readonly account: string
  readonly template: string
  readonly map: Readonly<Record<string, string>>
  readonly constants: Readonly<Record<string, string>>
  readonly encoding: string
  readonly delimiter: string | null
  /** `--run`: sends the same file again. */
  readonly run: string
}

/**
 * The hash of a file with one number could be reversed by trying all numbers. This makes each trial cost
 * 0.1 s and 32 MiB.
 */
const SCRYPT = { N: 32_768, r: 8, p: 1, maxmem: 64 * 1024 * 1024 } as const
const ID_BYTES = 16

const sorted = (values: Readonly<Record<string, string>>): ReadonlyArray<readonly [string, string]> =>
  Object.entries(values).sort(([a], [b]) => (a < b ? -1 : 1))

/** 32 hexadecimal digits. */
export const runIdOf = (blocks: BlockHashes, identity: RunIdentity): Promise<string> => {
  const { account, constants, delimiter, encoding, map, run, template } = identity
  const content = createHash('sha256')
  for (const block of blocks) content.update(block)
  content.update(JSON.stringify([template, sorted(map), sorted(constants), encoding, delimiter, run]))
  return new Promise((resolve, reject) =>
    scrypt(content.digest(), account, ID_BYTES, SCRYPT, (error, key) =>
      error === null ? resolve(key.toString('hex')) : reject(error),
    ),
  )
}

/** At most 128 characters, as the API allows. */
export const clientRefOf = (runId: string, row: number): string => `csv-${runId}-${row}`
