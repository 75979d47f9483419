/**
 * The hub in a Kubernetes cluster. README.md describes it.
 *
 *   npm run cluster -- up        starts a cluster and the servers of the hub, unless KUBECONFIG names a cluster
 *   npm run cluster -- deploy    applies the manifests of this checkout
 *   npm run cluster -- check     sends messages while the hub is disturbed, and judges the result
 *   npm run test:cluster         all of it, from an empty folder
 *   npm run cluster -- down      stops everything that `up` has started, and removes its data
 */
import { UserError } from '@hub/local-stack'
import { openCluster } from './cluster.ts'
import { deployHub } from './deploy.ts'
import { readClusterSettings } from './settings.ts'
import { TRIALS, runTrials } from './trials.ts'

const began = performance.now()
const report = (line: string): void =>
  console.log(`${((performance.now() - began) / 1000).toFixed(0).padStart(5)} s  ${line}`)

const USAGE = `usage: npm run cluster -- up [--keep-image] | deploy | check [trial …] | down
trials: ${Object.keys(TRIALS).join(', ')}`

const [command = '', ...names] = process.argv.slice(2)
try {
  const settings = readClusterSettings(process.env)
  const cluster = await openCluster(settings, report)
  const check = async (trials: ReadonlyArray<string>): Promise<void> => {
    if ((await runTrials(cluster, trials, report)) > 0) process.exitCode = 1
  }
  if (command === 'up') await cluster.up({ keepHubImage: names.includes('--keep-image') })
  else if (command === 'deploy') await deployHub(cluster, report)
  else if (command === 'check') await check(names)
  else if (command === 'test') {
    await cluster.down()
    try {
      await cluster.up({ keepHubImage: false })
      await check([])
    } finally {
      await cluster.down()
    }
  } else if (command === 'down') await cluster.down()
  else throw new UserError(USAGE)
} catch (error) {
  if (!(error instanceof UserError)) throw error
  console.error(error.message)
  process.exitCode = 1
}
// The started programs keep running, and they would keep this process too.
process.exit()
