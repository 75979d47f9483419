/** Words that every aggregate uses. */

/** The sandbox (`test`) or the real operator (`live`); derived from the API key. */
export const MODES = ['live', 'test'] as const
export type Mode = (typeof MODES)[number]

/** Traffic class. It affects lifetime, limits and opt-outs. */
export const MESSAGE_CLASSES = ['otp', 'service'] as const
export type MessageClass = (typeof MESSAGE_CLASSES)[number]

/** A string decimal with two fraction digits, and its currency; never a float. */
export interface Money {
  readonly amount: string
  readonly currency: string
}
