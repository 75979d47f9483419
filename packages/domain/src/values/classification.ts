/** The mode and the traffic class of a message. Source: GEN-10, GEN-11. */

/** `live`: the real operator. `test`: the sandbox. The API key determines the mode. */
export const MODES = ['live', 'test'] as const
export type Mode = (typeof MODES)[number]

/** The traffic class. It affects lifetimes, limits and opt-outs. */
export const MESSAGE_CLASSES = ['otp', 'service'] as const
export type MessageClass = (typeof MESSAGE_CLASSES)[number]
