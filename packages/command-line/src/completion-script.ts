/**
 * The completion scripts of the library, changed so that a shell can read them with `source`, in
 * every mode and before its completion system is loaded.
 */
import { Completions } from 'effect/cli'

export const SHELLS = ['bash', 'zsh', 'fish'] as const
export type Shell = (typeof SHELLS)[number]

/** The comments of the library name a flag that the programs do not have. */
const correctComments = (script: string, program: string, shell: Shell): string =>
  script.replaceAll(`${program} --completions ${shell}`, `${program} completion ${shell}`)

/** In POSIX mode, bash ends at a function whose name has a hyphen. */
const withValidNames = (script: string, program: string): string =>
  script.replaceAll(new RegExp(`\\b_${program}-[\\w-]*`, 'gu'), (name) => name.replaceAll('-', '_'))

/** `compdef` exists only after `compinit`, which a plain `.zshrc` does not call. */
const withCompdef = (script: string, program: string): string =>
  script.replace(
    `###-begin-${program}-completions-###`,
    `###-begin-${program}-completions-###\n(( \${+functions[compdef]} )) || { autoload -Uz compinit && compinit }`,
  )

export const completionScript = (
  program: string,
  shell: Shell,
  command: Completions.CommandDescriptor,
): string => {
  const script = correctComments(Completions.generate(program, shell, command), program, shell)
  switch (shell) {
    case 'bash':
      return withValidNames(script, program)
    case 'zsh':
      return withCompdef(script, program)
    case 'fish':
      return script
  }
}
