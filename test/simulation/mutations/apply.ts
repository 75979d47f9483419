/**
 * Applies a mutation to the source of its file. Code is compared as syntax trees, so formatting and comments do
 * not matter.
 */
import { parseSync } from 'rolldown/utils'

/** Replaces a part of a declaration. */
export interface Change {
  /** The name of a function, method, class or constant. `a.b`: the `b` that is declared in `a`. */
  readonly in: string
  /** An expression, or one or more statements. It occurs once in the declaration. */
  readonly find: string
  readonly replace: string
}

export interface Mutation extends Change {
  readonly name: string
  /** From the root of the repository. */
  readonly file: string
  /** Another change of the file: to a second mechanism, which would hide the fault. */
  readonly also?: Change
}

interface Node {
  readonly type: string
  readonly start: number
  readonly end: number
}

const isNode = (value: unknown): value is Node =>
  typeof value === 'object' && value !== null && 'type' in value && 'start' in value

const OPTIONS = { preserveParens: false }

const parse = (source: string): Node => {
  const { errors, program } = parseSync('mutated.ts', source, OPTIONS)
  if (errors[0] !== undefined) throw new Error(errors[0].message)
  return program
}

/** The nodes directly below a node: those of each property. */
const childrenOf = (node: Node): ReadonlyArray<ReadonlyArray<Node>> =>
  Object.values(node).map((value) => [value].flat().filter(isNode))

const descendantsOf = (node: Node): ReadonlyArray<Node> =>
  childrenOf(node)
    .flat()
    .flatMap((child) => [child, ...descendantsOf(child)])

// ---- declarations

/** A function, or what a call makes of one. */
const isFunction = (value: unknown): boolean => isNode(value) && /Function|Call/u.test(value.type)
const isLiteral = (value: unknown): boolean => isNode(value) && value.type === 'Literal'

/** The name that a node declares, if it declares one. */
const nameOf = (node: Node): string | null => {
  const { id, init, key, value } = node as Partial<Record<'id' | 'init' | 'key' | 'value', unknown>>
  switch (node.type) {
    case 'ClassDeclaration':
    case 'FunctionDeclaration':
      return identifierOf(id)
    case 'VariableDeclarator':
      return isFunction(init) || isLiteral(init) ? identifierOf(id) : null
    case 'MethodDefinition':
    case 'PropertyDefinition':
      return identifierOf(key)
    case 'Property':
      return isFunction(value) ? identifierOf(key) : null
    default:
      return null
  }
}

const identifierOf = (node: unknown): string | null => {
  if (!isNode(node) || !('name' in node)) return null
  return `${node.type === 'PrivateIdentifier' ? '#' : ''}${String(node.name)}`
}

/** The declarations with a name below a node. `[]`: the node itself. */
const declarationsOf = (node: Node, [name, ...inner]: ReadonlyArray<string>): ReadonlyArray<Node> =>
  name === undefined
    ? [node]
    : descendantsOf(node)
        .filter((one) => nameOf(one) === name)
        .flatMap((one) => declarationsOf(one, inner))

// ---- patterns

/** Where a node is, and how its value is written. */
const OF_TEXT = new Set(['start', 'end', 'raw'])

const isSame = (one: unknown, other: unknown): boolean => {
  if (typeof one !== 'object' || typeof other !== 'object' || one === null || other === null)
    return one === other
  const [a, b] = [one, other].map((value) => Object.entries(value).filter(([key]) => !OF_TEXT.has(key)))
  const others = new Map<string, unknown>(b)
  return a!.length === b!.length && a!.every(([key, value]) => isSame(value, others.get(key)))
}

/** The statements of a function. They may contain `return`, `yield` and private names. */
const statementsOf = (text: string): ReadonlyArray<Node> => {
  const { errors, program } = parseSync('pattern.ts', `class _ { async *_() {\n${text}\n} }`, OPTIONS)
  if (errors.length > 0) return []
  return childrenOf(descendantsOf(program).find(({ type }) => type === 'BlockStatement')!).flat()
}

/** The expression or the statements of a pattern. */
const patternOf = (text: string): ReadonlyArray<Node> => {
  const [expression] = statementsOf(`return (${text}\n)`)
  const pattern = expression === undefined ? statementsOf(text) : childrenOf(expression).flat()
  if (pattern.length === 0) throw new Error(`${text || 'nothing'} is neither an expression nor statements`)
  return pattern
}

/** The places in a node that are the same as a pattern: from the start of the first node to the end of the last. */
const placesOf = (node: Node, pattern: ReadonlyArray<Node>): ReadonlyArray<readonly [number, number]> =>
  [node, ...descendantsOf(node)].flatMap(childrenOf).flatMap((nodes) =>
    nodes.flatMap((first, i) => {
      // Most nodes differ in their type.
      if (first.type !== pattern[0]!.type) return []
      const found = nodes.slice(i, i + pattern.length)
      return isSame(found, pattern) ? [[first.start, found.at(-1)!.end] as const] : []
    }),
  )

// ---- changes

const only = <A>(found: ReadonlyArray<A>, what: string): A => {
  if (found.length !== 1) throw new Error(`${what} occurs ${found.length} times, not once`)
  return found[0]!
}

const change = (source: string, { find, in: path, replace }: Change): string => {
  const declaration = only(declarationsOf(parse(source), path.split('.')), `the declaration ${path}`)
  const [start, end] = only(placesOf(declaration, patternOf(find)), `in ${path}, ${find}`)
  const changed = source.slice(0, start) + replace + source.slice(end)
  if (isSame(parse(changed), parse(source))) throw new Error(`the replacement is the same as ${find}`)
  return changed
}

/** Throws if a declaration or the text to find does not occur once. */
export const applyMutation = (source: string, { also, file, name, ...first }: Mutation): string => {
  try {
    return [first, ...(also === undefined ? [] : [also])].reduce(change, source)
  } catch (error) {
    throw new Error(`The mutation "${name}" does not fit ${file}: ${String(error)}`, { cause: error })
  }
}
