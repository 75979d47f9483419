/** Generates `docs/chart.md` from the comments of `values.yaml`. */
import { isAlias, isMap, isScalar, type Node, parseDocument, type YAMLMap } from 'yaml'

interface Value {
  readonly path: string
  /** As JSON, or null for a group. */
  readonly otherwise: string | null
  readonly comment: string
}

const sentence = (comment: string | null | undefined): string =>
  (comment ?? '')
    .split('\n')
    .map((line) => line.trim())
    .join(' ')
    .trim()

type Mapping = YAMLMap<Node, Node | null>

const valuesIn = (map: Mapping, path: string): ReadonlyArray<Value> =>
  map.items.flatMap(({ key, value }, index): ReadonlyArray<Value> => {
    const name = isScalar(key) ? String(key.value) : ''
    const own = path === '' ? name : `${path}.${name}`
    // The parser keeps a comment before the first key at the map.
    const comment = sentence(key.commentBefore ?? (index === 0 ? map.commentBefore : null))
    if (isMap(value) && value.flow !== true)
      return [{ path: own, otherwise: null, comment }, ...valuesIn(value as Mapping, own)]
    const otherwise = isAlias(value) ? null : JSON.stringify(value?.toJSON() ?? null)
    return [{ path: own, otherwise, comment }]
  })

/** The values in their order. */
export const valuesOf = (text: string): ReadonlyArray<Value> =>
  valuesIn(parseDocument(text).contents as Mapping, '')

/** Longer defaults are easier to read in the file. */
const LONGEST_DEFAULT = 100

const line = ({ comment, otherwise, path }: Value): string => {
  const shown = otherwise !== null && otherwise.length <= LONGEST_DEFAULT ? ` (\`${otherwise}\`)` : ''
  return `- \`${path}\`${shown}${comment === '' ? '' : `: ${comment}`}`
}

export const valuesPage = (text: string): string => {
  const values = valuesOf(text).filter(({ comment, otherwise }) => comment !== '' || otherwise !== null)
  const groups = [...new Set(values.map(({ path }) => path.split('.')[0]!))]
  return [
    '# Values of the Helm chart',
    '',
    'This page is generated from the comments of `infra/helm/sms-delivery-hub/values.yaml` with `npm run generate`.',
    '[Deploying](deploying.md#helm) describes how to install the chart. Defaults are in brackets. Long ones are in the file.',
    ...groups.flatMap((group) => [
      '',
      `## \`${group}\``,
      '',
      ...values.filter(({ path }) => path.split('.')[0] === group).map(line),
    ]),
    '',
  ].join('\n')
}
