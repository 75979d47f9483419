/**
 * The command line of the local hub: `start`, `start --detach`, `stop` and `login`. `npm start`, `npm
 * stop` and `npm run login` run this program after they have installed missing packages.
 */
import { spawn } from 'node:child_process'
import { closeSync, existsSync } from 'node:fs'
import { join, relative } from 'node:path'
import { printable } from '@hub/text'
import { loginLink } from './apps.ts'
import { refuseIfRunning, stopProcessesOf } from './data-dir-lock.ts'
import { type Hub, type HubDescription, hubFile, startHub } from './hub.ts'
import { withLocalReceivers } from './local-receivers.ts'
import { UserError } from './user-error.ts'
import { openLog, tail } from './processes.ts'
import { ensureSecrets } from './secrets.ts'
import { readSettings, ROOT, type Settings } from './settings.ts'
import { logDir, prepareDataDir } from './stack.ts'
import { watchLogs } from './watch.ts'

const USAGE = `Usage: npm start                run the hub here, until Ctrl-C
       npm start -- --detach    run it in the background; returns when it is ready
       npm stop                 stop it
       npm run login            print a new login link of the console
       npm run login -- --role support    the same, with only this role`

/** Shows the cause of a failure and still fits on a screen. */
const TAIL_LINES = 20

/** Apps stop within 30 s, servers within 30 s. The rest is for loaded machines. */
const STOP_WITHIN_MS = 80_000

/** A message from the background process to the process that waits for it. */
interface Message {
  readonly kind: 'line' | 'ready' | 'failed'
  readonly text: string
}

/** The logs contain text of clients and operators. */
const print = (text: string): void => console.log(printable(text))

/** The path relative to the current folder, if it is below that folder. */
const short = (path: string): string => {
  const from = relative(process.cwd(), path)
  return from.startsWith('..') ? path : from
}

/** A word of a shell command: quoted if it has characters with a meaning. */
const quoted = (word: string): string =>
  /^[\w./@%+=:,-]+$/u.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`

/** A command for this hub. The command lines use the default data folder without HUB_DATA_DIR. */
const commandFor = ({ dataDir }: Settings, command: string): string =>
  dataDir === join(ROOT, '.local') ? command : `HUB_DATA_DIR=${quoted(short(dataDir))} ${command}`

const consoleLines = ({ console_login_url: link, console_url: url }: HubDescription): string =>
  url === undefined || link === undefined
    ? ''
    : `
The console of hub staff is at ${url}. To sign in, open this link, which works once (npm run login prints another one):

${link}
`

const welcome = (settings: Settings, hub: HubDescription, ending: string): string => {
  const running = Object.keys(hub.pids).filter((name) => name !== 'supervisor')
  const authorization = `-H 'Authorization: Bearer ${hub.keys.test}'`
  return `
All processes run: ${new Intl.ListFormat('en-GB').format(running)}.

The hub is ready at ${hub.base_url} (reference: ${hub.base_url}/docs). ${ending}
Test key: ${hub.keys.test}
All keys and addresses: ${short(hubFile(settings.dataDir))}   Logs: ${short(logDir(settings.dataDir))}

