/** `hubctl hash`: the recipient hash of a phone number, by which topics and tables name it. */
import { NOTHING, show } from '@hub/command-line'
import { Effect } from 'effect'
import { hashNumberArgument, numberArgument } from '../command-line/arguments.ts'
import { defineCommand } from '../command-line/command.ts'
import { settingsOfHub } from '../command-line/connections.ts'

export const hash = defineCommand(
  'hash',
  {
    short: 'Print the recipient hash of a phone number',
    about:
      'Prints the hash by which topics, tables and events of this hub name a recipient. It needs ' +
      'HUB_NUMBER_HASH_SECRET and no server, or --api.',
    changes: NOTHING,
    examples: [
      { command: 'hubctl hash -', description: 'Type the number, then Ctrl-D' },
      { command: 'hubctl hash +79001234567' },
    ],
    needs: settingsOfHub,
  },
  { number: numberArgument },
  Effect.fnUntraced(function* ({ number }) {
    const recipient = yield* hashNumberArgument(number)
    yield* show({ object: 'recipient', hash: recipient }, () => recipient)
  }),
)
