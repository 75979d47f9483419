/**
 * The primitive types of Kafka's protocol. Integers of 64 bits are numbers here: offsets and times
 * stay far below 2^53.
 */

const TWO_32 = 2 ** 32

export class ByteReader {
  readonly bytes: Buffer
  at: number

  constructor(bytes: Buffer, at = 0) {
    this.bytes = bytes
    this.at = at
  }

  skip(length: number): void {
    this.at += length
  }

  int8(): number {
    return this.bytes.readInt8(this.at++)
  }

  int16(): number {
    this.at += 2
    return this.bytes.readInt16BE(this.at - 2)
  }

  int32(): number {
    this.at += 4
    return this.bytes.readInt32BE(this.at - 4)
  }

  int64(): number {
    this.at += 8
    return this.bytes.readInt32BE(this.at - 8) * TWO_32 + this.bytes.readUInt32BE(this.at - 4)
  }

  /** A zigzag-encoded integer of variable length. */
  varint(): number {
    let byte = this.bytes[this.at++]!
    // Most have one byte.
    if (byte < 0x80) return (byte >>> 1) ^ -(byte & 1)
    let value = byte & 0x7f
    let factor = 0x80
    do {
      byte = this.bytes[this.at++]!
      value += (byte & 0x7f) * factor
      factor *= 0x80
    } while (byte >= 0x80)
    return value % 2 === 0 ? value / 2 : -(value + 1) / 2
  }

  /** A text of this many bytes. */
  text(length: number): string {
    this.at += length
    return this.bytes.toString('utf8', this.at - length, this.at)
  }

  /** A text with a length of 16 bits before it. */
  string(): string {
    return this.text(Math.max(0, this.int16()))
  }

  /** The bytes share the memory of the reader. */
  slice(length: number): Buffer {
    this.at += length
    return this.bytes.subarray(this.at - length, this.at)
  }
}

/** Writes into one buffer, which it doubles when it is full. */
export class ByteWriter {
  #bytes: Buffer
  at = 0

  constructor(capacity: number) {
    this.#bytes = Buffer.allocUnsafe(capacity)
  }

  /** What has been written. It shares the memory of the writer. */
  get written(): Buffer {
    return this.#bytes.subarray(0, this.at)
  }

  #reserve(length: number): Buffer {
    const needed = this.at + length
    if (needed > this.#bytes.length) {
      const larger = Buffer.allocUnsafe(Math.max(needed, 2 * this.#bytes.length))
      this.#bytes.copy(larger, 0, 0, this.at)
      this.#bytes = larger
    }
    return this.#bytes
  }

  int8(value: number): void {
    this.#reserve(1).writeInt8(value, this.at)
    this.at += 1
  }

  int16(value: number): void {
    this.#reserve(2).writeInt16BE(value, this.at)
    this.at += 2
  }

  int32(value: number): void {
    this.#reserve(4).writeInt32BE(value, this.at)
    this.at += 4
  }

  int64(value: number): void {
    const bytes = this.#reserve(8)
    bytes.writeInt32BE(Math.floor(value / TWO_32), this.at)
    bytes.writeUInt32BE(value >= 0 ? value % TWO_32 : ((value % TWO_32) + TWO_32) % TWO_32, this.at + 4)
    this.at += 8
  }

  /** Overwrites four bytes that were written before. */
  setInt32(at: number, value: number): void {
    this.#bytes.writeInt32BE(value | 0, at)
  }

  /** Overwrites two bytes that were written before. */
  setInt16(at: number, value: number): void {
    this.#bytes.writeInt16BE(value, at)
  }

  /** Replaces all bytes from `start` on. */
  replaceFrom(start: number, bytes: Uint8Array): void {
    this.at = start
    this.#reserve(bytes.length).set(bytes, start)
    this.at += bytes.length
  }

  /** A zigzag-encoded integer of variable length. */
  varint(value: number): void {
    const bytes = this.#reserve(10)
    let rest = value >= 0 ? value * 2 : value * -2 - 1
    while (rest >= 0x80) {
      bytes[this.at++] = (rest % 0x80) | 0x80
      rest = Math.floor(rest / 0x80)
    }
    bytes[this.at++] = rest
  }

  /** Bytes, with a varint for their length before them. */
  varintBytes(value: Uint8Array): void {
    this.varint(value.length)
    this.#reserve(value.length).set(value, this.at)
    this.at += value.length
  }

  /** A text, with a varint for its length before it. */
  varintText(value: string): void {
    // A UTF-16 unit has at most three bytes in UTF-8.
    const bytes = this.#reserve(10 + 3 * value.length)
    const isShort = value.length < 0x40
    const start = this.at
    if (isShort) {
      const length = bytes.write(value, start + 1)
      if (length < 0x40) {
        bytes[start] = length * 2
        this.at = start + 1 + length
        return
      }
    }
    this.varint(Buffer.byteLength(value))
    this.at += bytes.write(value, this.at)
  }

  /** A text, with its length of 16 bits before it; `null` has the length -1. */
  string(value: string | null): void {
    if (value === null) return this.int16(-1)
    const bytes = this.#reserve(2 + 3 * value.length)
    const length = bytes.write(value, this.at + 2)
    bytes.writeInt16BE(length, this.at)
    this.at += 2 + length
  }

  /** Inserts a varint before the bytes from `start` on. `value` is not negative. */
  insertVarint(start: number, value: number): void {
    const end = this.at
    let length = 1
    for (let rest = value * 2; rest >= 0x80; rest = Math.floor(rest / 0x80)) length++
    this.#reserve(length).copyWithin(start + length, start, end)
    this.at = start
    this.varint(value)
    this.at = end + length
  }
}
