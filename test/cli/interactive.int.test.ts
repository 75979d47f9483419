/** What a person sees of `hub`: colors and progress on a terminal, the lines of `hub listen`, and Ctrl-C. */
import type { ChildProcess } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { ROOT } from '@hub/local-stack'
import { eventually } from '@hub/testkit'
import { readEvents, WebhookSignatureError } from '@sms-delivery-hub/client'
import { Webhook } from 'standardwebhooks'
import { afterEach, describe, expect, it, type TestContext } from 'vitest'
import { orSkip } from '../support/external-tools.ts'
import { type HubCommand, lastResultRow, newConfigFolder, startHubCommand } from '../support/hub-command.ts'
import { findTerminal, type TerminalProgram } from '../support/terminal.ts'
import { type LocalReceiver, startLocalReceiver } from './local-receiver.ts'
import { type Options, type ScriptedHub, startScriptedHub } from './scripted-hub.ts'

const HUB = [process.execPath, join(ROOT, 'apps/cli/src/main.ts')]
const ESCAPE = '\u001b'
const CTRL_C = '\u0003'
/** A command starts in a second. The rest is for a busy machine. */
/** No receiver listens there. */
const NOBODY = 'http://127.0.0.1:9/'

const servers: Array<ScriptedHub | LocalReceiver> = []
const children: Array<ChildProcess> = []
afterEach(async () => {
  for (const child of children.splice(0)) child.kill('SIGKILL')
  for (const server of servers.splice(0)) await server.stop()
})

const startHub = async (options?: Options): Promise<ScriptedHub> => {
  const hub = await startScriptedHub(options)
  servers.push(hub)
  return hub
}

const startReceiver = async (answer: Parameters<typeof startLocalReceiver>[0]): Promise<LocalReceiver> => {
  const receiver = await startLocalReceiver(answer)
  servers.push(receiver)
  return receiver
}

const start = (hub: ScriptedHub, args: ReadonlyArray<string>, config = newConfigFolder()): HubCommand => {
  const command = startHubCommand(hub, config, args)
  children.push(command.child)
  return command
}

/** Starts a program on a terminal. Skips the test if this machine has none. */
const startOnTerminal = async (
  context: TestContext,
  command: ReadonlyArray<string>,
  environment: Readonly<Record<string, string>>,
): Promise<TerminalProgram> => {
  const terminal = await orSkip(context, findTerminal())
  const program = terminal.start(command, {
    HUB_URL: '',
    HUB_KEY: '',
    XDG_CONFIG_HOME: newConfigFolder(),
    TERM: 'xterm',
    NO_COLOR: '',
    FORCE_COLOR: '',
    ...environment,
  })
  children.push(program.child)
  return program
}

/** The words that send a CSV file with two rows, which are two batches of the scripted hub. */
const sendCsv = (hub: ScriptedHub): ReadonlyArray<string> => {
  const file = join(hub.dataDir, 'people.csv')
  writeFileSync(file, 'to,order\n+79000000001,A-1\n+79000000001,A-2\n')
  return ['send', '--csv', file, '--template', 'order_ready']
}

describe('colors', () => {
  it.for([
    ['are shown on a terminal', {}, true],
    ['are not shown with NO_COLOR', { NO_COLOR: '1' }, false],
    ['are not shown on a terminal without them', { TERM: 'dumb' }, false],
  ] as const)('%s', async ([, environment, areShown], context) => {
    const program = await startOnTerminal(context, [...HUB, '--help'], environment)
    expect(await program.ended).toBe(0)
    expect(program.shown()).toContain('Send one message')
    expect(program.shown().includes(ESCAPE)).toBe(areShown)
  })

  it('are not shown in a pipe', async () => {
    const help = start(await startHub(), ['--help'])
    expect(await help.ended).toBe(0)
    expect(help.out()).toContain('Send one message')
    expect(help.out()).not.toContain(ESCAPE)
  })
})

