/**
 * Asks before a command does what cannot be undone: with a prompt on a terminal, otherwise by
 * requiring `--yes`.
 */
import { onOneLine } from '@hub/text'
import { Effect, Stdio } from 'effect'
import { Flag, GlobalFlag, Prompt } from 'effect/cli'
import { refused } from './failure.ts'
import { Json } from './output.ts'

/** `--yes`, a flag of every command. */
export const Yes = GlobalFlag.Setting('yes')({
  flag: Flag.Boolean('yes').pipe(
    Flag.withAlias('y'),
    Flag.withDescription('Confirm without a prompt'),
    Flag.withDefault(false),
  ),
})

/** Whether a person can answer a prompt. */
export const isOnTerminal = Effect.gen(function* () {
  const stdio = yield* Stdio.Stdio
  return (yield* stdio.stdinIsTerminal) && (yield* stdio.stdoutIsTerminal)
})

/**
 * Fails unless `--yes` is given or a person confirms the question on a terminal. With `--json`
 * there is no prompt, because the prompt would be part of the document.
 */
export const confirm = Effect.fnUntraced(function* (question: string) {
  if (yield* Yes) return
  if (!(yield* isOnTerminal) || (yield* Json)) {
    return yield* refused('confirmation_required', `${question} Confirm with --yes.`)
  }
  const confirmed = yield* Prompt.run(Prompt.Confirm({ message: onOneLine(question), initial: false }))
  if (!confirmed) return yield* refused('not_confirmed', 'Nothing was changed.')
})
