/** What the command lines of the programs in `test/` have in common. */
import { parseArgs, type ParseArgsConfig } from 'node:util'

/** The user made a mistake. The message says which one. */
export class WrongOptions extends Error {}

/** The values of the options. Throws `WrongOptions`. */
export const parseOptions = <const Options extends NonNullable<ParseArgsConfig['options']>>(
  args: ReadonlyArray<string>,
  options: Options,
) => {
  try {
    return parseArgs({ args: [...args], options }).values
  } catch (error) {
    const [sentence = ''] = (error instanceof Error ? error.message : String(error)).split('\n')
    throw new WrongOptions(sentence.endsWith('.') ? sentence : `${sentence}.`)
  }
}

/** The value of a whole number. Throws `WrongOptions`. */
export const wholeNumber = (option: string, text: string, least: number, most?: number): number => {
  const number = /^\d+$/u.test(text) ? Number(text) : Number.NaN
  if (Number.isSafeInteger(number) && number >= least && number <= (most ?? Infinity)) return number
  const range = most === undefined ? `${least} on` : `${least} to ${most}`
  throw new WrongOptions(`--${option} must be a whole number from ${range}, not "${text}".`)
}

/** The one of the names that was given. `what`: one of them, as in "fault". Throws `WrongOptions`. */
export const oneOf = <A extends string>(what: string, given: string, names: ReadonlyArray<A>): A => {
  const found = names.find((name) => name === given)
  if (found !== undefined) return found
  throw new WrongOptions(`"${given}" is not a ${what}. The ${what}s are ${names.join(', ')}.`)
}
