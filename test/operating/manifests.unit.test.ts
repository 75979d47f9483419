/** Checks that the manifests and the code agree, and that each kind of error is detected. */
import { describe, expect, it } from 'vitest'
import {
  composeFindings,
  graceS,
  imageFileFindings,
  kubernetesFindings,
  workloadFindings,
} from './manifests/check-manifests.ts'
import {
  appsOf,
  COMPOSE,
  composeWorkloads,
  documentsIn,
  ENV_EXAMPLE,
  readBase,
  readCompose,
  readCode,
  textOf,
  workloadsOf,
} from './manifests/parse.ts'
import { readUnits, unitFindings, unitWorkloads } from './manifests/units.ts'

const code = readCode()

const originals = {
  base: [...readBase()],
  compose: readCompose(),
  composeText: textOf(COMPOSE),
  envExample: textOf(ENV_EXAMPLE),
  prometheus: documentsIn(textOf('infra/compose/prometheus.yml'))[0] ?? {},
  dockerfile: textOf('infra/image/Dockerfile'),
  dockerignore: textOf('.dockerignore'),
  compile: textOf('infra/image/compile.ts'),
  units: readUnits(),
}
type Read = typeof originals

/** Returns a copy of all manifests that a test can modify. */
const read = (): Read => structuredClone(originals)

const findingsOf = ({ base, compose, composeText, envExample, prometheus, units, ...image }: Read) => [
  ...workloadFindings(workloadsOf(base)),
  ...workloadFindings(composeWorkloads(compose)),
  ...kubernetesFindings(base, code),
  ...composeFindings(compose, { text: composeText, envExample, prometheus }, code),
  ...imageFileFindings(image, code),
  ...workloadFindings(unitWorkloads(units)),
  ...unitFindings(units, appsOf(base), graceS),
]

