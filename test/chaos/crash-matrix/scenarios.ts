/**
 * What a cell does, beside its traffic, so that a process reaches the point, and what it checks about
 * that afterwards.
 */
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { parseEnv } from 'node:util'
import type { App } from '@hub/config'
import type { CrashFault, CrashPoint } from '@hub/crash-points'
import { verifySignature } from '@hub/domain'
import { decodeOutboxRow } from '@hub/kafka'
import { programFile } from '@hub/local-stack'
import { eventually } from '@hub/testkit'
import { Result } from 'effect'
import { send } from '../../support/client.ts'
import { eventsIn } from '../../support/webhook-receiver.ts'
import type { Sent, Traffic } from './traffic.ts'
import { uuidOf } from './verify.ts'
import type { World } from './world.ts'

export interface Context {
  readonly world: World
  readonly traffic: Traffic
  /** The path at the receiver that belongs to the cell. */
  readonly path: string
  readonly isReached: () => boolean
  /**
   * Makes a process reach another point, with another fault, and waits until it has. `alongside` runs when
   * the point is armed: before, other cells may use the point.
   */
  readonly prepare: (point: CrashPoint, fault: CrashFault, alongside?: () => Promise<void>) => Promise<void>
}

export interface Scenario {
  /** Runs until the point is reached. May return what to check after the fault. */
  readonly act: (context: Context) => Promise<(() => Promise<void>) | void>
  /** The cell needs the hub for itself. */
  readonly isAlone?: boolean
}

const WITHIN = { withinMs: 180_000, everyMs: 250 }
/** Between two tries to reach a point, ms. */
const PAUSE_MS = 250
/** Nothing listens on it. */
const REFUSING_PORT = 1
/** The reconciler finds a lost message within two minutes, and a busy machine is slower. */
const RECONCILED_WITHIN_MS = 150_000
/** A process that was restarted gets this time to reach the point. */
const RESTARTED_WITHIN_MS = 15_000

/** Repeats an action until the point is reached. */
const untilReached = async ({ isReached }: Context, action: () => Promise<unknown>): Promise<void> => {
  while (!isReached()) {
    await action()
    if (!isReached()) await delay(PAUSE_MS)
  }
}

const waitFor = async ({ isReached }: Context, ms: number): Promise<void> => {
  const deadline = performance.now() + ms
  while (!isReached() && performance.now() < deadline) await delay(50)
}

/** The traffic reaches the point by itself. */
const traffic: Scenario = { act: async () => {} }

const restart = (app: App): Scenario => ({
  act: (context) =>
    untilReached(context, async () => {
      await context.world.processes.restartOne(app)
      await waitFor(context, RESTARTED_WITHIN_MS)
    }),
})

/** The point follows after another point has reported a failure. */
const after = (point: CrashPoint, fault: CrashFault = 'reported-failure'): Scenario => ({
  act: (context) =>
    untilReached(context, async () => {
      await context.prepare(point, fault)
      await waitFor(context, RESTARTED_WITHIN_MS)
    }),
})

/**
 * The append of codes has no known result while the projectors stand still for a moment, so that neither a
 * repeat nor the reconciler finds the codes in the read model.
 */
const unprovenCodes: Scenario = {
  act: (context) =>
    untilReached(context, () =>
      context.prepare('command-api.appended', 'reported-failure', () =>
        context.world.processes.pause('projector', 3000),
      ),
    ),
}

/** Runs `hubctl` as hub staff do. The process may be killed at the point. */
const hubctl = async ({ world }: Context, args: ReadonlyArray<string>): Promise<any> => {
  const env = parseEnv(readFileSync(join(world.hub.dataDir, 'hubctl.env'), 'utf8'))
  const main = await programFile('hubctl')
  return new Promise((resolve) => {
    execFile(
      process.execPath,
      [main, ...args, '--json', '--yes'],
      { env: { PATH: process.env['PATH'], ...env, HUB_CRASH_POINTS: world.folder }, timeout: 60_000 },
      (error, stdout) =>
        resolve(error === null ? JSON.parse(stdout.slice(0, stdout.lastIndexOf('}') + 1)) : null),
    )
  })
}

