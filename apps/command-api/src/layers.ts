/** The connections and the keys of command-api. */
import { countersLayer } from '@hub/counters'
import { layerEventLog, layerKeysAndErasures, topicNames } from '@hub/kafka'
import { MasterKeyEncryption, PayloadEncryption, Sql } from '@hub/store'
import { AddressPolicy } from '@hub/webhooks'
import { Effect, Layer } from 'effect'
import { AdmissionControl } from './accept/admission/admission-control.ts'
import { APP, configuration } from './config.ts'

export const layers = Layer.unwrap(
  Effect.map(configuration, ({ catalogue: { partitions, prefix }, connection }) =>
    Layer.merge(AdmissionControl.layer(), PayloadEncryption.layer).pipe(
      Layer.provideMerge(layerKeysAndErasures(connection, topicNames(prefix))),
      Layer.provideMerge(
        Layer.mergeAll(
          Sql.layer(APP),
          countersLayer(APP),
          MasterKeyEncryption.layer,
          layerEventLog({ connection, partitions }),
          AddressPolicy.layer,
        ),
      ),
    ),
  ),
)
