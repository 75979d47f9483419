/** Compares the files that editors and services of the repository read with the repository. */
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { assert, describe, it } from 'vitest'

const ROOT = join(import.meta.dirname, '../..')
const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8')
const json = (path: string): Readonly<Record<string, any>> => JSON.parse(read(path)) as Record<string, any>

describe('the files of the repository', () => {
  it('name the Node version of the tests', () => {
    const node = json('package.json')['dependencies'].node as string
    assert.strictEqual(read('.nvmrc').trim(), node)
    assert.include(json('.devcontainer/devcontainer.json')['image'], `:${node.split('.')[0]}-`)
  })

  it('name folders and files that exist, and one owner of everything', () => {
    const rules = read('CODEOWNERS')
      .split('\n')
      .filter((line) => line !== '' && !line.startsWith('#'))
      .map((line) => line.split(/\s+/u))
    assert.strictEqual(rules[0]?.[0], '*')
    for (const [path = '', ...owners] of rules) {
      if (path !== '*') assert.isTrue(existsSync(join(ROOT, path)), path)
      assert.isNotEmpty(owners, path)
    }
  })

  it('have the line width of the formatter', () => {
    assert.include(read('.editorconfig'), `max_line_length = ${json('.oxfmtrc.json')['printWidth']}\n`)
  })

  it('ask before an update of each library that the hub patches', () => {
    const asked = (json('renovate.json')['packageRules'] as ReadonlyArray<Record<string, any>>)
      .filter((rule) => rule['dependencyDashboardApproval'] === true)
      .flatMap((rule) => rule['matchPackageNames'] as ReadonlyArray<string>)
    for (const name of asked) {
      const owner = name === 'kafkajs' ? 'kafka' : 'store'
      assert.isTrue(existsSync(join(ROOT, `packages/${owner}/src/${name}-patches`)), name)
      assert.property(json(`packages/${owner}/package.json`)['dependencies'], name)
    }
    assert.sameMembers(asked, ['kafkajs', 'postgres'])
  })

  it('describe each place of the version', () => {
    const version = json('package.json')['version'] as string
    for (const path of [
      'packages/contract/src/api/hub-api.ts',
      'infra/image/Dockerfile',
      'infra/compose/compose.yaml',
      'infra/k8s/base/kustomization.yaml',
      'infra/helm/sms-delivery-hub/Chart.yaml',
    ]) {
      assert.include(read(path), version, path)
      assert.include(read('docs/releasing.md'), `(../${path})`)
    }
    assert.include(read('docs/release-notes.md'), `## ${version}\n`)
  })
})
