/**
 * The programs of a cluster: found in a folder, or built from the Go modules of their projects.
 * Each is built once for each version.
 */
import {
  accessSync,
  constants,
  cpSync,
  existsSync,
  mkdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { delimiter, dirname, join } from 'node:path'
import { UserError } from '@hub/local-stack'
import type { Found } from '../../support/external-tools.ts'
import { run } from '../../support/shell.ts'

/** A Go module whose programs the cluster uses. */
interface Module {
  readonly module: string
  readonly version: string
  /** The packages of its programs, by the name of the program. */
  readonly programs: Readonly<Record<string, string>>
  /** The version of the modules that its repository keeps in folders, and that are published separately. */
  readonly staging?: string
  /** Flags of the linker. */
  readonly linkerFlags?: ReadonlyArray<string>
  /** Files of its source that the cluster needs too. */
  readonly files?: Readonly<Record<string, string>>
  /** Changes the source before the build. */
  readonly prepare?: (source: string) => void
}

const KUBERNETES = '1.34.4'

/** Without these, Kubernetes says that its version is 0.0.0, and clients refuse to work with it. */
const kubernetesVersion = ['k8s.io/component-base/version', 'k8s.io/client-go/pkg/version'].flatMap((path) =>
  [`gitVersion=v${KUBERNETES}`, 'gitMajor=1', 'gitMinor=34', 'gitTreeState=clean', 'gitCommit=local'].map(
    (value) => `-X ${path}.${value}`,
  ),
)

const CNI = './plugins'

export const MODULES: ReadonlyArray<Module> = [
  {
    module: 'k8s.io/kubernetes',
    version: `v${KUBERNETES}`,
    staging: `v0.${KUBERNETES.slice(2)}`,
    linkerFlags: kubernetesVersion,
    programs: Object.fromEntries(
      ['kube-apiserver', 'kube-controller-manager', 'kube-scheduler', 'kube-proxy', 'kubelet', 'kubectl'].map(
        (name) => [name, `./cmd/${name}`],
      ),
    ),
  },
  { module: 'go.etcd.io/etcd/server/v3', version: 'v3.6.5', programs: { etcd: '.' } },
  {
    module: 'github.com/containernetworking/plugins',
    version: 'v1.10.0',
    programs: {
      bridge: `${CNI}/main/bridge`,
      'host-local': `${CNI}/ipam/host-local`,
      loopback: `${CNI}/main/loopback`,
      portmap: `${CNI}/meta/portmap`,
    },
  },
  { module: 'helm.sh/helm/v3', version: 'v3.22.0', programs: { helm: './cmd/helm' } },
  { module: 'github.com/coredns/coredns', version: 'v1.14.7', programs: { coredns: '.' } },
  {
    module: 'github.com/cloudnativelabs/kube-router/v2',
    version: 'v2.1.0',
    programs: { 'kube-router': './cmd/kube-router' },
  },
  {
    module: 'github.com/kedacore/keda/v2',
    version: 'v2.21.0',
    programs: {
      keda: './cmd/operator',
      'keda-adapter': './cmd/adapter',
      'keda-admission-webhooks': './cmd/webhooks',
    },
    files: { 'keda-config': 'config' },
  },
  {
    module: 'github.com/prometheus-operator/prometheus-operator',
    version: 'v0.85.0',
    programs: {
      'prometheus-operator': './cmd/operator',
      'prometheus-config-reloader': './cmd/prometheus-config-reloader',
    },
    files: { crds: 'example/prometheus-operator-crd' },
  },
  {
    module: 'github.com/prometheus/prometheus',
    version: 'v0.305.0',
    programs: { prometheus: './cmd/prometheus' },
    // With the discovery of all clouds, the build takes three times as long.
    prepare: (source) => {
      rmSync(join(source, 'plugins'), { recursive: true })
      mkdirSync(join(source, 'plugins'))
      writeFileSync(
        join(source, 'plugins/plugins.go'),
        'package plugins\n\nimport _ "github.com/prometheus/prometheus/discovery/kubernetes"\n',
      )
    },
  },
]

/** The container of a pod that only holds its network: it waits for its end. */
const PAUSE = `package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	<-signals
}
`

/** Programs of the system, and the Debian package of each. */
const SYSTEM: Readonly<Record<string, string>> = {
  bash: 'bash',
  buildah: 'buildah',
  conntrack: 'conntrack',
  containerd: 'containerd',
  ctr: 'containerd',
  debootstrap: 'debootstrap',
  go: 'golang-go',
  ip: 'iproute2',
  ipset: 'ipset',
  iptables: 'iptables',
  nsenter: 'util-linux',
  runc: 'runc',
}

/** KEDA takes half an hour on two cores. */
const BUILT_WITHIN_MS = 3_600_000

const isProgram = (path: string): boolean => {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}

const onPath = (name: string): string | undefined =>
  (process.env['PATH'] ?? '')
    .split(delimiter)
    .map((folder) => join(folder, name))
    .find(isProgram)

/** What this machine lacks for a cluster of its own, with the way to get it. */
export const missingForCluster = (): ReadonlyArray<string> => [
  ...(process.platform === 'linux' ? [] : ['Linux']),
  ...(process.getuid?.() === 0 ? [] : ['the rights of root']),
  ...(existsSync('/sys/fs/cgroup/memory') ? [] : ['control groups of version 1 (/sys/fs/cgroup/memory)']),
  ...Object.entries(SYSTEM)
    .filter(([name]) => onPath(name) === undefined)
    .map(([name, debian]) => `${name} (Debian: apt-get install ${debian})`),
]

export interface Programs {
  /** The path of a program or of a folder of files. */
  readonly path: (name: string) => string
  /** The folder of the network plugins. */
  readonly plugins: string
}

const buildModule = async (one: Module, target: string, cacheDir: string): Promise<void> => {
  const source = join(cacheDir, 'source', one.module.replaceAll('/', '-'))
  rmSync(source, { recursive: true, force: true })
  const answer = await run('go', ['mod', 'download', '-json', `${one.module}@${one.version}`], {
    withinMs: BUILT_WITHIN_MS,
  })
  const { Dir, GoMod } = JSON.parse(answer) as { Dir: string; GoMod: string }
  cpSync(Dir, source, { recursive: true })
  await run('chmod', ['-R', 'u+w', source])
  rmSync(join(source, 'vendor'), { recursive: true, force: true })
  // An archive of a module does not contain the modules in its folders.
  const inFolders = [
    ...readFileSync(GoMod, 'utf8').matchAll(/^(?:replace)?\s*(\S+)(?: \S+)? => \.\.?\/.*$/gmu),
  ]
  for (const [, name] of inFolders) {
    const edit =
      one.staging === undefined ? `-dropreplace=${name}` : `-replace=${name}=${name}@${one.staging}`
    await run('go', ['mod', 'edit', edit], { cwd: source })
  }
  one.prepare?.(source)
  for (const [name, path] of Object.entries(one.programs)) {
    const flags = ['-s', '-w', ...(one.linkerFlags ?? [])].join(' ')
    await run('go', ['build', '-mod=mod', '-ldflags', flags, '-o', join(target, name), path], {
      cwd: source,
      withinMs: BUILT_WITHIN_MS,
      env: { CGO_ENABLED: '0', GOFLAGS: '-buildvcs=false', GOWORK: 'off' },
    })
  }
  for (const [name, path] of Object.entries(one.files ?? {}))
    cpSync(join(source, path), join(target, name), { recursive: true })
  rmSync(source, { recursive: true })
}

const buildPause = async (target: string, cacheDir: string): Promise<void> => {
  const source = join(cacheDir, 'source', 'pause')
  mkdirSync(source, { recursive: true })
  writeFileSync(join(source, 'main.go'), PAUSE)
  await run('go', ['build', '-ldflags', '-s -w', '-o', join(target, 'pause'), join(source, 'main.go')], {
    env: { CGO_ENABLED: '0', GO111MODULE: 'off' },
  })
}

/** Does not look on the PATH: the program of a distribution may be another version, or lack a part. */
const lookIn =
  (given: string | null, cacheDir: string) =>
  (name: string): string | undefined =>
    [...(given === null ? [] : [given]), join(cacheDir, 'programs')]
      .map((folder) => join(folder, name))
      .find((path) => existsSync(path))

/** The programs that are built. */
export const builtPrograms = (given: string | null, cacheDir: string): Programs => {
  const find = lookIn(given, cacheDir)
  const path = (name: string): string => {
    const found = find(name)
    if (found === undefined) throw new UserError(`${name} is not built: npm run cluster -- up builds it.`)
    return found
  }
  return {
    path,
    get plugins() {
      return dirname(path('host-local'))
    },
  }
}

/** Finds programs that are built already. Otherwise returns how to get them. */
export const findBuilt = (
  names: ReadonlyArray<string>,
  given: string | null,
  cacheDir: string,
): Found<Programs> => {
  const look = lookIn(given, cacheDir)
  const missing = names.filter((name) => look(name) === undefined)
  return missing.length === 0
    ? builtPrograms(given, cacheDir)
    : {
        missing: `${missing.join(', ')} not found: set HUB_CLUSTER_PROGRAMS to a folder with them, or run npm run cluster -- up, which builds them`,
      }
}

/** Builds the programs that are in no folder. */
export const buildPrograms = async (
  given: string | null,
  cacheDir: string,
  report: (line: string) => void,
): Promise<void> => {
  const missing = missingForCluster()
  if (missing.length > 0)
    throw new UserError(
      `This machine cannot run a cluster of its own: it lacks ${missing.join(', ')}. Or set KUBECONFIG to a cluster that exists.`,
    )
  const built = join(cacheDir, 'programs')
  mkdirSync(built, { recursive: true })
  const find = lookIn(given, cacheDir)
  const needed = [
    ...MODULES.map((one) => ({
      title: one.module,
      names: [...Object.keys(one.programs), ...Object.keys(one.files ?? {})],
      build: (target: string) => buildModule(one, target, cacheDir),
    })),
    { title: 'pause', names: ['pause'], build: (target: string) => buildPause(target, cacheDir) },
  ]
  for (const { build, names, title } of needed) {
    if (names.every((name) => find(name) !== undefined)) continue
    const began = performance.now()
    report(`building ${title}: once for this version`)
    const target = `${built}.new`
    rmSync(target, { recursive: true, force: true })
    mkdirSync(target, { recursive: true })
    await build(target)
    for (const name of names) cpSync(join(target, name), join(built, name), { recursive: true })
    rmSync(target, { recursive: true })
    report(`built ${title} in ${Math.round((performance.now() - began) / 1000)} s`)
  }
}