/** Repeats a command until it succeeds. */
const hubctlUntilDone = (context: Context, args: ReadonlyArray<string>): Promise<any> =>
  eventually(() => hubctl(context, args), WITHIN)

/** Creates a further subscription of the account, which gets only test deliveries. */
const createSubscription = async ({ path, traffic: { request } }: Context, receiver: World['receiver']) => {
  const { body, status, text } = await request('test', 'POST', '/v1/webhook_endpoints', {
    url: receiver.url(`${path}/further`),
    event_types: ['webhook.test'],
  })
  if (status !== 201) throw new Error(`a subscription was not created: ${status} ${text}`)
  return body as { readonly id: string; readonly secret: string }
}

/** Deletes all further subscriptions: also those of requests whose answers were lost. */
const deleteFurther = async ({ path, traffic: { request } }: Context, receiver: World['receiver']) => {
  const { body } = await request('test', 'GET', '/v1/webhook_endpoints?limit=100')
  for (const { id, url } of body.data) {
    if (url === receiver.url(`${path}/further`))
      await request('test', 'DELETE', `/v1/webhook_endpoints/${id}`)
  }
}

/** A test delivery arrives, signed with the secret that the API has returned. */
const checkTestDelivery = async (
  { path, traffic: { request }, world }: Context,
  { id, secret }: { readonly id: string; readonly secret: string },
): Promise<void> => {
  await eventually(async () => {
    const before = world.receiver.received.length
    const { body, status, text } = await request('test', 'POST', `/v1/webhook_endpoints/${id}/test`)
    if (status !== 200 || body.status !== 'succeeded')
      throw new Error(`a test delivery failed: ${status} ${text}`)
    const found = world.receiver.received.slice(before).filter((one) => one.path === `${path}/further`)
    return found.some(({ body: content, headers }) =>
      verifySignature(String(headers['hub-signature']), [secret], content, Date.now() / 1000),
    )
  }, WITHIN)
}

/** Changes a further subscription until the point is reached. Afterwards, rotations still work. */
const changing = (
  change: (
    context: Context,
    subscription: { readonly id: string; readonly secret: string },
  ) => Promise<unknown>,
): Scenario => ({
  act: async (context) => {
    const { receiver } = context.world
    let latest = await createSubscription(context, receiver)
    await untilReached(context, async () => {
      await change(context, latest)
      // The change may have deleted it, or created more.
      const { status } = await context.traffic.request('test', 'GET', `/v1/webhook_endpoints/${latest.id}`)
      if (status === 404) {
        await deleteFurther(context, receiver)
        if (!context.isReached()) latest = await createSubscription(context, receiver)
      }
    })
    return async () => {
      await deleteFurther(context, receiver)
      const next = await createSubscription(context, receiver)
      const rotated = await context.traffic.request(
        'test',
        'POST',
        `/v1/webhook_endpoints/${next.id}/rotate_secret`,
        {
          expire_previous: true,
        },
      )
      await checkTestDelivery(context, { id: next.id, secret: rotated.body.secret })
      await deleteFurther(context, receiver)
    }
  },
})

const path = (id: string, operation = ''): string => `/v1/webhook_endpoints/${id}${operation}`
const rotate = ({ traffic: { request } }: Context, { id }: { readonly id: string }) =>
  request('test', 'POST', path(id, '/rotate_secret'), { expire_previous: true })
const remove = ({ traffic: { request } }: Context, { id }: { readonly id: string }) =>
  request('test', 'DELETE', path(id))
const update = ({ traffic: { request } }: Context, { id }: { readonly id: string }) =>
  request('test', 'PATCH', path(id), { description: `changed at ${Date.now()}` })
const create = async (context: Context) => {
  await createSubscription(context, context.world.receiver)
  await deleteFurther(context, context.world.receiver)
}
const enable = async ({ traffic: { request }, world }: Context, { id }: { readonly id: string }) => {
  await world.sql`
    UPDATE webhooks.endpoints SET status = 'disabled_by_failures', disabled_at = now(), disabled_reason = 'timeout'
     WHERE id = ${uuidOf('we', id)}`
  await request('test', 'POST', path(id, '/enable'))
}
const testDelivery = ({ traffic: { request } }: Context, { id }: { readonly id: string }) =>
  // The answer may be an error: the fault is in the delivery.
  Promise.race([request('test', 'POST', path(id, '/test')).catch(() => null), delay(3000)])