describe('the progress of hub send --csv', () => {
  /** Longer than the time between two changes of the line, so that each answer changes it. */
  const batchMs = 300

  it('is a line that changes, if standard error is a terminal', async (context) => {
    const hub = await startHub({ batchMs })
    const program = await startOnTerminal(context, [...HUB, ...sendCsv(hub), '--yes'], {
      HUB_DATA_DIR: hub.dataDir,
    })
    expect(await program.ended, program.shown()).toBe(0)
    expect(program.shown()).toContain('\r[')
    expect(program.shown()).toContain('of 3 lines')
  })

  it('writes no control characters into a file, also if standard output is a terminal', async (context) => {
    const hub = await startHub({ batchMs })
    const file = join(hub.dataDir, 'notes.txt')
    const shell = ['sh', '-c', 'file=$1; shift; exec "$@" 2>"$file"', 'sh', file]
    const program = await startOnTerminal(context, [...shell, ...HUB, ...sendCsv(hub), '--yes'], {
      HUB_DATA_DIR: hub.dataDir,
    })
    expect(await program.ended, program.shown()).toBe(0)
    const notes = readFileSync(file, 'utf8')
    expect(notes).toContain(hub.url)
    expect(notes.includes('\r') || notes.includes(ESCAPE)).toBe(false)
  })
})

describe('hub send --csv', () => {
  // The contract: without a counter, a service message is refused, and the refusal names no window.
  it('stops at a row whose flood windows cannot be checked, and continues there', async () => {
    const hub = await startHub({ unchecked: 'A-2' })
    const config = newConfigFolder()
    const words = [...sendCsv(hub), '--yes']
    const results = join(hub.dataDir, 'people.result.csv')

    const stopped = start(hub, words, config)
    expect(await stopped.ended, stopped.err()).toBe(3)
    expect(stopped.err()).toContain('Stopped at line 3: ')
    expect(stopped.err()).toContain('Start the same command again to continue.')
    expect(readFileSync(results, 'utf8')).not.toContain('rejected')
    expect(await lastResultRow(results)).toBe(1)

    hub.release()
    const continued = start(hub, words, config)
    expect(await continued.ended, continued.err()).toBe(0)
    expect(await lastResultRow(results)).toBe(2)
    expect(hub.orders()).toEqual(['A-1', 'A-2', 'A-2'])
  })
})

