/**
 * A hub with Redis Sentinels whose primary is killed: codes are accepted meanwhile, service messages are refused
 * without a window, and afterwards all sends are checked against the flood windows again, without a restart. The flood
 * windows are those from before, and the spend has each accepted message once. Source: AVL-13 to AVL-17.
 */
import { APPS } from '@hub/config'
import { eventually, freePort } from '@hub/testkit'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Client, client, send } from '../support/client.ts'
import { freshNumber, type HubAdmin, makeHubAdmin } from '../support/hub-admin.ts'
import { borrowStack, startHub, type TestHub, type TestStack } from '../support/hub.ts'
import {
  allowFailover,
  type RedisProcess,
  type RedisServers,
  redisServers,
  startSentinels,
} from '../support/redis-servers.ts'

const RECOVERY = { everyMs: 100 } as const
/** The name under which the Sentinels watch the primary. */
const NAME = 'hub'

let stack: TestStack
let redis: RedisServers
let primary: RedisProcess
let sentinels: ReadonlyArray<RedisProcess>
let hub: TestHub
let admin: HubAdmin
let live: Client

beforeAll(async () => {
  stack = await borrowStack()
  redis = await redisServers()
  primary = await redis.start(await freePort())
  const replica = await redis.start(await freePort(), { replicaof: `127.0.0.1 ${primary.port}` })
  await eventually(async () => (await replica.client.info('replication')).includes('master_link_status:up'))
  sentinels = await startSentinels(redis, primary, NAME)
  const hosts = sentinels.map(({ port }) => `127.0.0.1:${port}`).join(',')
  hub = await startHub({ servers: { ...stack, redisUrl: `redis+sentinel://${hosts}/${NAME}` } })
  admin = makeHubAdmin(hub, {
    connect: (key) => client(hub.describe().base_url, key, { repeats: false }),
  })
  live = (await admin.createAccount({ live: { spend_limit: '100', price_otp: '1', price_service: '1' } }))
    .live
})
afterAll(async () => {
  await admin?.close()
  await hub?.stop()
  await redis?.stop()
  await stack?.stop()
})

describe('the primary of Redis is killed', () => {
  it('codes are accepted meanwhile, and afterwards flood windows refuse what they did before', async () => {
    const number = freshNumber()
    const untilServiceGets = (status: number, to: string) =>
      eventually(async () => {
        const answer = await live.post('/v1/messages', send('service', to))
        expect(answer.status).toBe(status)
        return answer
      }, RECOVERY)
    await untilServiceGets(202, number)
    const spent = async (): Promise<string> => (await live.get('/v1/account')).body.spend_limit.spent.amount
    expect(await spent()).toBe('1.00')
    await eventually(async () => (await primary.client.wait(1, 1000)) >= 1)
    const processes = APPS.map((app) => hub.app(app).pid())

    await primary.stop()
    // Without Redis: `recipient_flood_limited` without a window, also for a number that got no message.
    const { body } = await untilServiceGets(422, freshNumber())
    expect(body.error).toMatchObject({ code: 'recipient_flood_limited' })
    expect(body.error).not.toHaveProperty('window')
    expect((await live.post('/v1/messages', send('otp', freshNumber()))).status).toBe(202)

    await allowFailover(sentinels, NAME)
    // The new primary knows the message from before.
    await eventually(async () => {
      const answer = await live.post('/v1/messages', send('service', number))
      expect(answer.body.error).toMatchObject({ code: 'recipient_flood_limited', window: 'pause' })
      return true
    }, RECOVERY)
    await untilServiceGets(202, freshNumber())
    expect(APPS.map((app) => hub.app(app).pid())).toEqual(processes)
    // The code and the last message.
    expect(await spent()).toBe('3.00')
  })
})
