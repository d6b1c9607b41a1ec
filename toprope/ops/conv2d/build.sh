#!/bin/bash
# Builds build_out/custom_opp_<os>_<arch>.run. Needs a CANN toolkit; its path may be given as ASCEND_HOME_PATH.
set -e
cd "$(dirname "$0")"
cmake -S . -B build_out --preset=default ${ASCEND_HOME_PATH:+-DASCEND_CANN_PACKAGE_PATH="$ASCEND_HOME_PATH"}
cmake --build build_out --target binary -j"$(nproc)"
cmake --build build_out --target package -j"$(nproc)"
