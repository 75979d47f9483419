/** The changes of an account's settings that a form asks for. Pure. */

/** Amounts stay text: a float would change them. */
const AMOUNTS: ReadonlySet<string> = new Set(['spend_limit', 'price_otp', 'price_service'])

interface ModeSettings {
  readonly mode: string
  readonly in_force: Readonly<Record<string, number | string | null>>
  readonly overridden: ReadonlyArray<string>
}

/** The settings that can be changed in a mode. Test keys cost nothing, so they have no spend limit. */
export const settingNames = ({ in_force, mode }: ModeSettings): ReadonlyArray<string> =>
  Object.keys(in_force).filter((name) => mode === 'live' || name !== 'spend_limit')

export const isAmount = (name: string): boolean => AMOUNTS.has(name)

/** The text of a field at first. Empty: the default is in force. */
export const fieldText = ({ in_force, overridden }: ModeSettings, name: string): string =>
  overridden.includes(name) ? String(in_force[name] ?? '') : ''

const valueOf = (name: string, text: string): number | string => {
  if (!isAmount(name)) return Number(text)
  return text.includes('.') ? text : `${text}.00`
}

/** The fields that differ from the settings. An emptied field restores the default (`null`). */
export const settingChanges = (
  settings: ModeSettings,
  textOf: (name: string) => string,
): Readonly<Record<string, number | string | null>> =>
  Object.fromEntries(
    settingNames(settings).flatMap((name): ReadonlyArray<[string, number | string | null]> => {
      const text = textOf(name).trim()
      if (text === fieldText(settings, name)) return []
      return [[name, text === '' ? null : valueOf(name, text)]]
    }),
  )
