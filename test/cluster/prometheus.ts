/** Reads the Prometheus of the cluster, through the API server. */
import type { Kubectl } from './kubectl.ts'

/** Returns `data` of the answer to a path of its HTTP API. */
export const askPrometheus = async (kubectl: Kubectl, path: string): Promise<any> => {
  const service = '/api/v1/namespaces/monitoring/services/prometheus-operated:9090/proxy'
  return JSON.parse(await kubectl.run(['get', '--raw', `${service}${path}`])).data
}
