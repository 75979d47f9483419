/**
 * Global patch on import: a request for metadata fails with the error of a broker if all brokers fail.
 *
 * - kafkajs 2.2.4: it then returns `null` and drops the errors. The methods of the admin client that read
 *   the answer, such as `listTopics` and `describeCluster`, throw a TypeError.
 * - Why the hub needs more: hubctl shows the failure, and a TypeError says nothing about Kafka.
 * - Fails without the patch: `kafkajs-patches.unit.test.ts`, "fails with the error of a broker if none
 *   answers a request for metadata".
 * - Unnecessary when: `Cluster.metadata` throws the error of a broker.
 */
import { ClusterClass, type InnerCluster } from './internals.ts'

const load = ClusterClass.prototype.metadata

ClusterClass.prototype.metadata = async function (this: InnerCluster, request) {
  const metadata = await load.call(this, request)
  if (metadata !== null) return metadata
  const broker = await this.brokerPool.findConnectedBroker()
  return broker.metadata(request?.topics ?? [])
}
