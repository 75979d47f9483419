/** Reads the units of systemd as data. */
import { readdirSync } from 'node:fs'
import { ALL_APPS } from '@hub/config'
import { type Doc, type Source, textOf, type Workload, readerOf } from './parse.ts'

export const UNITS = 'infra/systemd/system'
const COMMON = `${UNITS}/sms-delivery-hub-.service.d/common.conf`
/** The program of Node in the units, before the arguments. */
const NODE = '/opt/sms-delivery-hub/current/bin/node'

/** The directives of a unit by name. A directive can be repeated (systemd.syntax(7)). */
export type Directives = ReadonlyMap<string, ReadonlyArray<string>>

export interface Unit {
  /** Without the ending. */
  readonly name: string
  readonly text: string
}

export const directivesIn = (text: string): Directives => {
  const found = new Map<string, Array<string>>()
  for (const line of text.split('\n')) {
    const [, name, value] = /^(?<name>[A-Za-z]+)=(?<value>.*)$/u.exec(line) ?? []
    if (name === undefined || value === undefined) continue
    found.set(name, [...(found.get(name) ?? []), value])
  }
  return found
}

export interface Units {
  readonly services: ReadonlyArray<Unit>
  readonly common: string
  readonly settings: string
  readonly secrets: string
}

export const readUnits = (): Units => ({
  services: readdirSync(new URL(`../../../${UNITS}`, import.meta.url))
    .filter((file) => file.endsWith('.service'))
    .map((file) => ({ name: file.replace('.service', ''), text: textOf(`${UNITS}/${file}`) })),
  common: textOf(COMMON),
  settings: textOf('infra/systemd/settings.env'),
  secrets: textOf('infra/systemd/secrets.env'),
})

/** The variables of an environment file. systemd removes the quotes around a value (systemd.exec(5)). */
const variablesIn = (text: string): ReadonlyArray<readonly [string, string]> =>
  text.split('\n').flatMap((line) => {
    const [, name, value] = /^(?<name>[A-Z_]+)=(?<value>.*)$/u.exec(line) ?? []
    return name === undefined || value === undefined
      ? []
      : [[name, value.replace(/^'(?<inner>.*)'$/u, '$1')] as const]
  })

/** The variables that a unit sets itself. */
export const environmentOf = (directives: Directives): ReadonlyArray<readonly [string, string]> =>
  (directives.get('Environment') ?? []).flatMap((line) =>
    line.split(' ').map((word) => {
      const mark = word.indexOf('=')
      return [word.slice(0, mark), word.slice(mark + 1)] as const
    }),
  )

/** The variables that systemd removes from what a unit gets. */
export const unsetIn = (directives: Directives): ReadonlyArray<string> =>
  (directives.get('UnsetEnvironment') ?? []).flatMap((line) => line.split(' '))

/** The commands of a directive, such as `ExecStart`, without the path of Node. */
export const commandsOf = (directives: Directives, name: string): ReadonlyArray<ReadonlyArray<string>> =>
  (directives.get(name) ?? []).map((line) =>
    (line.startsWith(`${NODE} `) ? line.slice(NODE.length + 1) : line).split(' '),
  )

export const unitWorkloads = ({ common, secrets, services, settings }: Units): ReadonlyArray<Workload> =>
  services.flatMap(({ name, text }) => {
    const directives = directivesIn(text)
    const unset = new Set(unsetIn(directives))
    const own = new Map<string, Source>([
      ...environmentOf(directives).map(([variable, value]) => [variable, { value }] as const),
      ...variablesIn(secrets)
        .filter(([variable]) => !unset.has(variable))
        .map(([variable]) => [variable, { secret: variable, optional: false }] as const),
    ])
    const shared = new Map<string, Source>(
      [...environmentOf(directivesIn(common)), ...variablesIn(settings)].map(([variable, value]) => [
        variable,
        { value },
      ]),
    )
    return commandsOf(directives, 'ExecStart').map((words): Workload => ({
      where: `systemd, ${name}`,
      reader: readerOf(words),
      words,
      own,
      shared,
    }))
  })

/** The memory limits of the apps in Kubernetes by app, as systemd writes them. */
const memoryOf = (deployments: ReadonlyArray<Doc>): ReadonlyMap<string, string> =>
  new Map(
    deployments.map(({ metadata, spec }) => [
      metadata.name,
      // `Mi` of Kubernetes is `M` of systemd: both have the base 1024.
      String(spec.template.spec.containers[0].resources.limits.memory).replace(/i$/u, ''),
    ]),
  )

/** Checks that each unit waits for the schema, gets the time to end, and has the memory limit of Kubernetes. */
export const unitFindings = (
  { secrets, services }: Units,
  deployments: ReadonlyArray<Doc>,
  graceS: (app: string) => number,
): ReadonlyArray<string> => {
  const memory = memoryOf(deployments)
  return [
    ...ALL_APPS.flatMap((app) => {
      const unit = services.find(({ name }) => name === `sms-delivery-hub-${app}`)
      if (unit === undefined) return [`systemd: there is no unit of ${app}`]
      const directives = directivesIn(unit.text)
      const valueOf = (name: string): string => directives.get(name)?.at(-1) ?? ''
      return [
        ...(commandsOf(directives, 'ExecStartPre')[0]?.join(' ') === 'programs/hubctl.mjs migrations wait'
          ? []
          : [`systemd, ${unit.name}: it does not wait for the schema`]),
        ...(Number(valueOf('TimeoutStopSec')) >= graceS(app)
          ? []
          : [`systemd, ${unit.name}: ${valueOf('TimeoutStopSec')} s are too short for its end`]),
        ...(valueOf('MemoryMax') === memory.get(app)
          ? []
          : [`systemd, ${unit.name}: its memory limit is not ${memory.get(app)}`]),
      ]
    }),
    ...variablesIn(secrets)
      .filter(([, value]) => value !== '')
      .map(([name]) => `systemd: secrets.env has a value for ${name}`),
  ]
}
