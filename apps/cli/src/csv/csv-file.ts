/** A CSV file with the columns and values that its messages get. */
import { type BlockHashes, readSameBlocks } from './blocks.ts'
import { decodeBlocks, type Encoding } from './encoding.ts'
import { makeMapping, type MappedTemplate, type Mapping } from './mapping.ts'
import { type Row, readRows } from './rows.ts'

export interface CsvFile {
  readonly path: string
  readonly encoding: Encoding
  /** `null`: the one that the heading uses. */
  readonly delimiter: string | null
  /** Of the first reading. A later reading fails where the file differs. */
  readonly hashes: BlockHashes
  readonly template: MappedTemplate
  /** The column of the number and of placeholders, from `--map`. */
  readonly map: Readonly<Record<string, string>>
  /** Values that are the same in each row. */
  readonly constants: Readonly<Record<string, string>>
}

export interface OpenCsvFile {
  readonly mapping: Mapping
  readonly rows: AsyncGenerator<ReadonlyArray<Row>, void, undefined>
}

export const readCsvFile = async (file: CsvFile): Promise<OpenCsvFile> => {
  const texts = decodeBlocks(readSameBlocks(file.path, file.hashes), file.encoding)
  const { columns, rows } = await readRows(texts, file.delimiter)
  return { mapping: makeMapping(columns, file.template, file.map, file.constants), rows }
}
