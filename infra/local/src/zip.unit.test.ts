import { crc32, deflateRawSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import { readZipEntry } from './zip.ts'

/** Builds a zip archive field by field. */
const makeZip = (
  files: ReadonlyArray<{ readonly name: string; readonly content: Buffer; readonly deflate: boolean }>,
  comment = '',
): Buffer => {
  const parts: Array<Buffer> = []
  const directory: Array<Buffer> = []
  let offset = 0
  for (const { content, deflate, name } of files) {
    const packed = deflate ? deflateRawSync(content) : content
    const local = Buffer.alloc(30)
    local.writeUInt32LE(0x04034b50, 0)
    local.writeUInt16LE(deflate ? 8 : 0, 8)
    local.writeUInt32LE(crc32(content), 14)
    local.writeUInt16LE(name.length, 26)
    // The local entry has an extra field, unlike the directory.
    local.writeUInt16LE(4, 28)
    const entry = Buffer.alloc(46)
    entry.writeUInt32LE(0x02014b50, 0)
    entry.writeUInt16LE(deflate ? 8 : 0, 10)
    entry.writeUInt32LE(packed.length, 20)
    entry.writeUInt32LE(content.length, 24)
    entry.writeUInt16LE(name.length, 28)
    entry.writeUInt32LE(offset, 42)
    const whole = Buffer.concat([local, Buffer.from(name), Buffer.alloc(4), packed])
    parts.push(whole)
    directory.push(entry, Buffer.from(name))
    offset += whole.length
  }
  const listing = Buffer.concat(directory)
  const end = Buffer.alloc(22)
  end.writeUInt32LE(0x06054b50, 0)
  end.writeUInt16LE(files.length, 10)
  end.writeUInt32LE(listing.length, 12)
  end.writeUInt32LE(offset, 16)
  end.writeUInt16LE(comment.length, 20)
  return Buffer.concat([...parts, listing, end, Buffer.from(comment)])
}

describe('a zip archive', () => {
  const text = Buffer.from('redis '.repeat(1000))
  const archive = makeZip(
    [
      { name: 'first', content: Buffer.from('1'), deflate: false },
      { name: 'redis-server', content: text, deflate: true },
    ],
    'a comment',
  )

  it('returns compressed and stored entries', () => {
    expect(readZipEntry(archive, 'redis-server')).toEqual(text)
    expect(readZipEntry(archive, 'first')?.toString()).toBe('1')
  })

  it('returns null for an unknown name', () => {
    expect(readZipEntry(archive, 'redis')).toBeNull()
  })

  it('is refused if it has another format', () => {
    expect(() => readZipEntry(Buffer.from('<html>not found</html>'), 'redis')).toThrow('not a zip archive')
  })
})
