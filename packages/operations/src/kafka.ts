/** The connection to Kafka of use cases that describe or change topics and consumer groups. */
import { catalogueConfig, kafkaConnectionConfig } from '@hub/kafka'
import { Config } from 'effect'

/** The client name that servers see. */
export const CLIENT = 'hub-operations'

/** The connection, and the options of the topic catalogue. */
export const kafkaConfig = Config.all([kafkaConnectionConfig(CLIENT), catalogueConfig])
