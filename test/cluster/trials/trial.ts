/** What all trials use. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { eventually } from '@hub/testkit'
import { makeHubAdmin } from '../../support/hub-admin.ts'
import type { Cluster } from '../cluster.ts'
import { type App, apiUrl, NAMESPACE, rolledOut } from '../deploy.ts'
import { judge, readMessages, type Tolerance, type Verdict } from '../judge.ts'
import { type Load, startLoad } from '../load.ts'
import { askPrometheus } from '../prometheus.ts'
import { type Bucket, stopsOf } from '../stops.ts'

export interface TrialResult {
  readonly figures: Readonly<Record<string, unknown>>
  /** Empty: the trial has passed. */
  readonly faults: ReadonlyArray<string>
}

/** May return further figures. */
type Disturb = (load: Load) => Promise<Readonly<Record<string, unknown>> | void>

export interface TrialTools {
  readonly cluster: Cluster
  readonly report: (line: string) => void
  /**
   * Sends messages while `disturb` runs, and for some seconds before and after it. Then waits until all
   * are delivered, and judges.
   */
  readonly underLoad: (disturb: Disturb, tolerance?: Tolerance) => Promise<TrialResult>
  readonly pods: (app: App) => Promise<ReadonlyArray<Pod>>
  /** The address of the API, and a live key of the account of the trials. */
  readonly access: () => Promise<{ readonly url: string; readonly key: string }>
}

export type Trial = (tools: TrialTools) => Promise<TrialResult>

export interface Pod {
  readonly name: string
  readonly node: string
  readonly address: string
  readonly isReady: boolean
  readonly restarts: number
  /** The id in containerd. */
  readonly container: string
}

/** Messages per second: what two cores can serve beside a whole cluster. */
const RATE = 20
const BEFORE_MS = 5000
const AFTER_MS = 10_000
/** Prometheus reads the pods every 15 seconds. */
const SCRAPED_MS = 20_000
/** The topic of accepted codes. */
const CODES = 'hub.accepted.otp.v1'
/** A trial leaves a backlog, and unanswered submits are decided after their deadline. */
const DELIVERED = { withinMs: 180_000, everyMs: 2000 } as const