describe('the manifests', () => {
  it('agree with the code', () => {
    expect(findingsOf(read())).toEqual([])
  })

  const found = (all: Read, kind: string, name: string) =>
    all.base.find((document) => document['kind'] === kind && document['metadata'].name === name)?.['spec']
  const container = (all: Read, name: string) => found(all, 'Deployment', name).template.spec.containers[0]
  const trigger = (all: Read, name: string) => found(all, 'ScaledObject', name).triggers[0].metadata
  const settings = (all: Read) => all.base.find((document) => document['kind'] === 'ConfigMap')?.['data']
  const service = (all: Read, name: string) => all.compose['services'][name]

  const changeUnit = (all: Read, name: string, from: RegExp | string, to: string): void => {
    all.units = {
      ...all.units,
      services: all.units.services.map((unit) =>
        unit.name === `sms-delivery-hub-${name}` ? { ...unit, text: unit.text.replace(from, to) } : unit,
      ),
    }
  }

  const mistakes: ReadonlyArray<readonly [what: string, corrupt: (all: Read) => void, expected: RegExp]> = [
    ['an unknown setting', (all) => (settings(all)['HUB_PARTITION'] = '6'), /no setting HUB_PARTITION$/mu],
    [
      'a malformed value',
      (all) => (settings(all)['HUB_PARTITIONS'] = 'many'),
      /HUB_PARTITIONS is something else/u,
    ],
    [
      'a required setting that is missing',
      (all) => container(all, 'projector').env.splice(1, 1),
      /HUB_DATABASE_URL is not set/u,
    ],
    [
      'a secret in plain text',
      (all) => container(all, 'projector').env.push({ name: 'HUB_MASTER_KEY', value: 'A'.repeat(43) + '=' }),
      /HUB_MASTER_KEY is a secret/u,
    ],
    [
      'a secret for an app that does not read it',
      (all) => container(all, 'projector').env.push({ name: 'HUB_REDIS_URL', value: '' }),
      /HUB_REDIS_URL is given to an app/u,
    ],
    [
      'a program that does not exist',
      (all) => (container(all, 'projector').args[1] = 'programs/journal.mjs'),
      /no program programs\/journal\.mjs/u,
    ],
    [
      'other Node flags',
      (all) => (container(all, 'dispatcher').args[1] = '--max-old-space-size=512'),
      /Node is started with/u,
    ],
    [
      'a port without a listener',
      (all) => (container(all, 'command-api').ports[0].containerPort = 8080),
      /port api is 8080/u,
    ],
    [
      'a probe of a path that does not exist',
      (all) =>
        (container(all, 'command-api').readinessProbe = { httpGet: { path: '/ready', port: 'admin' } }),
      /readinessProbe asks \/ready/u,
    ],
    [
      'a grace period that is shorter than the requests of command-api and its preStop',
      (all) => (found(all, 'Deployment', 'command-api').template.spec.terminationGracePeriodSeconds = 30),
      /Kubernetes, Deployment command-api: a grace period of 30 s is too short/u,
    ],
    [
      'an operator that cannot be configured',
      (all) => delete service(all, 'dispatcher').environment.HUB_OPERATOR_HTTP_SECRET,
      /compose, dispatcher: HUB_OPERATOR_HTTP_SECRET cannot be set/u,
    ],
    [
      'a grace period of Compose that is too short',
      (all) => (service(all, 'command-api').stop_grace_period = '15s'),
      /compose, command-api: a grace period of 15 s is too short/u,
    ],
    [
      'a container with a writable file system',
      (all) => (container(all, 'projector').securityContext = {}),
      /Deployment projector, app: it has more privileges/u,
    ],
    [
      'a service without a listener',
      (all) => (found(all, 'Service', 'command-api').ports[0].targetPort = 'http'),
      /no container listens on http/u,
    ],
    [
      'a monitor of another port',
      (all) => (found(all, 'ServiceMonitor', 'projector').endpoints[0].port = 'metrics'),
      /no \/metrics at metrics/u,
    ],
    [
      'a topic that is not in the catalogue',
      (all) => (trigger(all, 'dispatcher').topic = 'hub.accepted.v1'),
      /no topic hub\.accepted\.v1/u,
    ],
    [
      'an unknown consumer group',
      (all) => (trigger(all, 'webhook-fanout').consumerGroup = 'hub.webhooks'),
      /no consumer group hub\.webhooks/u,
    ],
    [
      'a trigger that names only some brokers',
      (all) => (trigger(all, 'projector').bootstrapServers = 'kafka-0.kafka.hub-data:9093'),
      /kafka-0\.kafka\.hub-data:9093 is not HUB_KAFKA_BROKERS/u,
    ],
    [
      'a trigger without TLS',
      (all) => delete trigger(all, 'projector').tls,
      /ScaledObject projector: its trigger reads Kafka without TLS/u,
    ],
    [
      'a scaling without a fallback',
      (all) => delete found(all, 'ScaledObject', 'projector').fallback,
      /ScaledObject projector: no fallback/u,
    ],
    [
      'brokers without TLS',
      (all) => delete settings(all)['HUB_KAFKA_TLS'],
      /Deployment projector, app: HUB_KAFKA_BROKERS allows connections/u,
    ],
    [
      'a server that is exempt from TLS',
      (all) => (settings(all)['HUB_PLAINTEXT_SERVERS'] = 'redis'),
      /HUB_PLAINTEXT_SERVERS permits/u,
    ],
    [
      'a policy that permits a port without TLS',
      (all) => (found(all, 'NetworkPolicy', 'servers').egress[1].ports[0].port = 9092),
      /NetworkPolicy servers: port 9092 has no TLS/u,
    ],
    [
      'an unknown metric',
      (all) =>
        (trigger(all, 'command-api').query = 'sum(rate(hub_http_requests_total{namespace="sms-hub"}[1m]))'),
      /no metric hub_http_requests_total/u,
    ],
    [
      'more instances than partitions',
      (all) => (found(all, 'ScaledObject', 'projector').maxReplicaCount = 49),
      /49 instances and 48 partitions/u,
    ],
    [
      'a policy that permits private addresses',
      (all) => found(all, 'NetworkPolicy', 'webhook-fanout').egress[0].to[0].ipBlock.except.splice(1, 1),
      /10\.0\.0\.1 is not public but permitted/u,
    ],
    [
      'another app that may reach the internet',
      (all) => (found(all, 'NetworkPolicy', 'dispatcher').egress[0].to[0].ipBlock.cidr = '0.0.0.0/0'),
      /NetworkPolicy dispatcher: it permits traffic/u,
    ],
    [
      'an operations API behind the ingress of clients',
      (all) =>
        (found(all, 'NetworkPolicy', 'operations-api').ingress[0].from[0].namespaceSelector.matchLabels[
          'kubernetes.io/metadata.name'
        ] = 'ingress'),
      /clients reach operations-api from the namespace ingress/u,
    ],
    [
      'an operations API that every pod may reach',
      (all) => delete found(all, 'NetworkPolicy', 'operations-api').ingress[0].from,
      /clients reach operations-api from the namespace any/u,
    ],
    [
      'a login link in production',
      (all) =>
        container(all, 'operations-api').env.push({
          name: 'HUB_OPERATIONS_LOCAL_SECRET',
          value: 'a secret of at least 32 characters',
        }),
      /HUB_OPERATIONS_LOCAL_SECRET permits sign-ins without the identity provider/u,
    ],
    [
      'policies without a default deny',
      (all) =>
        all.base.splice(
          all.base.findIndex((document) => document['kind'] === 'NetworkPolicy'),
          1,
        ),
      /no policy denies/u,
    ],
    [
      'a job, which cannot be applied again',
      (all) =>
        all.base.push({
          kind: 'Job',
          metadata: { name: 'migrations' },
          spec: { template: { spec: { containers: [] } } },
        }),
      /Job migrations: it cannot be applied again/u,
    ],
    [
      'a doctor that does not reach an app',
      (all) => (container(all, 'hubctl').env[1].value = 'command-api=http://command-api-admin:7390'),
      /doctor does not reach dispatcher/u,
    ],
    [
      'a setting missing in compose',
      (all) => delete service(all, 'command-api').environment.HUB_NUMBER_HASH_SECRET,
      /compose, command-api: HUB_NUMBER_HASH_SECRET is not set/u,
    ],
    [
      'a mounted file that does not exist',
      (all) => service(all, 'prometheus').volumes.push('./rules.yml:/rules.yml:ro'),
      /no \.\/rules\.yml/u,
    ],
    [
      'an image without a version',
      (all) => (service(all, 'redis').image = 'redis:latest'),
      /redis:latest has no version/u,
    ],
    [
      'a scrape of another port',
      (all) => (service(all, 'projector').environment.HUB_ADMIN_PORT = 7391),
      /no scrape of projector at 7391/u,
    ],
    [
      'alerts without the address of the runbooks',
      (all) => delete all.prometheus['global'].external_labels,
      /the alerts have no address of the runbooks/u,
    ],
    [
      'a Prometheus that does not get the address of the runbooks',
      (all) => delete service(all, 'prometheus').environment,
      /the alerts have no address of the runbooks/u,
    ],
    [
      'a secret that is missing in env.example',
      (all) => (all.envExample = all.envExample.replace('GRAFANA_PASSWORD', 'GRAFANA')),
      /does not name GRAFANA_PASSWORD/u,
    ],
    [
      'an image with another Node version',
      (all) => (all.dockerfile = all.dockerfile.replaceAll('node:24', 'node:22')),
      /its Node version is not/u,
    ],
    [
      'an image whose base has no digest',
      (all) => (all.dockerfile = all.dockerfile.replace(/@sha256:\w+/u, '')),
      /its base has no digest/u,
    ],
    [
      'an image of a folder that does not exist',
      (all) => (all.dockerfile = all.dockerfile.replace('COPY apps apps', 'COPY services apps')),
      /there is no services/u,
    ],
    [
      'an image of a folder that its builder does not get',
      (all) => (all.dockerignore = all.dockerignore.replace('!infra/bundle\n', '')),
      /the builder does not get infra\/bundle/u,
    ],
    [
      'a unit of systemd that gives a secret to an app that does not read it',
      (all) => changeUnit(all, 'projector', /^UnsetEnvironment=HUB_REDIS_URL /mu, 'UnsetEnvironment='),
      /systemd, sms-delivery-hub-projector: HUB_REDIS_URL is given to an app/u,
    ],
    [
      'a unit of systemd without a required secret',
      (all) => changeUnit(all, 'dispatcher', /^UnsetEnvironment=/mu, 'UnsetEnvironment=HUB_REDIS_URL '),
      /systemd, sms-delivery-hub-dispatcher: .*HUB_REDIS_URL is not set/u,
    ],
    [
      'a unit of systemd with other flags',
      (all) => changeUnit(all, 'dispatcher', '--max-semi-space-size=8', '--max-semi-space-size=16'),
      /systemd, sms-delivery-hub-dispatcher: Node is started with/u,
    ],
    [
      'a unit of systemd that gives an app too little time to end',
      (all) => changeUnit(all, 'command-api', /^TimeoutStopSec=\d+$/mu, 'TimeoutStopSec=20'),
      /systemd, sms-delivery-hub-command-api: 20 s are too short/u,
    ],
    [
      'a unit of systemd with another memory limit than in Kubernetes',
      (all) => changeUnit(all, 'projector', 'MemoryMax=1G', 'MemoryMax=512M'),
      /systemd, sms-delivery-hub-projector: its memory limit is not 1G/u,
    ],
    [
      'a unit of systemd that does not wait for the schema',
      (all) => changeUnit(all, 'projector', /^ExecStartPre=.*\n/mu, ''),
      /systemd, sms-delivery-hub-projector: it does not wait for the schema/u,
    ],
    [
      'a unit of systemd that prepares no topics',
      (all) => changeUnit(all, 'prepare', 'topics apply', 'topics status'),
      /nothing runs hubctl topics apply/u,
    ],
    [
      'a secret in the example of secrets.env',
      (all) =>
        (all.units = {
          ...all.units,
          secrets: all.units.secrets.replace('HUB_REDIS_URL=', 'HUB_REDIS_URL=rediss://'),
        }),
      /secrets\.env has a value for HUB_REDIS_URL/u,
    ],
    [
      'a setting in settings.env that does not exist',
      (all) => (all.units = { ...all.units, settings: `${all.units.settings}HUB_PARTITION=6\n` }),
      /there is no setting HUB_PARTITION$/mu,
    ],
  ]
  it.each(mistakes)('report %s', (_what, corrupt, expected) => {
    const all = read()
    corrupt(all)
    expect(findingsOf(all).join('\n')).toMatch(expected)
  })
})