/** Sends a live message with a reference. The traffic counts and checks it like its own sends. */
const sendLive = async (
  own: Traffic,
  body: Readonly<Record<string, unknown>>,
  sent: Omit<Sent, 'mode' | 'ids'>,
): Promise<string> => {
  const answer = await own.request('live', 'POST', '/v1/messages', body)
  if (answer.status !== 202) throw new Error(`a send was refused: ${answer.status} ${answer.text}`)
  const { id } = answer.body as { readonly id: string }
  ;(own.sends as Map<string, Sent>).set(String(body['client_ref']), {
    mode: 'live',
    ...sent,
    ids: new Set([id]),
  })
  return id
}

/** A recipient of a message writes STOP. Then nobody can send a service message to the number. */
const optOut: Scenario = {
  act: async (context) => {
    const { traffic: own, world } = context
    let index = 960_000
    let to = own.number(index)
    const writes = async () => {
      to = own.number(index++)
      const ref = `opt-out-${to}`
      const id = await sendLive(own, send('otp', to, ref), { messageClass: 'otp', to })
      await eventually(
        async () =>
          (
            await world.sql`
        SELECT 1 FROM read.messages WHERE id = ${uuidOf('msg', id)} AND rank > 0`
          ).length > 0,
        WITHIN,
      )
      await eventually(async () => {
        const { operator_url } = world.hub.describe()
        const body = JSON.stringify({ from: to, to: 'HUB', text: 'STOP' })
        return (await fetch(`${operator_url}/inbound`, { method: 'POST', body })).status === 202
      }, WITHIN)
      await waitFor(context, 3000)
    }
    await untilReached(context, writes)
    return async () => {
      await eventually(
        async () =>
          (
            await world.sql`SELECT 1 FROM command.opt_outs WHERE recipient IN (
              SELECT recipient FROM read.messages WHERE account = ${own.account.uuid} AND client_ref = ${`opt-out-${to}`})`
          ).length > 0,
        WITHIN,
      )
      const refused = await own.request('live', 'POST', '/v1/messages', send('service', to))
      if (refused.body.error?.code !== 'recipient_opted_out') {
        throw new Error(`a recipient who opted out gets a message: ${refused.status}`)
      }
    }
  },
}

/** Erases the recipient of a message. Then its number and text are gone. */
const erasure: Scenario = {
  act: async (context) => {
    const { traffic: own, world } = context
    let to = ''
    await untilReached(context, async () => {
      const [sent] = [...own.sends.values()].filter(({ ids, to: number }) => ids.size > 0 && number !== to)
      if (sent === undefined) return
      to = sent.to
      const id = uuidOf('msg', [...sent.ids][0]!)
      await eventually(
        async () => (await world.sql`SELECT 1 FROM read.messages WHERE id = ${id} AND final`).length > 0,
        WITHIN,
      )
      await hubctl(context, ['recipients', 'erase', to])
      // A projector publishes erasures every ten seconds.
      await waitFor(context, RESTARTED_WITHIN_MS)
    })
    return async () => {
      const { recipient } = await hubctlUntilDone(context, ['recipients', 'erase', to])
      await eventually(async () => {
        const [row] = await world.sql<[{ data: number; published: number }]>`
          SELECT (SELECT count(*)::int FROM read.personal_data WHERE recipient = decode(${recipient}, 'hex')) AS data,
                 (SELECT count(*)::int FROM command.erasures
                   WHERE recipient = decode(${recipient}, 'hex') AND published_at IS NOT NULL) AS published`
        return row.data === 0 && row.published > 0
      }, WITHIN)
    }
  },
}

