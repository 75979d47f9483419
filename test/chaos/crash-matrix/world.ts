/** The hub on which cells run: two processes of each app, a webhook receiver, and armed points. */
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openDatabase } from '@hub/testkit'
import { type HubAdmin, makeHubAdmin } from '../../support/hub-admin.ts'
import { startHub, type TestHub } from '../../support/hub.ts'
import { startWebhookReceiver, type WebhookReceiver } from '../../support/webhook-receiver.ts'
import { type ArmedPoints, makeArmedPoints } from './armed-points.ts'
import { makeProcesses, type Processes } from './processes.ts'

export interface World {
  readonly hub: TestHub
  readonly admin: HubAdmin
  readonly sql: ReturnType<typeof openDatabase>
  readonly receiver: WebhookReceiver
  readonly points: ArmedPoints
  readonly processes: Processes
  /** The folder of the crash points, for processes that the hub does not start. */
  readonly folder: string
  /** A new number for each cell. */
  readonly nextCell: () => number
  /** Runs something that only one cell may do at a time. */
  readonly exclusively: <A>(run: () => Promise<A>) => Promise<A>
  readonly stop: () => Promise<void>
}

export const startWorld = async (): Promise<World> => {
  const parent = process.env['HUB_TEST_DIR'] ?? tmpdir()
  mkdirSync(parent, { recursive: true })
  const folder = mkdtempSync(join(parent, 'crash-points-'))
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }))
  const receiver = await startWebhookReceiver()
  const hub = await startHub({
    secondCommandApi: true,
    dispatchers: 2,
    environment: { ...receiver.environment, HUB_CRASH_POINTS: folder, HUB_MESSAGE_OUTCOMES: 'on' },
  })
  const stop = async (): Promise<void> => {
    await hub.stop()
    await receiver.close()
    rmSync(folder, { recursive: true, force: true })
  }
  try {
    const second = {
      projector: await hub.addProcess('projector', 'projector-2'),
      fanout: await hub.addProcess('webhook-fanout', 'webhook-fanout-2'),
    }
    await Promise.all([second.projector.restart(), second.fanout.restart()])
    const admin = makeHubAdmin(hub)
    let cells = 0
    let last: Promise<unknown> = Promise.resolve()
    return {
      hub,
      admin,
      sql: admin.sql,
      receiver,
      folder,
      points: makeArmedPoints(folder),
      processes: makeProcesses({
        'command-api': [hub.app('command-api'), hub.secondCommandApi()],
        dispatcher: hub.dispatchers,
        projector: [hub.app('projector'), second.projector],
        'webhook-fanout': [hub.app('webhook-fanout'), second.fanout],
      }),
      nextCell: () => cells++,
      exclusively: (run) => {
        const next = last.then(run)
        last = next.catch(() => {})
        return next
      },
      stop: async () => {
        await admin.close()
        await stop()
      },
    }
  } catch (error) {
    await stop()
    throw error
  }
}
