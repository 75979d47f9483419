/** Verifies the signature of a webhook. Source: DEL-8, DEL-10. */
import { createHmac, timingSafeEqual } from 'node:crypto'

const TOLERANCE_SECONDS = 300

/** Returns null if the signature is valid, else the mistake. */
export const signatureMistake = (
  secret: string,
  header: string | undefined,
  body: Buffer,
  nowMs: number,
): string | null => {
  if (header === undefined) return 'no Hub-Signature header'
  const fields = header.split(',').map((field) => field.split('='))
  const time = fields.find(([name]) => name === 't')?.[1]
  if (time === undefined || !/^\d+$/u.test(time)) return 'no time in Hub-Signature'
  if (Math.abs(nowMs / 1000 - Number(time)) > TOLERANCE_SECONDS) return 'the time is outside of the tolerance'
  const expected = createHmac('sha256', secret).update(`${time}.`).update(body).digest()
  const isSigned = fields.some(([name, value = '']) => {
    const given = Buffer.from(value, 'hex')
    return name === 'v1' && given.length === expected.length && timingSafeEqual(given, expected)
  })
  return isSigned ? null : 'no v1 matches'
}
