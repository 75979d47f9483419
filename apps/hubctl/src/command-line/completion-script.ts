/**
 * The completion scripts of the library, changed so that a shell can read them with `source`, in
 * every mode and before its completion system is loaded.
 */
import { Completions } from 'effect/cli'

export const SHELLS = ['bash', 'zsh', 'fish'] as const
export type Shell = (typeof SHELLS)[number]

/** The comments of the library name a flag that hubctl does not have. */
const correctComments = (script: string, shell: Shell): string =>
  script.replaceAll(`hubctl --completions ${shell}`, `hubctl completion ${shell}`)

/** In POSIX mode, bash ends at a function whose name has a hyphen. */
const withValidNames = (script: string): string =>
  script.replaceAll(/\b_hubctl-[\w-]*/gu, (name) => name.replaceAll('-', '_'))

/** `compdef` exists only after `compinit`, which a plain `.zshrc` does not call. */
const withCompdef = (script: string): string =>
  script.replace(
    '###-begin-hubctl-completions-###',
    '###-begin-hubctl-completions-###\n(( ${+functions[compdef]} )) || { autoload -Uz compinit && compinit }',
  )

export const completionScript = (shell: Shell, command: Completions.CommandDescriptor): string => {
  const script = correctComments(Completions.generate('hubctl', shell, command), shell)
  switch (shell) {
    case 'bash':
      return withValidNames(script)
    case 'zsh':
      return withCompdef(script)
    case 'fish':
      return script
  }
}
