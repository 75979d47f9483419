/**
 * A hub at SMSCs that throttle, based on two other SMPP implementations: jsmpp counts the parts of
 * each second, ch-smpp uses a token bucket and may leave submits unanswered. The SMSC's own list of
 * decisions is the comparison.
 *
 * Each SMSC has one case. `HUB_SMSC_CASES=all npm run test:e2e -- throttling` runs all of them.
 */
import { join } from 'node:path'
import { decodeId } from '@hub/domain'
import { eventually } from '@hub/testkit'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { sendBatchUntilAccepted } from '../support/client.ts'
import { javaCompilerMissing, javaLibrary } from '../support/external-tools.ts'
import { type Account, type HubAdmin, makeHubAdmin } from '../support/hub-admin.ts'
import { startHub, type TestHub, WITHOUT_WEBHOOKS } from '../support/hub.ts'
import { type Program, SHORT_JAVA_RUN, startProgram } from '../support/program.ts'

const ESME_RTHROTTLED = 0x58
const ESME_RMSGQFUL = 0x14
/** Only ends a wait that hangs: a hub that uses a tenth of the limit needs three minutes. */
const WITHIN_MS = 400_000
/** Each recipient gets this many messages of one part, and then one of two parts. */
const SHORT_ROUNDS = 3
const MESSAGES_PER_RECIPIENT = SHORT_ROUNDS + 1
const PARTS_PER_RECIPIENT = SHORT_ROUNDS + 2
const BATCH = 200
/**
 * The largest share of throttled answers. With the learned rate, 2 % are throttled, and up to 11 % on a
 * very busy machine. With a hub that paused after each throttled answer, 16 to 41 % were. The test prints the used share of the limit, too,
 * and does not check it: it depends on what else the machine does. `npm run bench -- flow` checks it.
 */
const MAX_THROTTLED = 0.15
/** In `esm_class`: the text begins with a user data header. */
const UDH_INDICATOR = 0x40

/** A decision of the SMSC about one part. */
interface Decision {
  /** Milliseconds since the start of the SMSC. */
  readonly at: number
  readonly to: string
  /** Names the part within the messages of its recipient. */
  readonly part: string
  readonly status: number
}

/** Returns the text of a short message, or the position of a part of the long message. */
const partOf = (esmClass: number, content: Buffer): string => {
  if ((esmClass & UDH_INDICATOR) === 0) return content.toString('latin1')
  const header = content.subarray(1, 1 + content[0]!)
  return `long ${header.at(-1)}/${header.at(-2)}`
}

const decisionsOf = ({ lines }: Program): ReadonlyArray<Decision> =>
  lines.flatMap((line) => {
    if (!line.startsWith('{"at"')) return []
    const { at, content, esm, status, to } = JSON.parse(line)
    return [{ at, to, status, part: partOf(esm, Buffer.from(content, 'hex')) }]
  })

/** Otherwise only the first case of each SMSC runs, because each takes half a minute. */
const ALL_CASES = process.env['HUB_SMSC_CASES'] === 'all'

interface Case {
  readonly partsPerSecond: number
  readonly status: number
  readonly recipients: number
  /** The number of messages to which the SMSC does not respond. */
  readonly silent: number
}

const implementations: ReadonlyArray<{
  readonly name: string
  readonly size: string
  readonly idFormat: string
  readonly cases: ReadonlyArray<Case>
}> = [
  {
    name: 'jsmpp',
    size: '1 MB',
    idFormat: 'hexadecimal_answer',
    cases: [
      { partsPerSecond: 200, status: ESME_RTHROTTLED, recipients: 600, silent: 0 },
      { partsPerSecond: 20, status: ESME_RTHROTTLED, recipients: 60, silent: 0 },
    ],
  },
  {
    name: 'ch-smpp',
    size: '2 MB',
    idFormat: 'opaque',
    cases: [
      { partsPerSecond: 20, status: ESME_RMSGQFUL, recipients: 60, silent: 4 },
      { partsPerSecond: 200, status: ESME_RTHROTTLED, recipients: 600, silent: 0 },
    ],
  },
]