/** Rebuilds the read models. Nothing differs, and the rebuilt tables become the live ones. */
const rebuild: Scenario = {
  act: (context) =>
    context.world.exclusively(async () => {
      const { sql } = context.world
      const ended = () =>
        eventually(
          async () => (await sql`SELECT 1 FROM command.rebuilds WHERE ended_at IS NULL`).length === 0,
          WITHIN,
        )
      await untilReached(context, async () => {
        await hubctl(context, ['projections', 'rebuild'])
        if (!context.isReached()) await Promise.race([ended(), waitFor(context, WITHIN.withinMs)])
      })
      await ended()
      const [last] = await sql<ReadonlyArray<{ outcome: string | null; compared: unknown }>>`
        SELECT outcome, compared FROM command.rebuilds ORDER BY requested_at DESC LIMIT 1`
      if (last !== undefined && last.outcome !== 'swapped') {
        throw new Error(`the rebuild ended as ${last.outcome}: ${JSON.stringify(last.compared)}`)
      }
    }),
}

/** Delivers the events of the account again. The receiver gets each of them at least twice. */
const redelivery: Scenario = {
  act: async (context) => {
    const { path: cellPath, traffic: own, world } = context
    const count = (id: string) =>
      eventsIn(world.receiver.received.filter((request) => request.path === cellPath)).filter(
        (event) => event.id === id,
      ).length
    const first = await eventually(async () => {
      const { body } = await own.clients.live.get('/v1/events?limit=1')
      return body.data?.[0]?.id as string | undefined
    }, WITHIN)
    await eventually(() => count(first) > 0, WITHIN)
    const request = ['webhooks', 'redeliver', own.subscriptions.live, '--from', '2020-01-01T00:00Z']
    await untilReached(context, async () => {
      await hubctl(context, request)
      await waitFor(context, 5000)
    })
    return async () => {
      await hubctlUntilDone(context, request)
      await eventually(() => count(first) > 1, WITHIN)
      await eventually(
        async () =>
          (
            await world.sql`SELECT 1 FROM webhooks.redeliveries
            WHERE endpoint_id = ${uuidOf('we', own.subscriptions.live)} AND finished_at IS NULL`
          ).length === 0,
        WITHIN,
      )
    }
  },
}

/**
 * A subscription whose fact stays in the outbox for seconds: its process dies before it announces it.
 * Meanwhile the partition reads events that the new subscription misses.
 */
const missedEvents: Scenario = {
  act: (context) =>
    untilReached(context, async () => {
      const { request } = context.traffic
      const body = { url: context.world.receiver.url(`${context.path}/further`) }
      void request('live', 'POST', '/v1/webhook_endpoints', body).catch(() => null)
      await context.prepare('command-api.subscription-created', 'kill')
      await waitFor(context, RESTARTED_WITHIN_MS)
    }),
}

/** A subscription is deleted while batches wait for it, because its receiver refuses connections. */
const deletedBacklog: Scenario = {
  act: (context) =>
    untilReached(context, async () => {
      const { traffic: own, world } = context
      const { body, status, text } = await own.request('live', 'POST', '/v1/webhook_endpoints', {
        url: `https://127.0.0.1:${REFUSING_PORT}/`,
      })
      if (status !== 201) throw new Error(`a subscription was not created: ${status} ${text}`)
      const uuid = uuidOf('we', body.id)
      await eventually(
        async () => (await world.sql`SELECT 1 FROM webhooks.batches WHERE endpoint_id = ${uuid}`).length > 0,
        WITHIN,
      )
      await own.request('live', 'DELETE', `/v1/webhook_endpoints/${body.id}`)
      await waitFor(context, RESTARTED_WITHIN_MS)
    }),
}

/** A command-api dies while it publishes the codes of a batch, which stays open. */
const openBatch: Scenario = {
  act: async (context) => {
    const { traffic: own, world } = context
    await untilReached(context, async () => {
      await context.prepare('command-api.appended', 'kill')
      // No request of the batch runs any more: the hard deadline of a request is 20 s.
      const deadline = performance.now() + 25_000
      while (!context.isReached() && performance.now() < deadline) {
        await world.sql`
          UPDATE command.batches SET created_at = created_at - interval '1 minute'
           WHERE sealed_at IS NULL AND account = ${own.account.uuid}
             AND created_at BETWEEN now() - interval '50 seconds' AND now() - interval '21 seconds'`
        await delay(1000)
      }
    })
  },
}

