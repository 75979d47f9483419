/** `docs/hubctl.md`, the reference of the command line. */
import { referencePage } from '@hub/command-line'
import { hubctlCommand } from '../cli.ts'

/** The page before the commands. */
const INTRODUCTION = `# hubctl

The command line of the hub staff. \`npm run generate\` generates this page from the help of
the commands.

\`\`\`sh
npm start -- --detach      # a hub on your own machine
npx hubctl accounts list   # hubctl finds it
\`\`\`

**Selection of the hub.** If \`HUB_DATABASE_URL\` is set, hubctl uses the hub that the environment
describes, with the same variables as the apps ([configuration](configuration.md)). Otherwise it
uses the local hub: \`npm start\` writes its variables to \`.local/hubctl.env\` (\`HUB_DATA_DIR\`
changes the folder). hubctl prints on standard error which hub it uses. Help and completion need
no hub.

**Over the operations API.** With \`--api URL\`, or \`HUBCTL_API_URL\`, hubctl needs no settings of the
apps, only \`HUBCTL_API_TOKEN\`: a token of the identity provider. The roles of the token apply, and
the audit trail names its person. These commands work only with the servers, and the help of each
says why: \`config\`, \`migrations\`, \`topics\`, \`restore\`, \`projections rebuild\` and
\`cancel\`, and \`opt-outs import\`. hubctl works with an operations API of its version and of the previous one
([versions](versioning.md#hubctl-and-the-operations-api)).

**Output.** The result goes to standard output, as a table or, with \`--json\`, as one JSON
document. Everything else goes to standard error. A failure has a sentence and a code, with
\`--json\` as \`{"error": {"code", "message"}}\`. Exit codes: 0 success; 1 the hub refuses the
command, and a repeat fails again; 2 the command line is wrong; 3 a server does not answer, or
settings are missing.

**Confirmation.** A command that cannot be undone, or that affects all clients, asks for
confirmation on a terminal. Elsewhere, and with \`--json\`, it requires \`--yes\`.

**Audit trail.** Each command that changes something, or reads data of a person, is recorded in the
audit trail: time, actor (\`HUBCTL_ACTOR\`, or the user of the operating system), role (\`admin\`),
command, arguments and outcome. hubctl writes the record before it does anything; if that fails, it does
nothing. Records are never changed or deleted, and contain no phone number: a recipient is
identified by its hash.

**Phone numbers** are personal data. On a command line they become part of the shell history. With
\`-\` instead, hubctl reads the number from standard input.

**When a change takes effect.** Processes of the hub cache keys for three seconds, and settings,
usable templates and the limits of the hub for two seconds. They read opt-outs for each send. The
help of each command says what applies.

**Changes.** A command without this line changes nothing.

**Completion.** \`source <(npx hubctl completion bash)\`, or \`zsh\`, \`fish\`.
`

export const hubctlPage = referencePage(hubctlCommand, INTRODUCTION)