let numbers = 0
/** Returns new numbers. The SMSC responds to none of the numbers that end in 04. */
const newNumbers = (count: number, end: '04' | '11'): ReadonlyArray<string> =>
  Array.from({ length: count }, () => `+7913${String(++numbers).padStart(5, '0')}${end}`)

describe.each(implementations)('an SMSC based on $name that throttles', ({ cases, idFormat, name, size }) => {
  const folder = join(import.meta.dirname, name)
  let missing: string | null = null
  let library: { readonly java: string; readonly classPath: string }
  let hub: TestHub | undefined
  let admin: HubAdmin | undefined
  let account: Account
  let smsc: Program | undefined

  beforeAll(async () => {
    const found = await javaLibrary({
      pom: join(folder, 'pom.xml'),
      checksums: join(folder, 'jars.sha256'),
      what: name,
      size,
    })
    missing = 'missing' in found ? found.missing : await javaCompilerMissing(found.java)
    if ('missing' in found || missing !== null) {
      console.log(`Skipped, because the SMSC is not available: ${missing}`)
      return
    }
    library = found
    hub = await startHub({
      apps: WITHOUT_WEBHOOKS,
      environment: { HUB_OPERATOR_SMPP_ID_FORMAT: idFormat },
    })
    // The SMSC of the test takes the place of the operator simulator.
    hub.operator.kill('SIGKILL')
    await hub.operator.exited()
    admin = makeHubAdmin(hub)
    account = await admin.createAccount({
      live: { flood_pause_seconds: 0, flood_per_hour: 1000, flood_per_day: 1000 },
    })
    const template = (text: string, body: string) => ({ name: text, class: 'service', body }) as const
    await admin.addTemplate(account, 'live', template('short', 'Order {{order}}'))
    await admin.addTemplate(
      account,
      'live',
      template('long', `Order {{order}} ${'is ready '.repeat(20)}`.trim()),
    )
  }, 400_000)
  afterEach(() => smsc?.stop())
  afterAll(async () => {
    await admin?.close()
    await hub?.stop()
  })

  /** Submitted parts by result, as the dispatcher counts them. */
  const submittedParts = async (): Promise<Readonly<Record<string, number>>> => {
    const metrics = await (await fetch(`http://127.0.0.1:${hub!.ports.dispatcherAdmin}/metrics`)).text()
    return Object.fromEntries(
      [...metrics.matchAll(/^hub_smpp_submitted_parts_total\{.*?result="(\w+)".*?\} (\d+)/gmu)].map(
        ([, result, count]) => [result!, Number(count)],
      ),
    )
  }

  /** Sends a message to each number. Returns the ids. */
  const sendRound = async (
    to: ReadonlyArray<string>,
    template: 'short' | 'long',
    order: string,
  ): Promise<ReadonlyArray<string>> => {
    const ids: Array<string> = []
    for (let first = 0; first < to.length; first += BATCH) {
      const messages = to.slice(first, first + BATCH).map((number) => ({
        to: number,
        class: 'service',
        template,
        variables: { order },
        client_ref: `${order}-${number.slice(1)}`,
      }))
      ids.push(...(await sendBatchUntilAccepted(account.live, messages, WITHIN_MS)))
    }
    return ids
  }

  const countByStatus = async (ids: ReadonlyArray<string>): Promise<Readonly<Record<string, number>>> => {
    const uuids = ids.map((id) => decodeId('msg', id)!)
    const rows = await admin!.sql<ReadonlyArray<{ readonly status: string; readonly count: number }>>`
      SELECT status, count(*)::int AS count FROM read.messages WHERE id = ANY(${uuids}::uuid[]) GROUP BY status`
    return Object.fromEntries(rows.map(({ count, status }) => [status, count]))
  }

  it.for(ALL_CASES ? cases : cases.slice(0, 1))(
    'at $partsPerSecond parts per second with status $status: each message is accepted and delivered once, in order',
    { timeout: WITHIN_MS + 60_000 },
    async ({ partsPerSecond, recipients, silent, status }, context) => {
      if (missing !== null) {
        context.skip(missing)
        return
      }
      if (hub === undefined) throw new Error('the hub was not started')
      const before = await submittedParts()
      const started = startProgram(library.java, [
        ...SHORT_JAVA_RUN,
        '-Dorg.slf4j.simpleLogger.defaultLogLevel=warn',
        '-Xmx128m',
        '-cp',
        library.classPath,
        join(folder, 'ThrottlingSmsc.java'),
        String(hub.ports.operatorSmpp),
        String(partsPerSecond),
        String(status),
      ])
      smsc = started

      const to = newNumbers(recipients, '11')
      const unanswered = newNumbers(silent, '04')
      const ids: Array<string> = []
      for (let round = 0; round < SHORT_ROUNDS; round++) {
        ids.push(...(await sendRound(to, 'short', `A-${round}`)))
        if (round === 0) ids.push(...(await sendRound(unanswered, 'short', 'A-0')))
      }
      ids.push(...(await sendRound(to, 'long', `A-${SHORT_ROUNDS}`)))

      // Nothing is lost, and nothing is final because of throttling.
      const messages = recipients * MESSAGES_PER_RECIPIENT
      await eventually(
        async () => {
          expect(await countByStatus(ids), started.lines.slice(-3).join('\n')).toEqual({
            delivered: messages,
            ...(silent > 0 ? { sent: silent } : {}),
          })
          return true
        },
        { withinMs: WITHIN_MS, everyMs: 500 },
      )

      const parts = recipients * PARTS_PER_RECIPIENT + silent
      const decisions = await eventually(
        () => {
          const all = decisionsOf(started)
          return all.filter((decision) => decision.status === 0).length >= parts && all
        },
        { withinMs: WITHIN_MS, everyMs: 500 },
      )
      const accepted = decisions.filter((decision) => decision.status === 0)
      const throttled = decisions.filter((decision) => decision.status === status)
      expect(accepted.length + throttled.length).toBe(decisions.length)
      // The limit was reached. Otherwise this test would check nothing.
      expect(throttled.length).toBeGreaterThan(0)

      const expected = [
        ...Array.from({ length: SHORT_ROUNDS }, (_, round) => `Order A-${round}`),
        'long 1/2',
        'long 2/2',
      ]
      const byRecipient = Map.groupBy(accepted, (decision) => decision.to)
      const partsOf = (number: string) => {
        const all = (byRecipient.get(number.slice(1)) ?? []).map(({ part }) => part)
        // If only the first part of a message is throttled, it is accepted after the second one.
        return [...all.slice(0, SHORT_ROUNDS), ...all.slice(SHORT_ROUNDS).toSorted()]
      }
      // Each part once, and the messages in the order in which the hub accepted them.
      for (const number of to) expect(partsOf(number), number).toEqual(expected)
      for (const number of unanswered) expect(partsOf(number), number).toEqual([expected[0]])

      const after = await submittedParts()
      const submitted = (result: string) => (after[result] ?? 0) - (before[result] ?? 0)
      expect({
        accepted: submitted('accepted'),
        lost: submitted('lost'),
        throttled: submitted('throttled'),
      }).toEqual({ accepted: parts - silent, lost: silent, throttled: throttled.length })

      // When half of the parts were accepted, the hub knows the limit. Near the end, few parts wait.
      const [first, last] = [accepted[Math.floor(parts / 2)]!, accepted[Math.floor(parts * 0.9)]!]
      const learned = decisions.slice(decisions.indexOf(first), decisions.indexOf(last))
      const passed = learned.filter((decision) => decision.status === 0).length
      const used = passed / partsPerSecond / ((last.at - first.at) / 1000)
      const refused = 1 - passed / learned.length
      console.log(
        `${name} with ${partsPerSecond} parts per second: ${used.toFixed(2)} of the limit used, ${refused.toFixed(3)} of the answers throttled`,
      )
      expect(refused).toBeLessThan(MAX_THROTTLED)
    },
  )
})
