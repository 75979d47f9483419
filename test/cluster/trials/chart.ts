/** The Helm chart takes over the hub, upgrades it, and rolls it back. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { ROOT } from '@hub/local-stack'
import type { Cluster } from '../cluster.ts'
import { APPS, applyOverlay, NAMESPACE, rolledOut } from '../deploy.ts'
import { POD_NETWORK } from '../own/plan.ts'
import { USER } from '../servers.ts'
import { run } from '../../support/shell.ts'
import { inSteps, type Trial, untilRolledOut } from './trial.ts'

const CHART = join(ROOT, 'infra/helm/sms-delivery-hub')
const RELEASE = 'hub'
const WITHIN_MS = 300_000

/** The values of docs/deploying.md, with the addresses of this cluster. */
const valuesOf = ({ addresses, images }: Cluster) => {
  const [, registry, repository, tag] = /^(.*)\/([^/:]+):([^:]+)$/u.exec(images.hub) ?? []
  const blocks = (...of: ReadonlyArray<string>) =>
    of.map((address) => ({ ipBlock: { cidr: `${address}/32` } }))
  // The requests of `small` are 4.1 cores, and this machine may have two.
  const resources = { requests: { cpu: '50m' } }
  return {
    image: { registry, repository, tag },
    settings: {
      HUB_BASE_URL: 'https://sms.example.com',
      HUB_TRUSTED_PROXIES: POD_NETWORK,
      HUB_KAFKA_USERNAME: USER,
      HUB_OPERATOR_SMPP_URL: 'smpps://hub@smpp.operator.example:3550',
    },
    apps: {
      ...Object.fromEntries([...APPS, 'hubctl'].map((app) => [app, { resources }])),
      'operations-api': {
        resources,
        settings: {
          HUB_OPERATIONS_URL: 'https://sms-operations.example.com',
          HUB_OIDC_ISSUER: 'https://login.example.com',
          HUB_OIDC_CLIENT_ID: 'sms-delivery-hub',
          HUB_OIDC_ROLES: '{"sms-support": ["support"], "sms-admins": ["admin"]}',
        },
      },
    },
    networkPolicies: {
      postgresql: { to: blocks(addresses.postgres, addresses.standby) },
      kafka: { to: blocks(...addresses.kafka) },
      redis: { to: blocks(addresses.redis) },
      operator: { to: blocks(addresses.operator) },
      identityProvider: { to: blocks(addresses.operator) },
    },
  }
}

export const chart: Trial = async (tools) => {
  const { cluster } = tools
  const { dir, kubectl } = cluster
  const values = join(dir, 'hub.yaml')
  writeFileSync(values, JSON.stringify(valuesOf(cluster)))
  const helm = (...args: ReadonlyArray<string>) =>
    run(cluster.helm(), [...args, '--namespace', NAMESPACE], {
      env: { KUBECONFIG: kubectl.kubeconfig },
      withinMs: WITHIN_MS,
    })
  const upgrade = (...more: ReadonlyArray<string>) =>
    helm('upgrade', RELEASE, CHART, '--values', join(CHART, 'values-small.yaml'), '--values', values, ...more)
  const step = (change: () => Promise<unknown>) => untilRolledOut(cluster, change)
  const result = await inSteps(tools, {
    takeover: step(() => upgrade('--install', '--take-ownership')),
    upgrade: step(() => upgrade('--set', 'settings.HUB_LOG_LEVEL=Warn')),
    rollback: step(() => helm('rollback', RELEASE)),
  })
  // The other trials use kustomize. Without its secrets, Helm has no release.
  await kubectl.run(['--namespace', NAMESPACE, 'delete', 'secret', '--selector', 'owner=helm'])
  await applyOverlay(cluster)
  await rolledOut(cluster)
  return result
}
