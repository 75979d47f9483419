/** An API server without nodes takes the manifests, with the real definitions of KEDA and of the Prometheus operator. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { readSettings } from '@hub/local-stack'
import { freePort } from '@hub/testkit'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { type Found, orSkip } from '../support/external-tools.ts'
import { openDaemons } from './daemons.ts'
import { changedObjects, versionsOf, writeOverlay } from './deploy.ts'
import type { Kubectl } from './kubectl.ts'
import { openAuthority } from './own/authority.ts'
import { startApiServer } from './own/control-plane.ts'
import { SERVERS } from './own/plan.ts'
import { findBuilt } from './own/programs.ts'

const dir = mkdtempSync(join(process.env['HUB_TEST_DIR'] ?? tmpdir(), 'api-server-'))
const daemons = openDaemons(dir)
let found: Found<{ readonly kubectl: Kubectl }>

beforeAll(async () => {
  const programs = findBuilt(
    ['etcd', 'kube-apiserver', 'kubectl', 'keda-config', 'crds'],
    process.env['HUB_CLUSTER_PROGRAMS'] ?? null,
    join(readSettings(process.env).cacheDir, 'cluster'),
  )
  if ('missing' in programs) {
    found = programs
    return
  }
  const kubectl = await startApiServer({
    dir,
    api: {
      host: '127.0.0.1',
      port: await freePort(),
      etcd: { clients: await freePort(), peers: await freePort() },
    },
    programs,
    daemons,
    authority: await openAuthority(join(dir, 'certificates')),
  })
  await kubectl.run(['apply', '--server-side', '--kustomize', join(programs.path('keda-config'), 'crd')])
  await kubectl.run(['apply', '--server-side', '--filename', programs.path('crds')])
  await kubectl.run(['wait', '--for=condition=Established', 'crd', '--all', '--timeout=60s'])
  found = { kubectl }
})
afterAll(async () => {
  await daemons.stopAll()
  rmSync(dir, { recursive: true, force: true })
})

const target = {
  dir,
  addresses: SERVERS,
  images: { hub: 'registry.example.com/sms-delivery-hub:1', nginx: '' },
}

/** Applies an overlay. Returns the objects that it creates or changes. */
const apply = async (
  { kubectl }: { readonly kubectl: Kubectl },
  settings: Readonly<Record<string, string>>,
  tag: string,
): Promise<ReadonlyArray<string>> => {
  const before = await versionsOf(kubectl)
  await kubectl.run(['apply', '--kustomize', writeOverlay(target, { settings, tag })])
  return changedObjects(before, await versionsOf(kubectl))
}

const DEPLOYMENTS = [
  'command-api',
  'dispatcher',
  'hubctl',
  'operations-api',
  'projector',
  'webhook-fanout',
].map((name) => `Deployment/${name}`)

it('takes the manifests, takes them again, a changed setting, and a changed tag', async (context) => {
  const server = await orSkip(context, found)
  expect(await apply(server, {}, '1')).toEqual(expect.arrayContaining(DEPLOYMENTS))
  expect(await apply(server, {}, '1')).toEqual([])

  const [settings, ...deployments] = await apply(server, { HUB_LOG_LEVEL: 'Debug' }, '1')
  expect(settings).toMatch(/^ConfigMap\/hub-settings-/u)
  expect(deployments).toEqual(DEPLOYMENTS)

  expect(await apply(server, { HUB_LOG_LEVEL: 'Debug' }, '2')).toEqual(DEPLOYMENTS)
  expect(await apply(server, {}, '1')).toEqual(DEPLOYMENTS)
})