To send a message, which is delivered within seconds, and to see its events:
${commandFor(settings, 'npx hub send --to +79000000001 --template otp_code -v code=1234 --wait')}
${commandFor(settings, 'npx hub events tail --after start')}
To receive webhooks, with an example receiver or with your own:
${commandFor(settings, 'npm run receiver')}
${commandFor(settings, 'npx hub listen --forward-to http://localhost:3000/hooks/sms')}
To send with any HTTP client, and to list the events of the account:
curl -s ${hub.base_url}/v1/messages ${authorization} -H 'Content-Type: application/json' -d '{"to":"+79000000001","class":"otp","template":"otp_code","variables":{"code":"1234"}}'
curl -s ${hub.base_url}/v1/events ${authorization}
${consoleLines(hub)}
To diagnose problems:  ${commandFor(settings, 'npx hubctl doctor')}`
}

const explain = (error: unknown): string => {
  if (!(error instanceof UserError)) {
    return error instanceof Error ? (error.stack ?? error.message) : String(error)
  }
  const lines = error.log === undefined ? [] : tail(error.log, TAIL_LINES)
  return lines.length === 0
    ? error.message
    : `${error.message} The end of ${short(error.log ?? '')}:\n${lines.map((line) => `  ${line.slice(0, 400)}`).join('\n')}`
}

/** Runs a hub in this process until a signal. */
const run = async (
  settings: Settings,
  out: { readonly line: (text: string) => void; readonly ready: (hub: Hub) => void },
  endsWithParent: boolean,
): Promise<void> => {
  const ending = new AbortController()
  const stopRequested = new Promise<void>((resolve) =>
    ending.signal.addEventListener('abort', () => resolve()),
  )
  const end = (): void => {
    // Ignores repeated signals.
    if (ending.signal.aborted) return
    out.line('Stopping the hub …')
    ending.abort()
  }
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, end)
  if (endsWithParent && process.connected) {
    process.once('disconnect', end)
    process.channel?.unref()
  }
  // After an unhandled error, the supervisor must stop its processes before it exits.
  const failed = (error: unknown): void => {
    out.line(explain(error))
    process.exitCode = 1
    end()
  }
  process.on('uncaughtException', failed)
  process.on('unhandledRejection', failed)
  prepareDataDir(settings.dataDir)
  const hub = await startHub({
    settings,
    environment: await withLocalReceivers(settings.dataDir, process.env),
    report: out.line,
    restart: true,
    operations: true,
    signal: ending.signal,
  })
  const unwatch = watchLogs(
    hub.services.filter((service) => !hub.stack.services.includes(service)),
    out.line,
  )
  if (!ending.signal.aborted) out.ready(hub)
  await stopRequested
  unwatch()
  await hub.stop()
  out.line('The hub has stopped.')
}

const startHere = async (settings: Settings): Promise<void> =>
  run(
    settings,
    {
      line: (text) => print(text),
      ready: (hub) => print(welcome(settings, hub.describe(), 'Ctrl-C ends it.')),
    },
    true,
  )

/** The background process. It writes to its log and sends its lines to the process that waits. */
const superviseDetached = async (settings: Settings): Promise<void> => {
  const notifyParent = (message: Message): void => {
    // Ignores errors, because the parent may have ended.
    if (process.connected) process.send?.(message, undefined, undefined, () => {})
  }
  try {
    await run(
      settings,
      {
        line: (text) => {
          print(`${new Date().toISOString()} ${text}`)
          notifyParent({ kind: 'line', text })
        },
        ready: (hub) =>
          notifyParent({ kind: 'ready', text: welcome(settings, hub.describe(), '`npm stop` ends it.') }),
      },
      false,
    )
  } catch (error) {
    print(explain(error))
    notifyParent({ kind: 'failed', text: explain(error) })
    process.exitCode = 1
  }
  if (process.connected) process.disconnect()
}

/** Starts the background process and waits until it is ready or has failed. */
const startDetached = async (settings: Settings): Promise<void> => {
  prepareDataDir(settings.dataDir)
  // Checked before the log is opened, because a running hub writes to it.
  await refuseIfRunning(settings.dataDir)
  const log = join(logDir(settings.dataDir), 'hub.log')
  const out = openLog(log, 'w')
  const child = spawn(process.execPath, [import.meta.filename, 'supervise'], {
    detached: true,
    stdio: ['ignore', out, out, 'ipc'],
  })
  closeSync(out)
  const forward = (): void => void child.kill('SIGTERM')
  process.on('SIGINT', forward)
  process.on('SIGTERM', forward)
  let hasResult = false
  child.on('message', (message: Message) => {
    print(message.text)
    if (message.kind === 'line') return
    hasResult = true
    if (message.kind === 'failed') process.exitCode = 1
    else {
      child.disconnect()
      child.unref()
      process.removeListener('SIGINT', forward)
      process.removeListener('SIGTERM', forward)
    }
  })
  child.once('exit', (code) => {
    process.exitCode = code === 0 ? process.exitCode : 1
    if (!hasResult) {
      process.exitCode = 1
      print(`The hub did not start. The end of ${short(log)}:\n${tail(log, TAIL_LINES).join('\n')}`)
    }
  })
}

const stop = async (settings: Settings): Promise<void> => {
  const ended = existsSync(settings.dataDir) ? await stopProcessesOf(settings.dataDir, STOP_WITHIN_MS) : []
  print(
    ended.length === 0
      ? `No hub runs on ${short(settings.dataDir) || '.'}.`
      : `The hub on ${short(settings.dataDir)} has ended.`,
  )
}

/** A mistyped name often explains why the settings are invalid. A start with valid settings reports it, too. */
const readSettingsOrExplain = async (): Promise<Settings> => {
  try {
    return readSettings(process.env)
  } catch (error) {
    const { describeUnknown, unknownVariables } = await import('@hub/config')
    for (const variable of unknownVariables(Object.keys(process.env))) print(describeUnknown(variable))
    throw error
  }
}

/** The roles of people. operations-api ignores others. */
const ROLES = ['member', 'viewer', 'support', 'moderator', 'operator', 'admin']

/** Prints a login link for the running hub. */
const login = ({ dataDir, ports }: Settings, flags: ReadonlyArray<string>): void => {
  const [flag, role = 'admin', ...others] = flags
  if ((flag !== undefined && flag !== '--role') || !ROLES.includes(role) || others.length > 0) {
    throw new UserError(`The roles are ${ROLES.join(', ')}.\n${USAGE}`)
  }
  if (!existsSync(hubFile(dataDir)))
    throw new UserError(`No hub runs on ${short(dataDir) || '.'}. Run npm start.`)
  print(loginLink({ ports, secrets: ensureSecrets(dataDir) }, { name: `developer-${role}`, roles: [role] }))
}

const main = async (args: ReadonlyArray<string>): Promise<void> => {
  const [command, ...flags] = args
  if (command === 'login') return login(readSettings(process.env), flags)
  const known = new Set(command === 'start' ? ['--detach'] : [])
  const unknown = flags.find((flag) => !known.has(flag))
  if (unknown !== undefined) throw new UserError(`${unknown} is not known.\n${USAGE}`)
  const settings = await readSettingsOrExplain()
  switch (command) {
    case 'start':
      return flags.includes('--detach') ? startDetached(settings) : startHere(settings)
    case 'supervise':
      return superviseDetached(settings)
    case 'stop':
      return stop(settings)
    default:
      throw new UserError(USAGE)
  }
}

// The reader of the output may end (`npm start | head`). This must not end the supervisor.
process.stdout.on('error', () => {})
process.stderr.on('error', () => {})

main(process.argv.slice(2)).catch((error: unknown) => {
  console.error(printable(explain(error)))
  process.exitCode = 1
})
