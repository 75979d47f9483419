/**
 * Runs stages of the Dockerfile in folders, without Docker, with the Node and npm of this machine. It knows
 * the instructions that the stages of the console use, and refuses others.
 */
import { cpSync, existsSync, mkdirSync, statSync } from 'node:fs'
import { basename, delimiter, dirname, join, relative } from 'node:path'
import { ROOT } from '@hub/local-stack'
import { type Output, runTool } from '../../support/external-tools.ts'
import { isIgnored } from './check-manifests.ts'

interface Stage {
  readonly name: string
  readonly instructions: ReadonlyArray<string>
}

const stagesOf = (dockerfile: string): ReadonlyArray<Stage> => {
  const lines = dockerfile
    .replaceAll(/^#.*\n/gmu, '')
    .replaceAll(/\\\n/gu, ' ')
    .split('\n')
    .filter((line) => line.trim() !== '')
  const stages: Array<{ name: string; instructions: Array<string> }> = []
  for (const line of lines) {
    const from = /^FROM \S+(?: AS (?<name>\S+))?$/u.exec(line)
    if (from === null) stages.at(-1)?.instructions.push(line)
    else stages.push({ name: from.groups?.['name'] ?? '', instructions: [] })
  }
  return stages
}

interface StageOptions {
  readonly dockerfile: string
  readonly dockerignore: string
  /** An empty folder. Each stage gets a folder in it, which is the root of its file system. */
  readonly folder: string
  readonly withinMs: number
}

/** Runs one stage. Stages from which it copies must have run before. Returns the first failure. */
export const runStage = async (
  name: string,
  { dockerfile, dockerignore, folder, withinMs }: StageOptions,
): Promise<Output> => {
  const stage = stagesOf(dockerfile).find((one) => one.name === name)
  if (stage === undefined) return { code: 1, text: `the Dockerfile has no stage ${name}` }
  let work = join(folder, name)
  const copy = (words: ReadonlyArray<string>): Output => {
    const from = words.find((word) => word.startsWith('--from='))?.slice('--from='.length)
    const paths = words.filter((word) => !word.startsWith('--'))
    const to = join(work, paths.at(-1) ?? '')
    for (const path of paths.slice(0, -1)) {
      const source = from === undefined ? join(ROOT, path) : join(folder, from, path)
      if (!existsSync(source)) return { code: 1, text: `there is no ${path} to copy` }
      // The content of a folder is copied, and a file into the folder.
      cpSync(source, statSync(source).isDirectory() ? to : join(to, basename(path)), {
        recursive: true,
        filter: (file) => from !== undefined || !isIgnored(dockerignore, relative(ROOT, file)),
      })
    }
    return { code: 0, text: '' }
  }
  const run = (command: string): Promise<Output> =>
    runTool(
      'env',
      [
        `PATH=${[dirname(process.execPath), process.env['PATH'] ?? ''].join(delimiter)}`,
        'bash',
        '-euo',
        'pipefail',
        '-c',
        command,
      ],
      { cwd: work, withinMs },
    )
  for (const instruction of stage.instructions) {
    const [, verb = '', rest = ''] = /^(\S+) (.*)$/su.exec(instruction) ?? []
    let done: Output = { code: 0, text: '' }
    if (verb === 'WORKDIR') {
      work = join(folder, name, rest)
      mkdirSync(work, { recursive: true })
    } else if (verb === 'COPY') done = copy(rest.split(/\s+/u))
    else if (verb === 'RUN') done = await run(rest)
    else done = { code: 1, text: `the instruction ${verb} is not known here` }
    if (done.code !== 0) return { code: done.code, text: `${instruction}\n${done.text}` }
  }
  return { code: 0, text: '' }
}
