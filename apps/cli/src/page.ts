/** `docs/hub.md`, the reference of the command line. */
import { referencePage } from '@hub/command-line'
import { hubCommand } from './cli.ts'

/** The page before the commands. */
const INTRODUCTION = `# hub

The command line for services that send messages through the hub. \`npm run generate\` generates this page
from the help of the commands. [hubctl](hubctl.md) is the command line of the hub staff.

\`\`\`sh
npx hub --help                          # inside the repository
# elsewhere: pack it in the repository, and install the file
node scripts/run.mjs apps/cli/scripts/build.ts && npm pack ./apps/cli/dist
npm install --global ./sms-delivery-hub-cli-*.tgz && hub --help
\`\`\`

**Selection of the hub.** The variables \`HUB_URL\` and \`HUB_KEY\`, if they are set. Otherwise the
address and the keys of \`hub login\`. Otherwise the local hub: \`npm start\` writes \`.local/hub.json\`, and
the command finds it in the current folder and those above it (\`HUB_DATA_DIR\` names another data folder).
The command prints on standard error which hub it uses.

**Mode.** Without \`--live\`, each command uses the test key: no phone is reached, and nothing is charged.

**Output.** The result goes to standard output, as text or, with \`--json\`, as one JSON document. Commands
that do not end by themselves print one JSON document on each line. Everything else goes to standard error.
A failure has one sentence and a code, with \`--json\` as \`{"error": {"code", "message"}}\`. Exit codes: 0
success; 1 refused, and a repeat fails again; 2 the command line is wrong; 3 the hub does not answer or is
overloaded, and a repeat may succeed; 130 Ctrl-C.

**Confirmation.** \`hub send --csv\`, and \`hub templates push --live\`, ask on a terminal. Elsewhere, and
with \`--json\`, they require \`--yes\`.

**Phone numbers** appear in no message of the program and not in the result file. A line and a column
identify a cell.

**Changes.** A command without this line changes nothing.

**Completion.** \`source <(npx hub completion bash)\`, or \`zsh\`, \`fish\`.
`

export const hubPage = referencePage(hubCommand, INTRODUCTION)
