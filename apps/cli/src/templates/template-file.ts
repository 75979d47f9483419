/**
 * A template as a file: `order_ready.txt` with lines `class:`, `sender:` and perhaps `language:`, an
 * empty line, and the text.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { refused } from '@hub/command-line'

export interface TemplateFile {
  readonly name: string
  readonly class: 'otp' | 'service'
  readonly sender: string
  readonly language: string | null
  readonly body: string
}

const ENDING = '.txt'
const FIELDS = ['class', 'sender', 'language'] as const
type Field = (typeof FIELDS)[number]

const failAt = (path: string, line: number, problem: string): never => {
  throw refused('template_file_invalid', `${path}: line ${line}: ${problem}.`)
}

export const parseTemplateFile = (name: string, path: string, text: string): TemplateFile => {
  const lines = text
    .replace(/^\ufeff/u, '')
    .replaceAll('\r\n', '\n')
    .split('\n')
  const values: Partial<Record<Field, string>> = {}
  const end = lines.indexOf('')
  if (end === -1) return failAt(path, lines.length, 'an empty line must separate the fields from the text')
  for (const [index, line] of lines.slice(0, end).entries()) {
    const [, key = '', value = ''] = /^(\w+):\s*(.*)$/u.exec(line) ?? []
    const field = FIELDS.find((one) => one === key)
    if (field === undefined)
      return failAt(path, index + 1, `a field must be one of ${FIELDS.join(', ')}, with a colon`)
    if (values[field] !== undefined) return failAt(path, index + 1, `${field} is given twice`)
    values[field] = value.trim()
  }
  const { class: messageClass, language, sender } = values
  if (messageClass !== 'otp' && messageClass !== 'service') {
    return failAt(path, 1, 'class must be otp or service')
  }
  if (sender === undefined || sender === '') return failAt(path, 1, 'sender is missing')
  const body = lines
    .slice(end + 1)
    .join('\n')
    .replace(/\n+$/u, '')
  if (body === '') return failAt(path, end + 2, 'the text is missing')
  return { name, class: messageClass, sender, language: language ?? null, body }
}

/** All templates of a folder, by name. */
export const readTemplateFolder = (folder: string): ReadonlyArray<TemplateFile> => {
  const names = readdirSync(folder)
    .filter((file) => file.endsWith(ENDING))
    .sort()
  if (names.length === 0) {
    throw refused('no_templates', `${folder} has no file with the ending ${ENDING}.`)
  }
  return names.map((file) => {
    const path = join(folder, file)
    return parseTemplateFile(file.slice(0, -ENDING.length), path, readFileSync(path, 'utf8'))
  })
}
