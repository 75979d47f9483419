/**
 * The output of `dpkg-query --search`, captured in Debian 12 and 13 for the libraries of Node: for the path
 * that `ldd` prints, and for the path that it resolves to. The forms of the manual page of dpkg-query 1.22
 * that do not occur there are copied from it.
 */
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'

const packageIn = (output: string): string => {
  const { status, stderr, stdout } = spawnSync('bash', [join(import.meta.dirname, 'package-of.sh')], {
    input: output,
    encoding: 'utf8',
  })
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
  return stdout.trim()
}

describe('the package of a library', () => {
  it.each([
    ['Debian 12', 'libc6:amd64: /lib/x86_64-linux-gnu/libdl.so.2\n', 'libc6:amd64'],
    ['Debian 12', 'libc6:amd64: /lib64/ld-linux-x86-64.so.2\n', 'libc6:amd64'],
    ['Debian 12', 'libstdc++6:amd64: /usr/lib/x86_64-linux-gnu/libstdc++.so.6.0.30\n', 'libstdc++6:amd64'],
    ['Debian 13', 'libgcc-s1:amd64: /usr/lib/x86_64-linux-gnu/libgcc_s.so.1\n', 'libgcc-s1:amd64'],
    [
      'Debian 13, with a diversion',
      `diversion by libc6 from: /lib64/ld-linux-x86-64.so.2
diversion by libc6 to: /lib64/ld-linux-x86-64.so.2.usr-is-merged
libc6:amd64: /usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2
`,
      'libc6:amd64',
    ],
    [
      'the manual page, a local diversion',
      `local diversion from: /usr/lib/libc.so.6
local diversion to: /usr/lib/libc.so.6.distrib
libc6: /usr/lib/libc.so.6
`,
      'libc6',
    ],
    ['the manual page, several owners', 'pkgname1, pkgname2: /usr/share/doc\n', 'pkgname1'],
    [
      'several architectures',
      'libc6:amd64, libc6:i386: /usr/share/doc/libc6/copyright\nlibc6:amd64: /usr/share/doc\n',
      'libc6:amd64',
    ],
    ['nothing', '', ''],
    ['only a diversion', 'diversion by libc6 from: /lib64/ld-linux-x86-64.so.2\n', ''],
  ])('%s', (_where, output, expected) => {
    expect(packageIn(output)).toBe(expected)
  })
})