/**
 * A process dies after a commit, and the records of its `service` messages are lost: the test deletes their
 * outbox row before the relay appends it. The reconciler compares messages that are a minute old, every
 * 30 s, and proves in its next turn that they are missing.
 */
const lostRecords: Scenario = {
  isAlone: true,
  act: (context) =>
    untilReached(context, async () => {
      const { sql } = context.world
      await context.prepare('command-api.recorded', 'kill')
      // The other process has deleted its own rows by then, and the relay waits for 3.5 s.
      await delay(1500)
      const rows = await sql<ReadonlyArray<{ id: string; records: Buffer }>>`
        SELECT id, records FROM command.outbox WHERE created_at < now() - interval '1 second'`
      const lost = rows.filter(({ records }) =>
        // Nothing replaces a lost `BatchSealed`.
        Result.getOrThrow(decodeOutboxRow(records)).every(({ type }) => type === 'MessageAccepted'),
      )
      if (lost.length === 0) return
      await sql`DELETE FROM command.outbox WHERE id = ANY (${lost.map(({ id }) => id)}::bigint[])`
      await waitFor(context, RECONCILED_WITHIN_MS)
    }),
}

/** Kafka is away for a moment, so that codes are certainly not in Kafka. */
const absentKafka: Scenario = {
  isAlone: true,
  act: (context) =>
    untilReached(context, async () => {
      const kafka = context.world.hub.server('kafka')
      kafka.kill('SIGKILL')
      await kafka.exited()
      await waitFor(context, 5000)
      await kafka.restart()
      await waitFor(context, RESTARTED_WITHIN_MS)
    }),
}

/** Retention removes the idempotency keys of the account that have expired. */
const expiredKeys: Scenario = {
  act: async (context) => {
    const { traffic: own, world } = context
    const { uuid } = own.account
    await untilReached(context, async () => {
      await world.sql`
        INSERT INTO command.idempotency_keys (account, mode, key, fingerprint, expires_at)
        VALUES (${uuid}, 'test', ${`expired at ${Date.now()}`}, '', now() - interval '1 minute')`
      await world.sql`UPDATE command.retention_jobs SET next_at = now() WHERE job = 'idempotency_keys'`
      await waitFor(context, RESTARTED_WITHIN_MS)
    })
    return async () => {
      await eventually(
        async () =>
          (
            await world.sql`SELECT 1 FROM command.idempotency_keys WHERE account = ${uuid} AND expires_at < now()`
          ).length === 0,
        WITHIN,
      )
    }
  },
}

/** The operator throttles for a moment. */
const throttling: Scenario = {
  act: async (context) => {
    const { operator_url } = context.world.hub.describe()
    const behave = (throttle_per_second: number | null) =>
      fetch(`${operator_url}/behaviour`, { method: 'PUT', body: JSON.stringify({ throttle_per_second }) })
    try {
      await untilReached(context, () => behave(1))
    } finally {
      await behave(null)
    }
  },
}

/** A shard re-appends a message that has only some of its reports when it is 20 s old. */
const RE_APPENDED_WITHIN_MS = 30_000
/** The report of the last part comes when the fault has ended. */
const LAST_PART_DELAY_MS = 45_000

/** Messages of two parts, of which one is reported at once and the other one after the fault. */
const partlyReported: Scenario = {
  act: async (context) => {
    const { traffic: own, world } = context
    const { operator_url } = world.hub.describe()
    const behave = (last_part_delay_ms: number) =>
      fetch(`${operator_url}/behaviour`, { method: 'PUT', body: JSON.stringify({ last_part_delay_ms }) })
    const order = 'A'.repeat(80)
    let index = 970_000
    await behave(LAST_PART_DELAY_MS)
    try {
      await untilReached(context, async () => {
        const to = own.number(index++)
        const body = { ...send('service', to, `parts-${to}`), variables: { order } }
        await sendLive(own, body, { messageClass: 'service', to, text: `Заказ ${order} готов`, parts: 2 })
        await waitFor(context, RE_APPENDED_WITHIN_MS)
      })
    } finally {
      await behave(0)
    }
  },
}

