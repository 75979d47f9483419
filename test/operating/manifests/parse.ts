/** Reads the manifests as data: workloads with their commands, settings and ports. */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { ROOT } from '@hub/local-stack'
import { ALL_APPS, type AnyApp } from '@hub/config'
import { parse, parseAllDocuments } from 'yaml'

/** The facts about the code that the manifests are compared with. */
export interface Code {
  /** Whether the sources of apps and packages contain a text. */
  readonly contains: (text: string) => boolean
  /** The names of the defined metrics. */
  readonly metrics: ReadonlySet<string>
  readonly exists: (path: string) => boolean
  readonly version: string
  /** The version of the npm package `node`, with which everything is tested. */
  readonly node: string
}

/** A YAML document. */
export type Doc = Record<string, any>

const BASE = 'infra/k8s/base'
export const OVERLAYS = ['small', 'large'] as const

export const textOf = (path: string): string => readFileSync(join(ROOT, path), 'utf8')

export const documentsIn = (text: string): ReadonlyArray<Doc> =>
  parseAllDocuments(text).map((document) => {
    const [error] = document.errors
    if (error !== undefined) throw error
    return document.toJS() as Doc
  })

/** The source of a setting. */
export type Source = { readonly value: string } | { readonly secret: string; readonly optional: boolean }

export interface Workload {
  /** The location for messages: the file or the service. */
  readonly where: string
  readonly reader: AnyApp | 'hubctl'
  /** The arguments of Node: flags, program, program arguments. */
  readonly words: ReadonlyArray<string>
  /** Settings of this workload. */
  readonly own: ReadonlyMap<string, Source>
  /** Settings that all workloads share. */
  readonly shared: ReadonlyMap<string, Source>
}

/** The file of a program in the image, as the Dockerfile bundles it. */
export const programInImage = (name: string): string => `programs/${name}.mjs`

/** Keeps a container running, in which people start hubctl. */
export const IDLE = 'infra/image/idle.ts'

/** Returns the program in a command. */
export const programOf = (words: ReadonlyArray<string>): string =>
  words.find((word) => word.endsWith('.mjs') || word === IDLE) ?? ''

export const readerOf = (words: ReadonlyArray<string>): Workload['reader'] =>
  ALL_APPS.find((app) => programOf(words) === programInImage(app)) ?? 'hubctl'

// Kubernetes

/** Parses a file of settings. */
export const settingsIn = (text: string): ReadonlyMap<string, Source> =>
  new Map(
    text
      .split('\n')
      .filter((line) => line.trim() !== '' && !line.startsWith('#'))
      .map((line) => {
        const mark = line.indexOf('=')
        return [line.slice(0, mark), { value: line.slice(mark + 1) }] as const
      }),
  )

const ofKubernetes = (entry: Doc): Source => {
  const { secretKeyRef } = entry['valueFrom'] ?? {}
  return secretKeyRef === undefined
    ? { value: String(entry['value']) }
    : { secret: `${secretKeyRef.name}/${secretKeyRef.key}`, optional: secretKeyRef.optional === true }
}

/** The deployments of apps, without that of hubctl. */
export const appsOf = (documents: ReadonlyArray<Doc>): ReadonlyArray<Doc> =>
  documents.filter(
    ({ kind, metadata }) => kind === 'Deployment' && ALL_APPS.some((app) => app === metadata.name),
  )

/** Returns every container with the image of the hub, including init containers. */
export const workloadsOf = (documents: ReadonlyArray<Doc>): ReadonlyArray<Workload> => {
  const maps = documents.filter(({ kind }) => kind === 'ConfigMap')
  return documents
    .filter(({ kind }) => kind === 'Deployment' || kind === 'Job')
    .flatMap((document) => {
      const pod = document['spec'].template.spec
      return [...(pod.initContainers ?? []), ...pod.containers].map((container: Doc): Workload => {
        const shared = (container['envFrom'] ?? []).flatMap((from: Doc) => {
          const map = maps.find(({ metadata }) => metadata.name === from['configMapRef']?.name)
          return Object.entries(map?.['data'] ?? {})
        }) as ReadonlyArray<[string, string]>
        const words = container['args'] ?? []
        return {
          where: `Kubernetes, ${document['kind']} ${document['metadata'].name}, ${container['name']}`,
          reader: readerOf(words),
          words,
          own: new Map((container['env'] ?? []).map((entry: Doc) => [entry['name'], ofKubernetes(entry)])),
          shared: new Map(shared.map(([name, value]) => [name, { value }])),
        }
      })
    })
}

/**
 * Renders the base without kubectl, as far as the checks need it: the patches supply defaults for
 * pods and containers, and the settings become a config map. The e2e test reads the overlays as
 * kustomize renders them.
 */
