/**
 * An API server without nodes takes the manifests, with the real definitions of KEDA and of the Prometheus operator, and
 * says what is wrong without them.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { readSettings } from '@hub/local-stack'
import { freePort } from '@hub/testkit'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Found, goFiles, orSkip } from '../support/external-tools.ts'
import { openDaemons } from './daemons.ts'
import { changedObjects, NAMESPACE, versionsOf, writeOverlay } from './deploy.ts'
import type { Kubectl } from './kubectl.ts'
import { openAuthority } from './own/authority.ts'
import { startApiServer } from './own/control-plane.ts'
import { SERVERS } from './own/plan.ts'
import { findBuilt } from './own/programs.ts'

const dir = mkdtempSync(join(process.env['HUB_TEST_DIR'] ?? tmpdir(), 'api-server-'))
const daemons = openDaemons(dir)
let found: Found<{
  readonly kubectl: Kubectl
  /** Applies definitions of resources: arguments of kubectl. */
  readonly define: (...definitions: ReadonlyArray<string>) => Promise<void>
  /** The folders of the definitions of KEDA and of the Prometheus operator. */
  readonly keda: string
  readonly prometheus: string
}>

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
  found = {
    kubectl,
    define: async (...definitions) => {
      await kubectl.run(['apply', '--server-side', '--force-conflicts', ...definitions])
      await kubectl.run(['wait', '--for=condition=Established', 'crd', '--all', '--timeout=60s'])
    },
    keda: join(programs.path('keda-config'), 'crd'),
    prometheus: programs.path('crds'),
  }
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

/** What kubectl says about an overlay that it applies in part. */
const refusals = async ({ kubectl }: { readonly kubectl: Kubectl }): Promise<string> => {
  const { code, stderr } = await kubectl.attempt(['apply', '--kustomize', writeOverlay(target, {})])
  expect(code).not.toBe(0)
  return stderr
}

/** The names of the Deployments, with the versions that staff have applied. */
const deploymentsOf = async ({
  kubectl,
}: {
  readonly kubectl: Kubectl
}): Promise<Readonly<Record<string, number>>> => {
  const { items } = await kubectl.get('deployments', '--namespace', NAMESPACE)
  return Object.fromEntries(
    items.map(({ kind, metadata }: any) => [`${kind}/${metadata.name}`, metadata.generation]),
  )
}

/** The tests run in this order, and each adds definitions. */
describe('an API server', () => {
  it('without KEDA and the Prometheus operator says what is missing, and takes the rest', async (context) => {
    const server = await orSkip(context, found)
    const said = await refusals(server)
    for (const kind of ['ScaledObject', 'TriggerAuthentication', 'ServiceMonitor'])
      expect(said).toContain(`no matches for kind "${kind}"`)
    expect(said).toContain('ensure CRDs are installed first')
    expect(Object.keys(await deploymentsOf(server))).toEqual(DEPLOYMENTS)
  })

  it('with an older KEDA names the field that it lacks', async (context) => {
    const server = await orSkip(context, found)
    const old = await orSkip(
      context,
      goFiles('keda-2.16.1', {
        'github.com/kedacore/keda/v2@v2.16.1': ['config/crd/bases/keda.sh_scaledobjects.yaml'],
      }),
    )
    await server.define('--filename', old.folder)
    await server.define('--filename', server.prometheus)
    const before = await deploymentsOf(server)
    expect(await refusals(server)).toContain('unknown field "spec.fallback.behavior"')
    expect(await deploymentsOf(server)).toEqual(before)
  })

  it('takes the manifests, takes them again, a changed setting, and a changed tag', async (context) => {
    const server = await orSkip(context, found)
    await server.define('--kustomize', server.keda)
    await apply(server, {}, '1')
    expect(await apply(server, {}, '1')).toEqual([])

    const [settings, ...deployments] = await apply(server, { HUB_LOG_LEVEL: 'Debug' }, '1')
    expect(settings).toMatch(/^ConfigMap\/hub-settings-/u)
    expect(deployments).toEqual(DEPLOYMENTS)

    expect(await apply(server, { HUB_LOG_LEVEL: 'Debug' }, '2')).toEqual(DEPLOYMENTS)
    expect(await apply(server, {}, '1')).toEqual(DEPLOYMENTS)
  })
})
