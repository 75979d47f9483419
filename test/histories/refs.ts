/** The references of a run: each identifies what a client wants to send once. */

/** `r` and seven digits. The text of the message contains it. */
export const refOf = (index: number): string => `r${String(index).padStart(7, '0')}`

export const refIn = (text: string): string | null => /r\d{7}/u.exec(text)?.[0] ?? null