/** All dispatchers are away until the waiting messages are old. Then they ask the read model first. */
const oldMessages: Scenario = {
  isAlone: true,
  act: (context) =>
    untilReached(context, async () => {
      await context.world.processes.stopAllFor('dispatcher', 11_000)
      await waitFor(context, RESTARTED_WITHIN_MS)
    }),
}

export const SCENARIOS: Readonly<Record<CrashPoint, Scenario>> = {
  'command-api.key-acquired': traffic,
  'command-api.flood-reserved': traffic,
  'command-api.recorded': traffic,
  'command-api.appended': traffic,
  'command-api.code-appended-again': unprovenCodes,
  'command-api.day-counted': traffic,
  'command-api.sealed': traffic,
  'command-api.withdrawn': after('command-api.recorded'),
  'command-api.relayed': after('command-api.appended'),
  'command-api.relay-committed': after('command-api.appended'),
  'command-api.swept': openBatch,
  'command-api.lane-ends-read': unprovenCodes,
  'command-api.republished': lostRecords,
  'command-api.codes-refunded': absentKafka,
  'command-api.subscription-created': changing(create),
  'command-api.subscription-updated': changing(update),
  'command-api.secret-rotated': changing(rotate),
  'command-api.secret-written': changing(rotate),
  'command-api.subscription-enabled': changing(enable),
  'command-api.subscription-deleted': changing(remove),
  'command-api.subscription-announced': changing(rotate),
  'command-api.announcement-deleted': changing(update),
  'command-api.test-delivery-requested': changing(testDelivery),
  'command-api.payload-key-stored': restart('command-api'),

  'dispatcher.claim-acknowledged': traffic,
  'dispatcher.submitted': traffic,
  'dispatcher.sent-acknowledged': traffic,
  'dispatcher.refusal-acknowledged': throttling,
  'dispatcher.outcome-acknowledged': traffic,
  'dispatcher.messages-re-appended': partlyReported,
  'dispatcher.fence-appended': restart('dispatcher'),
  'dispatcher.offsets-located': restart('dispatcher'),
  'dispatcher.marks-committed': traffic,
  'dispatcher.report-stored': traffic,
  'dispatcher.inbound-stored': optOut,
  'dispatcher.inbound-recorded': optOut,
  'dispatcher.opt-outs-applied': optOut,
  'dispatcher.answers-stored': traffic,
  'dispatcher.messages-looked-up': oldMessages,

  'projector.rows-written': traffic,
  'projector.committed': traffic,
  'projector.events-appended': traffic,
  'projector.event-rows-deleted': traffic,
  'projector.events-relayed': after('projector.events-appended'),
  'projector.partitions-acquired': restart('projector'),
  'projector.event-source-committed': optOut,
  'projector.erasure-published': erasure,
  'projector.retention-stepped': expiredKeys,
  'projector.outcomes-appended': traffic,
  'projector.outcomes-removed': traffic,
  'projector.rebuild-opened': rebuild,
  'projector.rebuild-folded': rebuild,
  'projector.rebuild-compared': rebuild,
  'projector.rebuild-swapping': rebuild,
  'projector.rebuild-swapped': rebuild,

  'webhook-fanout.partition-acquired': restart('webhook-fanout'),
  'webhook-fanout.batches-stored': traffic,
  'webhook-fanout.attempted': traffic,
  'webhook-fanout.outcomes-recorded': traffic,
  'webhook-fanout.offset-committed': traffic,
  'webhook-fanout.journal-caught-up': missedEvents,
  'webhook-fanout.redelivery-stored': redelivery,
  'webhook-fanout.on-demand-taken': changing(testDelivery),
  'webhook-fanout.on-demand-attempted': changing(testDelivery),
  'webhook-fanout.on-demand-recorded': changing(testDelivery),
  'webhook-fanout.deleted-purged': deletedBacklog,

  'hubctl.erasure-recorded': erasure,
  'hubctl.erasure-step-written': erasure,
  'hubctl.erasure-step-committed': erasure,
  'hubctl.rebuild-requested': rebuild,
  'hubctl.redelivery-requested': redelivery,
}
