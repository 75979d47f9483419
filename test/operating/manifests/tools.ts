/** Renders manifests with kustomize, and validates them against published schemas. */
import { readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Found, goFiles, pythonTool, runTool } from '../../support/external-tools.ts'
import { type Doc, documentsIn } from './parse.ts'

const TOOL_WITHIN_MS = 60_000

/** The oldest supported version: the manifests use `preStop.sleep`. */
export const KUBERNETES = '1.30'

/** Schemas that are not part of Kubernetes, from the Go modules that publish them. */
const SCHEMAS = {
  'github.com/kedacore/keda/v2@v2.20.2': [
    'config/crd/bases/keda.sh_scaledobjects.yaml',
    'config/crd/bases/keda.sh_triggerauthentications.yaml',
  ],
  'github.com/prometheus-operator/prometheus-operator@v0.85.0': [
    'example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml',
    'example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml',
  ],
  'github.com/compose-spec/compose-go/v2@v2.16.2': ['schema/compose-spec.json'],
  // Resources of the Helm chart that the manifests do not have.
  'sigs.k8s.io/gateway-api@v1.6.3': ['config/crd/standard/gateway.networking.k8s.io_httproutes.yaml'],
  'github.com/cert-manager/cert-manager@v1.21.2': ['deploy/crds/cert-manager.io_certificates.yaml'],
  'github.com/external-secrets/external-secrets@v0.16.2': [
    'config/crds/bases/external-secrets.io_externalsecrets.yaml',
    'config/crds/bases/external-secrets.io_secretstores.yaml',
  ],
}

/** Renders a folder with the kustomize of kubectl. */
export const kustomize = async (path: string): Promise<ReadonlyArray<Doc>> => {
  const { code, text } = await runTool('kubectl', ['kustomize', path], { withinMs: TOOL_WITHIN_MS })
  if (code !== 0) throw new Error(text)
  return documentsIn(text)
}

export const kubectlMissing = async (): Promise<string | null> => {
  const there = await runTool('kubectl', ['version', '--client'], { withinMs: TOOL_WITHIN_MS })
  return there.code === 0 ? null : 'kubectl is not on the PATH'
}

export interface Manifests {
  readonly documents: ReadonlyArray<Doc>
  readonly compose?: Doc
}

/**
 * Returns the problems of each set. One run validates all sets, because reading the schemas takes longer than
 * the validation. `folder`: for temporary files.
 */
export const validate = async (
  sets: Readonly<Record<string, Manifests>>,
  folder: string,
): Promise<Found<Readonly<Record<string, ReadonlyArray<string>>>>> => {
  const validator = await pythonTool('kubernetes-validate', '1.37.0')
  if ('missing' in validator) return validator
  const schemas = await goFiles('manifest-schemas-4', SCHEMAS)
  if ('missing' in schemas) return schemas
  const files = readdirSync(schemas.folder).map((file) => join(schemas.folder, file))
  const input = join(folder, 'input.json')
  writeFileSync(
    input,
    JSON.stringify({
      sets,
      kubernetes: KUBERNETES,
      definitions: files.filter((file) => file.endsWith('.yaml')),
      schema: files.find((file) => file.endsWith('compose-spec.json')),
    }),
  )
  const ran = await runTool(
    join(validator.folder, 'bin/python'),
    [join(import.meta.dirname, 'validate.py'), input],
    { withinMs: TOOL_WITHIN_MS },
  )
  if (ran.code !== 0) throw new Error(ran.text)
  return JSON.parse(ran.text) as Readonly<Record<string, ReadonlyArray<string>>>
}

export const onceOnly = <A>(make: () => Promise<A>): (() => Promise<A>) => {
  let made: Promise<A> | null = null
  return () => (made ??= make())
}
