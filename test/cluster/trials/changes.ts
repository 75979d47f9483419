/** Installation, a changed setting, a new version, and the way back. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { ROOT } from '@hub/local-stack'
import {
  APPS,
  applyOverlay,
  changedObjects,
  deployHub,
  hubctl,
  NAMESPACE,
  rolledOut,
  versionsOf,
} from '../deploy.ts'
import { imageOf, NODES } from '../own/plan.ts'
import { containerd } from '../own/nodes.ts'
import { runDocumented } from './documented.ts'
import { inSteps, timed, type Trial, untilRolledOut } from './trial.ts'

/** The hub from nothing, and `hubctl doctor`. */
export const install: Trial = async ({ cluster, report }) => {
  const seconds = await timed(() => deployHub(cluster, report))
  const before = await versionsOf(cluster.kubectl)
  await applyOverlay(cluster)
  const changed = changedObjects(before, await versionsOf(cluster.kubectl))
  const doctor = await hubctl(cluster, 'doctor')
  return {
    figures: { secondsUntilTheApiAnswers: seconds, doctor: doctor.stdout.trim().split('\n').at(-1) },
    faults: [
      ...(doctor.code === 0 ? [] : [`hubctl doctor: ${doctor.stdout}${doctor.stderr}`]),
      ...changed.map((name) => `a second apply changes ${name}`),
    ],
  }
}

/** A changed setting of the whole hub, and one of a single app. */
export const settings: Trial = (tools) =>
  tools.underLoad(async () => {
    const { cluster } = tools
    const seconds = await timed(async () => {
      await applyOverlay(cluster, { settings: { HUB_LOG_LEVEL: 'Warn' } })
      await rolledOut(cluster)
    })
    const before = await versionsOf(cluster.kubectl)
    const setEnvironment = (value: string) =>
      cluster.kubectl.run(['--namespace', NAMESPACE, 'set', 'env', 'deployment/projector', value])
    await setEnvironment('HUB_LOG_LEVEL=Info')
    await rolledOut(cluster, ['projector'])
    const restarted = changedObjects(before, await versionsOf(cluster.kubectl))
    await setEnvironment('HUB_LOG_LEVEL-')
    await rolledOut(cluster, ['projector'])
    if (restarted.join() !== 'Deployment/projector')
      throw new Error(`a setting of the projector changed ${restarted.join(', ') || 'nothing'}`)
    return { secondsUntilAllPodsHaveTheSetting: seconds }
  })

/** The commands of the section "A new version" of docs/deploying.md, which upgrade the apps in order. */
const documentedCommands = (overlay: string): string => {
  const page = readFileSync(join(ROOT, 'docs/deploying.md'), 'utf8')
  const commands = /```sh\n(?<commands>apps='[\s\S]*?)```/u.exec(page)?.groups?.['commands']
  if (commands === undefined) throw new Error('docs/deploying.md has no commands for a new version')
  return commands.replaceAll('<your overlay>', overlay)
}

/** A new tag by the documented commands, a new tag for all apps at once, and the way back. */
export const versions: Trial = async (tools) => {
  const { cluster } = tools
  if (cluster.own !== null)
    for (const node of NODES)
      for (const tag of ['2', '3'])
        await containerd(
          cluster.own,
          node,
          'images',
          'tag',
          '--force',
          imageOf('sms-delivery-hub'),
          imageOf('sms-delivery-hub', tag),
        )
  const step = (change: () => Promise<unknown>) => untilRolledOut(cluster, change)
  const result = await inSteps(tools, {
    inOrder: step(() => runDocumented(cluster, documentedCommands, '2')),
    allAtOnce: step(() => applyOverlay(cluster, { tag: '3' })),
    back: step(async () => {
      for (const app of APPS)
        await cluster.kubectl.run(['--namespace', NAMESPACE, 'rollout', 'undo', `deployment/${app}`])
    }),
  })
  await applyOverlay(cluster)
  await rolledOut(cluster)
  return result
}
