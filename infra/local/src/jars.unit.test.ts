import { describe, expect, it } from 'vitest'
import { parseChecksums } from './jars.ts'

const checksum = 'a'.repeat(64)

describe('pinned checksums', () => {
  it('are parsed in the format of sha256sum', () => {
    const text = `${checksum}  one.jar\n${'b'.repeat(64)} *two.jar\n`
    expect([...parseChecksums(text)]).toEqual([
      ['one.jar', checksum],
      ['two.jar', 'b'.repeat(64)],
    ])
  })

  it.each([`${checksum.slice(1)}  short.jar`, `${checksum} one.jar`, `${checksum}  two words.jar`])(
    'refuse the invalid line %j',
    (line) => {
      expect(() => parseChecksums(line)).toThrow('not a checksum line')
    },
  )
})
