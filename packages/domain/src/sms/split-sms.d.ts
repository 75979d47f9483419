/** Types of the part of `split-sms` that the tests use. The package has none. */
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
