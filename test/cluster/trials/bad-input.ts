/**
 * Rollouts with a wrong secret, setting or image: the new pods say what is wrong, the rollout stops at the first of each
 * app, the others continue to work, and a correction is enough to go on.
 */
import { eventually } from '@hub/testkit'
import { type App, applyOverlay, createSecrets, NAMESPACE, rolledOut } from '../deploy.ts'
import { inSteps, timed, type Trial, type TrialTools } from './trial.ts'

interface Mistake {
  /** Begins a rollout of these apps. */
  readonly begin: () => Promise<unknown>
  /** What the log of a new pod contains, or what Kubernetes says about it, by the name of the Deployment. */
  readonly says: Readonly<Record<string, RegExp>>
  /** The correction of staff. */
  readonly correct: () => Promise<unknown>
}

/** A new pod is scheduled, started and logs within seconds, on a busy machine within a minute. */
const SAID = { withinMs: 180_000, everyMs: 1000 } as const
/** A rollout with right settings replaces two pods of an app within half a minute. */
const STOPPED_SECONDS = 30

const isApp = (name: string): name is App => name !== 'hubctl'

/** The names of the ready pods of an app. */
const readyPods = async ({ pods }: TrialTools, app: App): Promise<ReadonlyArray<string>> =>
  (await pods(app)).filter(({ isReady }) => isReady).map(({ name }) => name)

/** The logs of the pods of a Deployment that did not exist before, and why their containers wait. */
const saidBy = async (
  { cluster: { kubectl } }: TrialTools,
  name: string,
  before: ReadonlySet<string>,
): Promise<string> => {
  const inHub = ['--namespace', NAMESPACE]
  const { items } = await kubectl.get('pods', ...inHub, '--selector', `app.kubernetes.io/name=${name}`)
  const said: Array<string> = []
  for (const { metadata, status } of items) {
    if (before.has(metadata.name)) continue
    const containers = [...(status.initContainerStatuses ?? []), ...(status.containerStatuses ?? [])]
    said.push(...containers.flatMap(({ state }: any) => state?.waiting?.message ?? []))
    const logs = await kubectl.attempt([
      ...inHub,
      'logs',
      metadata.name,
      '--all-containers',
      '--ignore-errors',
      '--tail=200',
    ])
    said.push(logs.stdout)
  }
  return said.join('\n')
}

/** Names the pods of all Deployments. */
const existingPods = async ({ cluster: { kubectl } }: TrialTools): Promise<ReadonlySet<string>> => {
  const { items } = await kubectl.get('pods', '--namespace', NAMESPACE)
  return new Set(items.map(({ metadata }: any) => String(metadata.name)))
}

const refused = (tools: TrialTools, { begin, correct, says }: Mistake) => ({
  disturb: async () => {
    const { cluster } = tools
    const apps = Object.keys(says).filter(isApp)
    const before = await existingPods(tools)
    const ready = new Map(
      await Promise.all(apps.map(async (app) => [app, await readyPods(tools, app)] as const)),
    )
    await begin()
    const secondsUntilSaid = await timed(async () => {
      for (const [name, line] of Object.entries(says))
        await eventually(async () => {
          const said = await saidBy(tools, name, before)
          if (!line.test(said)) throw new Error(`${name} does not say ${line}, but ${said.slice(-500)}`)
          return true
        }, SAID)
    })
    for (const app of apps) {
      const { code } = await cluster.kubectl.attempt(
        ['--namespace', NAMESPACE, 'rollout', 'status', `deployment/${app}`, `--timeout=${STOPPED_SECONDS}s`],
        (STOPPED_SECONDS + 10) * 1000,
      )
      if (code === 0) throw new Error(`the rollout of ${app} has ended with the mistake`)
      const wanted = ready.get(app)!
      const left = (await readyPods(tools, app)).filter((name) => wanted.includes(name))
      // A consumer ends before its successor starts (maxUnavailable: 1). An API continues until then.
      const least = wanted.length - (app === 'command-api' || app === 'operations-api' ? 0 : 1)
      if (left.length < least)
        throw new Error(`${left.length} of ${wanted.length} pods of ${app} are left and ready`)
    }
    const secondsUntilCorrected = await timed(async () => {
      await correct()
      await rolledOut(cluster)
    })
    return { secondsUntilSaid, secondsUntilCorrected }
  },
})

