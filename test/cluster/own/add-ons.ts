/** What the manifests of the hub expect in a cluster: names, KEDA, and the operator of Prometheus. */
import { join } from 'node:path'
import { eventually } from '@hub/testkit'
import type { Kubectl } from '../kubectl.ts'
import { manifest } from '../manifests.ts'
import { run } from '../../support/shell.ts'
import { imageOf, NAME_SERVICE, SERVERS } from './plan.ts'
import type { Programs } from './programs.ts'

const ROLLED_OUT_SECONDS = 300

export const installNames = async (kubectl: Kubectl): Promise<void> => {
  await kubectl.apply(
    manifest('names.yaml', { image: imageOf('coredns'), address: NAME_SERVICE, operator: SERVERS.operator }),
  )
  await kubectl.rolledOut('kube-system', 'deployment/coredns', ROLLED_OUT_SECONDS)
}

/** The published manifests of KEDA, with the images of this cluster. */
export const installKeda = async (kubectl: Kubectl, programs: Programs): Promise<void> => {
  const published = await run(programs.path('kubectl'), [
    'kustomize',
    join(programs.path('keda-config'), 'default'),
  ])
  const images: Readonly<Record<string, string>> = {
    'keda-metrics-apiserver': 'keda-adapter',
    'keda-admission-webhooks': 'keda-admission-webhooks',
    keda: 'keda',
  }
  const own = published
    .replaceAll(/image: \S*\/(?<name>[a-z-]+):\S+/gu, (line, name: string) =>
      images[name] === undefined ? line : `image: ${imageOf(images[name])}`,
    )
    .replaceAll('imagePullPolicy: Always', 'imagePullPolicy: IfNotPresent')
  await kubectl.apply(own, '--server-side', '--force-conflicts')
  for (const name of ['keda-operator', 'keda-metrics-apiserver', 'keda-admission'])
    await kubectl.rolledOut('keda', `deployment/${name}`, ROLLED_OUT_SECONDS)
}

export const installPrometheus = async (kubectl: Kubectl, programs: Programs): Promise<void> => {
  await kubectl.run(['apply', '--server-side', '--force-conflicts', '--filename', programs.path('crds')])
  await kubectl.run(['wait', '--for=condition=Established', 'crd', '--all', '--timeout=60s'])
  await kubectl.apply(
    manifest('monitoring.yaml', {
      operator: imageOf('prometheus-operator'),
      reloader: imageOf('prometheus-config-reloader'),
      prometheus: imageOf('prometheus'),
    }),
  )
  await kubectl.rolledOut('monitoring', 'deployment/prometheus-operator', ROLLED_OUT_SECONDS)
  await eventually(
    () => kubectl.run(['--namespace', 'monitoring', 'get', 'statefulset/prometheus-main']).then(() => true),
    { withinMs: ROLLED_OUT_SECONDS * 1000, everyMs: 1000 },
  )
  await kubectl.rolledOut('monitoring', 'statefulset/prometheus-main', ROLLED_OUT_SECONDS)
}
