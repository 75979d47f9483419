#!/usr/bin/env bash
# Reads the output of `dpkg-query --search` and prints the first package in it, such as `libc6:amd64`.
# A line is `<package>[, <package>…]: <path>` (dpkg-query(1)). Lines about diversions begin with
# `diversion by <package> from: ` or `local diversion to: `, which is no list of packages.
set -euo pipefail
sed -nE '/^[a-z0-9][a-z0-9+.-]+(:[a-z0-9-]+)?(, [a-z0-9][a-z0-9+.-]+(:[a-z0-9-]+)?)*: \// { s/(,|: ).*//; p; q }'
