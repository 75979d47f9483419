/** Commands that destroy something, or change what many depend on, ask first: on a terminal by a question, elsewhere for `--yes`. */
import { Effect, Stdio } from 'effect'
import { Flag, GlobalFlag, Prompt } from 'effect/cli'
import { refused } from './failure.ts'
import { Json } from './output.ts'

/** `--yes`, on every command. */
export const Yes = GlobalFlag.Setting('yes')({
  flag: Flag.Boolean('yes').pipe(
    Flag.withAlias('y'),
    Flag.withDescription('Do not ask: yes to what a command would ask for'),
    Flag.withDefault(false),
  ),
})

/**
 * Goes on when `--yes` was given or a person at a terminal says so; else fails, and nothing was changed. The question says what will be gone.
 * With `--json` nobody is asked: the question would stand in the document.
 */
export const confirm = Effect.fnUntraced(function* (question: string) {
  if (yield* Yes) return
  const stdio = yield* Stdio.Stdio
  const isTerminal = (yield* stdio.stdinIsTerminal) && (yield* stdio.stdoutIsTerminal)
  if (!isTerminal || (yield* Json)) {
    return yield* refused('confirmation_required', `${question} Nobody is here to be asked: give --yes.`)
  }
  const agreed = yield* Prompt.run(Prompt.Confirm({ message: question, initial: false }))
  if (!agreed) return yield* refused('not_confirmed', 'Nothing was changed.')
})