export const openTrials = (cluster: Cluster, report: (line: string) => void): TrialTools => {
  let opened: { readonly url: string; readonly key: string } | null = null
  const access = async () => {
    if (opened !== null) return opened
    // The secret with which an administrator's tool computes recipients.
    const { numberHashSecret } = cluster.servers.passwords()
    writeFileSync(join(cluster.dir, 'secrets.json'), JSON.stringify({ numberHashSecret }), { mode: 0o600 })
    const url = await apiUrl(cluster)
    const describe = () => ({ base_url: url, database_url: cluster.servers.databaseUrl() })
    const admin = makeHubAdmin({ describe, dataDir: cluster.dir } as unknown as Parameters<
      typeof makeHubAdmin
    >[0])
    const { keys } = await admin.createAccount()
    await admin.close()
    opened = { url, key: keys.live }
    return opened
  }

  const pods: TrialTools['pods'] = async (app) => {
    const { items } = await cluster.kubectl.get(
      'pods',
      '--namespace',
      NAMESPACE,
      '--selector',
      `app.kubernetes.io/name=${app}`,
    )
    return items
      .filter(({ metadata }: any) => metadata.deletionTimestamp === undefined)
      .map(({ metadata, spec, status }: any): Pod => {
        const [container] = status.containerStatuses ?? []
        return {
          name: metadata.name,
          node: spec.nodeName ?? '',
          address: status.podIP ?? '',
          isReady: container?.ready === true,
          restarts: container?.restartCount ?? 0,
          container: (container?.containerID ?? '').replace('containerd://', ''),
        }
      })
  }

  /** The buckets of `hub_consumer_stopped_seconds`, each with its highest value since then. */
  const stopBuckets = (sinceMs: number): Promise<ReadonlyArray<Bucket>> => {
    const series = `hub_consumer_stopped_seconds_bucket{namespace="${NAMESPACE}"}`
    const query = `max_over_time(${series}[${Math.ceil(sinceMs / 1000)}s])`
    return askPrometheus(cluster.kubectl, `/api/v1/query?query=${encodeURIComponent(query)}`).then(
      ({ result }) => result,
    )
  }

  const underLoad: TrialTools['underLoad'] = async (disturb, tolerance = {}) => {
    const { key, url } = await access()
    const began = new Date()
    const name = `t${began.getTime().toString(36)}`
    const before = await cluster.servers.operatorStatistics()
    const stopsBefore = await stopBuckets(SCRAPED_MS)
    const load = startLoad({ url, key, name, rate: RATE })
    let more: Readonly<Record<string, unknown>> | void = undefined
    let disturbed: unknown = null
    try {
      await delay(BEFORE_MS)
      more = await disturb(load)
      await delay(AFTER_MS)
    } catch (error) {
      disturbed = error
    }
    const sent = await load.stop()
    if (disturbed !== null) throw disturbed
    const observe = async (): Promise<Verdict> => {
      const messages = await readMessages(url, key, name, began)
      const after = await cluster.servers.operatorStatistics()
      const operator = {
        received: (after['references'] ?? 0) - (before['references'] ?? 0),
        repeated: (after['repeated'] ?? 0) - (before['repeated'] ?? 0),
      }
      return judge({ sent, messages, operator }, tolerance)
    }
    // Faults that time mends are those of messages on their way.
    const { faults, figures } = await eventually(async () => {
      const verdict = await observe()
      if (verdict.faults.some((fault) => /^not delivered|^the operator received|cannot be read/u.test(fault)))
        throw new Error('messages are on their way')
      return verdict
    }, DELIVERED).catch(observe)
    await delay(SCRAPED_MS - AFTER_MS)
    const stopsAfter = await stopBuckets(Date.now() - began.getTime())
    const stoppedSeconds = {
      codes: stopsOf(stopsBefore, stopsAfter, (topic) => topic === CODES),
      all: stopsOf(stopsBefore, stopsAfter),
    }
    return { figures: { ...figures, stoppedSeconds, ...more }, faults }
  }

  return { cluster, report, underLoad, pods, access }
}

/** Disturbs the hub in several ways, one after another. Each fault names its step. */
export const inSteps = async (
  { report, underLoad }: TrialTools,
  steps: Readonly<Record<string, { readonly disturb: Disturb; readonly tolerance?: Tolerance }>>,
): Promise<TrialResult> => {
  const figures: Record<string, unknown> = {}
  const faults: Array<string> = []
  for (const [name, { disturb, tolerance }] of Object.entries(steps)) {
    const result = await underLoad(disturb, tolerance)
    report(`    step ${name}: ${JSON.stringify(result.figures)}`)
    figures[name] = result.figures
    faults.push(...result.faults.map((fault) => `${name}: ${fault}`))
  }
  return { figures, faults }
}

/** A step that changes the deployment, and waits until all pods are replaced. */
export const untilRolledOut = (cluster: Cluster, change: () => Promise<unknown>) => ({
  disturb: async () => ({
    seconds: await timed(async () => {
      await change()
      await rolledOut(cluster)
    }),
  }),
})

/** Empties a node, as for its maintenance. Returns the seconds that it takes. */
export const drainNode = ({ kubectl }: Cluster, node: string): Promise<number> =>
  timed(() =>
    kubectl.run(
      ['drain', node, '--ignore-daemonsets', '--delete-emptydir-data', '--force', '--timeout=300s'],
      310_000,
    ),
  )

/** Waits until the pods of an app are as many as wanted, and ready. */
export const untilPods = (
  { pods }: TrialTools,
  app: App,
  isEnough: (pods: ReadonlyArray<Pod>) => boolean,
  withinMs: number,
): Promise<ReadonlyArray<Pod>> =>
  eventually(
    async () => {
      const found = await pods(app)
      if (!isEnough(found)) throw new Error(`${app} has ${found.length} pods`)
      return found
    },
    { withinMs, everyMs: 1000 },
  )

/** The time that work takes, in seconds. */
export const timed = async (work: () => Promise<unknown>): Promise<number> => {
  const began = performance.now()
  await work()
  return Math.round((performance.now() - began) / 100) / 10
}
