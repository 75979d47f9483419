/** What the tests use of `split-sms`, which ships no types. */
declare module 'split-sms' {
  export function split(message: string): {
    readonly characterSet: 'GSM' | 'Unicode'
    readonly parts: ReadonlyArray<{
      readonly content: string
      readonly length: number
      readonly bytes: number
    }>
    readonly bytes: number
  }
}
