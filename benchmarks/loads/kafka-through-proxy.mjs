/**
 * Preloaded into an app (`NODE_OPTIONS=--import …`): connects to a proxy instead of the broker. A client
 * of Kafka connects to the address that the broker announces, so the address of the proxy in the
 * settings is not enough. `BENCH_KAFKA_PROXY`: `<port of the broker>:<port of the proxy>`.
 */
import net from 'node:net'

const [broker, proxy] = (process.env['BENCH_KAFKA_PROXY'] ?? '').split(':').map(Number)
const connect = net.connect
net.connect = (target, ...rest) =>
  connect(typeof target === 'object' && target.port === broker ? { ...target, port: proxy } : target, ...rest)
