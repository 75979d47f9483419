/**
 * Runs the SMPP operator adapter against a third-party SMSC: the simulator of jsmpp, in Java. It
 * returns ids in hexadecimal and reports them in decimal, a second after each submit, from a
 * hundred threads.
 */
import { join } from 'node:path'
import type { Submission } from '@hub/operator'
import { freePortBase } from '@hub/local-stack'
import { eventually } from '@hub/testkit'
import { Effect, type Scope } from 'effect'
import { describe, expect, it } from 'vitest'
import { javaLibrary, orSkip } from '../support/external-tools.ts'
import { type Program, SHORT_JAVA_RUN, startProgram } from '../support/program.ts'
import { bindSmppOperator, makeSubmission } from '../support/smpp-operator.ts'

const FOLDER = join(import.meta.dirname, 'jsmpp')
const MESSAGES = 5000
/**
 * Each simulator reports at most a hundred messages a second, so two of them need half the time.
 */
const SIMULATORS = 2
/** Messages in one submit call, as in a busy dispatcher. */
const BATCH = 200
/**
 * Each report takes a second, and a hundred are concurrent. Only a busy machine needs more than
 * half a minute.
 */
const WITHIN_MS = 150_000

const startSmsc = (java: string, path: string, port: number): Effect.Effect<Program, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.sync(() =>
      startProgram(java, [
        ...SHORT_JAVA_RUN,
        `-Djsmpp.simulator.port=${port}`,
        '-Dorg.slf4j.simpleLogger.defaultLogLevel=warn',
        '-Xmx128m',
        '-cp',
        path,
        'org.jsmpp.examples.SMPPServerSimulator',
      ]),
    ),
    ({ stop }) => Effect.promise(stop),
  )

/**
 * Sends messages through one simulator, and checks the reports. Returns the number of accepted
 * messages.
 */
const sendThroughSimulator = (java: string, path: string, numbers: ReadonlyArray<string>) =>
  Effect.gen(function* () {
    const port = yield* Effect.promise(freePortBase)
    const smsc = yield* startSmsc(java, path, port)
    const { inbound, operator, reports } = yield* bindSmppOperator(port, 'j', 'jpwd', {
      idFormat: 'hexadecimal_answer',
    })
    /** Recipients by message id. Ids are random, and two may be equal. */
    const submitted = new Map<string, Array<string>>()
    let waiting: Array<Submission> = numbers.map((to) => makeSubmission(to))
    while (waiting.length > 0) {
      const batch = waiting.slice(0, BATCH)
      waiting = waiting.slice(BATCH)
      const outcomes = yield* operator.submit(batch, () => true)
      for (const [i, outcome] of outcomes.entries()) {
        const submission = batch[i]!
        // The queue of the simulator is full. The dispatcher would also repeat the submit.
        if (outcome.type === 'refused') waiting.push(submission)
        else if (outcome.type === 'accepted') {
          expect(outcome.operatorIds).toHaveLength(1)
          const id = outcome.operatorIds[0]!
          submitted.set(id, [...(submitted.get(id) ?? []), submission.to])
        } else expect.fail(`${outcome.type}\n${smsc.lines.slice(-10).join('\n')}`)
      }
    }
    yield* Effect.promise(() =>
      eventually(() => reports.length >= numbers.length, { withinMs: WITHIN_MS, everyMs: 100 }),
    )
    const reported = new Map<string, Array<string>>()
    for (const { operatorId, outcome, to } of reports) {
      expect(outcome).toBe('delivered')
      reported.set(operatorId, [...(reported.get(operatorId) ?? []), to ?? ''])
    }
    const sorted = (map: ReadonlyMap<string, ReadonlyArray<string>>) =>
      [...map].map(([id, tos]) => `${id} ${tos.toSorted().join(' ')}`).toSorted()
    expect(sorted(reported)).toEqual(sorted(submitted))
    // The simulator sends one message from 12345 or 555 on each of the two binds.
    expect(inbound.length).toBeLessThanOrEqual(2)
    return [...submitted.values()].flat().length
  }).pipe(Effect.scoped)

describe('the SMSC simulator of jsmpp', () => {
  it(
    `accepts ${MESSAGES} messages, and every report matches its submit`,
    async (context) => {
      const library = javaLibrary({
        pom: join(FOLDER, 'pom.xml'),
        checksums: join(FOLDER, 'jars.sha256'),
        what: 'the SMPP simulator of jsmpp',
        size: '1 MB',
      })
      const { classPath, java } = await orSkip(context, library)
      const numbers = Array.from({ length: MESSAGES }, (_, i) => `+7900${String(i).padStart(7, '0')}`)
      const shares = Array.from({ length: SIMULATORS }, (_, smsc) =>
        numbers.filter((_number, i) => i % SIMULATORS === smsc),
      )
      const taken = await Effect.runPromise(
        Effect.all(
          shares.map((share) => sendThroughSimulator(java, classPath, share)),
          { concurrency: SIMULATORS },
        ),
      )
      expect(taken.reduce((sum, one) => sum + one, 0)).toBe(MESSAGES)
    },
    WITHIN_MS + 60_000,
  )
})