export const badInput: Trial = async (tools) => {
  const { cluster } = tools
  const { kubectl } = cluster
  const inHub = ['--namespace', NAMESPACE]
  const restart = (apps: ReadonlyArray<string>) =>
    kubectl.run([...inHub, 'rollout', 'restart', ...apps.map((app) => `deployment/${app}`)])

  /** Changes keys of a secret (`null`: removes one), and restarts the apps as staff do. */
  const withSecret = (
    name: string,
    change: Readonly<Record<string, string | null>>,
    says: Readonly<Record<string, RegExp>>,
  ): Mistake => ({
    says,
    begin: async () => {
      const patch = {
        data: Object.fromEntries(Object.entries(change).map(([key, value]) => [key, encoded(value)])),
      }
      await kubectl.run([
        ...inHub,
        'patch',
        'secret',
        name,
        '--type=merge',
        `--patch=${JSON.stringify(patch)}`,
      ])
      await restart(Object.keys(says))
    },
    correct: async () => {
      await createSecrets(cluster)
      await restart(Object.keys(says))
    },
  })
  const encoded = (value: string | null): string | null =>
    value === null ? null : Buffer.from(value).toString('base64')

  const password = /PostgreSQL refuses the user or the password\. Correct HUB_DATABASE_URL\./u
  const partitions = /HUB_PARTITIONS is 24, and the topics of this hub have 48 partitions\. Set it to 48/u
  const secret = async (key: string): Promise<string> => {
    const { data } = await kubectl.get('secret/hub-secrets', ...inHub)
    return Buffer.from(String(data[key]), 'base64').toString()
  }
  const wrongPassword = (url: string): string => Object.assign(new URL(url), { password: 'wrong' }).toString()

  return inSteps(tools, {
    missingKey: refused(
      tools,
      withSecret(
        'hub-secrets',
        { HUB_REDIS_URL: null },
        {
          'command-api': /couldn't find key HUB_REDIS_URL in Secret sms-hub\/hub-secrets/u,
          dispatcher: /couldn't find key HUB_REDIS_URL in Secret sms-hub\/hub-secrets/u,
        },
      ),
    ),
    databasePassword: refused(
      tools,
      withSecret(
        'hub-secrets',
        { HUB_DATABASE_URL: wrongPassword(await secret('HUB_DATABASE_URL')) },
        { 'command-api': password, dispatcher: password, projector: password, 'webhook-fanout': password },
      ),
    ),
    redisPassword: refused(
      tools,
      withSecret(
        'hub-secrets',
        { HUB_REDIS_URL: wrongPassword(await secret('HUB_REDIS_URL')) },
        { 'command-api': /Redis refuses the user or the password\. Correct HUB_REDIS_URL\./u },
      ),
    ),
    operatorPassword: refused(
      tools,
      withSecret(
        'hub-operator',
        { HUB_OPERATOR_SMPP_PASSWORD: 'wrong' },
        { dispatcher: /The SMPP operator refuses .* Correct .*HUB_OPERATOR_SMPP_PASSWORD/u },
      ),
    ),
    fewerPartitions: refused(tools, {
      says: {
        hubctl: /Set HUB_PARTITIONS to 48/u,
        'command-api': partitions,
        dispatcher: partitions,
        projector: partitions,
        'webhook-fanout': partitions,
      },
      begin: () => applyOverlay(cluster, { settings: { HUB_PARTITIONS: '24' } }),
      correct: () => applyOverlay(cluster),
    }),
    missingTag: refused(tools, {
      says: {
        'command-api': /sms-delivery-hub:missing/u,
        dispatcher: /sms-delivery-hub:missing/u,
        projector: /sms-delivery-hub:missing/u,
        'webhook-fanout': /sms-delivery-hub:missing/u,
      },
      begin: () => applyOverlay(cluster, { tag: 'missing' }),
      correct: () => applyOverlay(cluster),
    }),
  })
}