describe('hub listen', () => {
  it('shows the secret, each delivery, and what to do if the receiver is away or refuses', async () => {
    const hub = await startHub()
    let secret = ''
    let status = 204
    const receiver = await startReceiver(async ({ body, headers, signature }) => {
      try {
        await readEvents(body, signature, secret)
        new Webhook(secret).verify(body, headers as Record<string, string>)
        return status
      } catch (error) {
        if (!(error instanceof WebhookSignatureError)) throw error
        return 400
      }
    })
    const listening = start(hub, ['listen', '--forward-to', receiver.url])
    const shows = (text: string) => eventually(() => listening.out().includes(text))
    const says = (text: string) => eventually(() => listening.err().includes(text))
    await shows('Ctrl-C ends it.\n')
    expect(listening.out()).toContain(`Passing new events on to ${receiver.url}.`)

    // The receiver has another secret.
    secret = 'whsec_other'
    const first = hub.record('message.accepted')
    await shows('ms  message.accepted\n')
    expect(listening.out()).toMatch(/^\S+Z {2}400 in \d+ ms {2}message\.accepted$/mu)
    await says('If it refuses the signature: does it have the secret above, and verify the raw body?')
    await says(`start it with --after and the event before ${first}.`)

    // It has the secret that the command showed.
    secret = /^Secret: (?<secret>whsec_\S+)$/mu.exec(listening.out())?.groups?.['secret'] ?? ''
    const second = hub.record('message.sent')
    await shows('ms  message.sent\n')
    expect(listening.out()).toMatch(/^\S+Z {2}204 in \d+ ms {2}message\.sent$/mu)

    status = 500
    hub.record('message.delivered')
    await shows('ms  message.delivered\n')
    await says('The receiver answered 500, and not 2xx.')
    await says(`To get them again, start it with --after ${second}.`)
    hub.record('message.expired')
    await shows('ms  message.expired\n')

    await receiver.stop()
    hub.record('message.seen')
    await says(`${receiver.url} cannot be reached (ECONNREFUSED). Waiting for it …`)
    status = 204
    await receiver.start()
    await shows('ms  message.seen\n')
    // The advice about 500 was given once, and names no signature.
    expect(listening.err().match(/The receiver answered/gu)).toHaveLength(2)
    expect(listening.err().match(/refuses the signature/gu)).toHaveLength(1)
  })

  it('says when the hub does not answer, and continues when it answers again', async () => {
    const hub = await startHub()
    const receiver = await startReceiver(() => 204)
    const listening = start(hub, ['listen', '--forward-to', receiver.url])
    await eventually(() => listening.out().includes('Ctrl-C ends it.'))
    await hub.stop()
    await eventually(() => listening.err().includes('The hub does not answer. Waiting for it …'))
    await hub.start()
    await eventually(() => listening.err().includes('The hub answers again.'))
    hub.record('message.sent')
    await eventually(() => receiver.bodies.length === 1)
  })

  it('posts each type to the address of its route, with the same secret', async () => {
    const hub = await startHub()
    const general = await startReceiver(() => 204)
    const delivered = await startReceiver(() => 500)
    const route = ['--route', `message.delivered=${delivered.url}`]
    const config = newConfigFolder()
    const listening = start(hub, ['listen', '--forward-to', general.url, ...route, '--json'], config)
    await eventually(() => listening.out().includes('\n'))
    const listed = JSON.parse(listening.out().split('\n')[0] ?? '')
    expect(listed).toMatchObject({
      forward_to: general.url,
      routes: { 'message.delivered': delivered.url },
    })
    const types = ['message.sent', 'message.delivered', 'message.expired']
    for (const type of types) hub.record(type)
    await eventually(() => general.bodies.length >= 1 && delivered.bodies.length >= 1)
    const typesAt = async ({ bodies }: LocalReceiver): Promise<ReadonlyArray<string>> => {
      const events = bodies.map(({ body, signature }) => readEvents(body, signature, listed.secret))
      return (await Promise.all(events)).flat().map(({ type }) => type)
    }
    await eventually(async () => (await typesAt(general)).length === 2)
    expect(await typesAt(general)).toEqual(['message.sent', 'message.expired'])
    expect(await typesAt(delivered)).toEqual(['message.delivered'])
    await eventually(() => listening.err().includes('The receiver answered 500'))
    listening.child.kill('SIGINT')
    await listening.ended

    // Only routes: other types are not asked for.
    const only = start(hub, ['listen', ...route], config)
    await eventually(() => only.out().includes(`Passing new events on to ${delivered.url}.`))
    for (const words of [[], ['--type', 'message.sent', ...route], ['--route', 'message.sent=nowhere']]) {
      expect(await start(hub, ['listen', ...words], config).ended).toBe(2)
    }
  })

  it('does not remember a position that the hub does not know', async () => {
    const hub = await startHub()
    const config = newConfigFolder()
    const words = ['listen', '--forward-to', NOBODY]
    const wrong = start(hub, [...words, '--after', 'evt_unknown'], config)
    expect(await wrong.ended).toBe(1)
    expect(wrong.err()).toContain('(event_not_found)')
    const next = start(hub, words, config)
    await eventually(() => next.out().includes('Passing new events on'))
  })
})

