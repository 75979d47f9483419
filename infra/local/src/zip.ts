/** Reads one file from a zip archive, such as a jar, so that the machine needs no unzip program. */
import { inflateRawSync } from 'node:zlib'

const END_OF_DIRECTORY = 0x06054b50
const DIRECTORY_ENTRY = 0x02014b50
const LOCAL_ENTRY = 0x04034b50
/** Compression methods. */
const STORED = 0
const DEFLATED = 8

/** The content of an entry, or null. Fails if the file is no zip archive. */
export const readZipEntry = (archive: Buffer, name: string): Buffer | null => {
  // The end record is at the end of the file, before a comment of at most 64 KiB.
  let end = archive.length - 22
  while (end >= 0 && archive.readUInt32LE(end) !== END_OF_DIRECTORY) end--
  if (end < 0) throw new Error('not a zip archive')
  const entries = archive.readUInt16LE(end + 10)
  let at = archive.readUInt32LE(end + 16)
  for (let i = 0; i < entries; i++) {
    if (archive.readUInt32LE(at) !== DIRECTORY_ENTRY) throw new Error('damaged zip directory')
    const nameLength = archive.readUInt16LE(at + 28)
    const entryName = archive.toString('utf8', at + 46, at + 46 + nameLength)
    if (entryName === name) {
      const method = archive.readUInt16LE(at + 10)
      const compressedSize = archive.readUInt32LE(at + 20)
      const size = archive.readUInt32LE(at + 24)
      const local = archive.readUInt32LE(at + 42)
      if (archive.readUInt32LE(local) !== LOCAL_ENTRY) throw new Error('damaged zip entry')
      // The local entry has its own name and extra field, whose lengths may differ from the
      // directory.
      const start = local + 30 + archive.readUInt16LE(local + 26) + archive.readUInt16LE(local + 28)
      const packed = archive.subarray(start, start + compressedSize)
      if (method !== STORED && method !== DEFLATED) throw new Error(`unknown zip method ${method}`)
      const content = method === STORED ? Buffer.from(packed) : inflateRawSync(packed)
      if (content.length !== size) throw new Error('damaged zip entry')
      return content
    }
    at += 46 + nameLength + archive.readUInt16LE(at + 30) + archive.readUInt16LE(at + 32)
  }
  return null
}
