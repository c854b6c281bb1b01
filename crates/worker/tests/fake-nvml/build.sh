#!/bin/sh
# Builds the fake NVML to the given path: build.sh TARGET.so
# Run a program with it: WARPYARD_FAKE_NVML=world.txt, and the library's path where NVML's is configured.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
exec cc -std=gnu11 -shared -fPIC -pthread -O1 -Wall -Wextra -Werror -o "${1:?usage: build.sh TARGET.so}" "$here/nvml.c" -ldl