describe('Ctrl-C', () => {
  const one = ['send', '--template', 'order_ready', '--to', '+79000000001', '-v', 'order=A-1']

  it.each<{
    readonly name: string
    readonly words: (hub: ScriptedHub) => ReadonlyArray<string>
    /** The request after which it is stopped. */
    readonly at: string
    /** Whether it still waits for the answer then. */
    readonly isHeld: boolean
    /** What the person reads. */
    readonly note: string
  }>([
    {
      name: 'hub send before the answer',
      words: () => one,
      at: 'POST /v1/messages',
      isHeld: true,
      note: 'It may have accepted the message: hub messages list',
    },
    {
      name: 'hub send --wait',
      words: () => [...one, '--wait'],
      at: 'GET /v1/messages/msg_1',
      isHeld: true,
      note: 'The hub has accepted the message: hub messages get msg_1',
    },
    {
      name: 'hub send --csv during the check',
      words: (hub) => [...sendCsv(hub), '--yes'],
      at: 'POST /v1/messages/estimate',
      isHeld: true,
      note: 'Stopped while the file was checked: nothing was sent.',
    },
    {
      name: 'hub send --csv during a batch',
      words: (hub) => [...sendCsv(hub), '--yes'],
      at: 'POST /v1/messages/batch',
      isHeld: true,
      note: 'Start the same command again to continue: nothing is sent twice.',
    },
    {
      name: 'hub events tail',
      words: () => ['events', 'tail'],
      at: 'GET /v1/events',
      isHeld: false,
      note: 'Ctrl-C ends it.',
    },
    {
      name: 'hub trigger',
      words: () => ['trigger', 'message.delivered'],
      at: 'GET /v1/events',
      isHeld: false,
      note: 'Hub: ',
    },
    {
      name: 'hub doctor',
      words: () => ['doctor'],
      at: 'POST /v1/webhook_endpoints/we_1/test',
      isHeld: true,
      note: 'Hub: ',
    },
  ])('ends $name with exit code 130, and without a failure', async ({ at, isHeld, note, words }) => {
    const hub = await startHub(isHeld ? { held: at } : {})
    const command = start(hub, words(hub))
    await hub.arrived(at)
    command.child.kill('SIGINT')
    expect(await command.ended, command.err()).toBe(130)
    expect(command.err()).toContain(note)
    expect(command.err()).not.toMatch(/^hub: /mu)
  })

  it.each([
    ['waits for events', null],
    ['waits for the receiver', 'message.sent'],
  ])('ends hub listen that %s with exit code 130', async (_name, event) => {
    const hub = await startHub()
    const command = start(hub, ['listen', '--forward-to', NOBODY])
    await eventually(() => command.out().includes('Ctrl-C ends it.'))
    if (event !== null) {
      hub.record(event)
      await eventually(() => command.err().includes('cannot be reached'))
    }
    command.child.kill('SIGINT')
    expect(await command.ended).toBe(130)
    expect(command.err()).toContain('The next start continues after the last event that was passed on.')
    expect(command.err()).not.toMatch(/^hub: /mu)
  })

  it('ends a question with exit code 130, and sends nothing', async (context) => {
    const hub = await startHub()
    const program = await startOnTerminal(context, [...HUB, ...sendCsv(hub)], { HUB_DATA_DIR: hub.dataDir })
    await eventually(() => program.shown().includes('which costs nothing?'))
    program.type(CTRL_C)
    expect(await program.ended, program.shown()).toBe(130)
    expect(hub.requests()).not.toContain('POST /v1/messages/batch')
  })

  it('ends npx hub, which has two processes, with exit code 130 too', async (context) => {
    const hub = await startHub()
    const words = [process.execPath, join(ROOT, 'apps/cli/bin/hub.mjs'), 'events', 'tail']
    const program = await startOnTerminal(context, words, { HUB_DATA_DIR: hub.dataDir })
    await hub.arrived('GET /v1/events')
    program.type(CTRL_C)
    expect(await program.ended, program.shown()).toBe(130)
  })
})