export const readBase = (): ReadonlyArray<Doc> => {
  const { configMapGenerator, namespace, patches, resources } =
    documentsIn(textOf(`${BASE}/kustomization.yaml`))[0] ?? {}
  const patchOf = ({ kind, metadata }: Doc): Doc | undefined => {
    const found = patches.find(
      ({ target }: Doc) => target.kind === kind && new RegExp(`^${target.name}$`, 'u').test(metadata.name),
    )
    return found === undefined ? undefined : documentsIn(textOf(`${BASE}/${found.path}`))[0]?.['spec']
  }
  const documents = (resources as ReadonlyArray<string>).flatMap((file) =>
    documentsIn(textOf(`${BASE}/${file}`)),
  )
  for (const document of documents) {
    const patch = patchOf(document)
    if (patch === undefined) continue
    const { template } = document['spec']
    const first = patch.template.spec.containers[0]
    document['spec'] = { ...patch, ...document['spec'] }
    template.spec = {
      ...patch.template.spec,
      ...template.spec,
      containers: template.spec.containers.map((container: Doc) =>
        container['name'] === first.name ? { ...first, ...container } : container,
      ),
    }
  }
  const maps = configMapGenerator.map(({ envs, name }: Doc) => ({
    kind: 'ConfigMap',
    metadata: { name, namespace },
    data: Object.fromEntries(
      [...settingsIn(textOf(`${BASE}/${envs[0]}`))].map(([key, source]) => [
        key,
        'value' in source ? source.value : '',
      ]),
    ),
  }))
  return [...documents, ...maps]
}

// Compose

export const COMPOSE = 'infra/compose/compose.yaml'
export const ENV_EXAMPLE = 'infra/compose/env.example'

export const readCompose = (): Doc => parse(textOf(COMPOSE), { merge: true }) as Doc

/**
 * `${NAME:?why}` requires a variable. `${NAME:-default}` has a default. Source: Compose
 * specification, Interpolation.
 */
const INTERPOLATION = /\$\{(?<name>\w+)(?:(?<how>:[?-])(?<word>[^}]*))?\}/gu

/** Returns the variables that Compose reads from its environment: the required ones, and all. */
export const interpolatedIn = (text: string) => {
  const found = [...text.matchAll(INTERPOLATION)].map(({ groups }) => groups ?? {})
  return {
    all: new Set(found.map(({ name }) => name ?? '')),
    required: new Set(found.filter(({ how }) => how === ':?').map(({ name }) => name ?? '')),
  }
}

const ofCompose = (value: unknown): Source => {
  const text = String(value)
  const [required] = interpolatedIn(text).required
  if (required !== undefined) return { secret: required, optional: false }
  const whole = /^\$\{(?<name>\w+):-\}$/u.exec(text)?.groups?.['name']
  if (whole !== undefined) return { secret: whole, optional: true }
  return {
    value: text.replaceAll(INTERPOLATION, (_all, _name, _how, word: string | undefined) => word ?? ''),
  }
}

export const composeWorkloads = (compose: Doc): ReadonlyArray<Workload> =>
  Object.entries(compose['services'] as Record<string, Doc>)
    .filter(([, { image }]) => String(image).startsWith('sms-delivery-hub:'))
    .map(([name, { command, environment }]) => ({
      where: `compose, ${name}`,
      reader: readerOf(command),
      words: command,
      own: new Map(Object.entries(environment).map(([setting, value]) => [setting, ofCompose(value)])),
      shared: new Map(),
    }))

// The code

const sourcesBelow = (folder: string): ReadonlyArray<string> =>
  readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
    .filter(
      (file) =>
        /(?:^|\/)src\//u.test(file) &&
        file.endsWith('.ts') &&
        !/\.(?:test|testing|contract)\.ts$/u.test(file),
    )
    .filter((file) => !file.includes('node_modules'))
    .map((file) => readFileSync(join(ROOT, folder, file), 'utf8'))

/** Returns the names of the metrics in the sources. A few other quoted names match too. */
const metricsIn = (sources: string): ReadonlySet<string> =>
  new Set([...sources.matchAll(/'(?<name>hub_[a-z0-9_]+)'/gu)].map(({ groups }) => groups?.['name'] ?? ''))

/** Reads the sources of apps and packages without tests, the version, and the Node version. */
export const readCode = (): Code => {
  const sources = [...sourcesBelow('apps'), ...sourcesBelow('packages')].join('\n')
  const cache = new Map<string, boolean>()
  const { dependencies, version } = JSON.parse(textOf('package.json')) as {
    readonly version: string
    readonly dependencies: { readonly node: string }
  }
  return {
    contains: (text) => {
      const found = cache.get(text) ?? sources.includes(text)
      cache.set(text, found)
      return found
    },
    metrics: metricsIn(sources),
    exists: (path) => existsSync(join(ROOT, path)),
    version,
    node: dependencies.node,
  }
}
