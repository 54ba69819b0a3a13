# SPDX-License-Identifier: Apache-2.0
# Every library from outside, found through pkg-config: PkgConfig::UV, PkgConfig::SQLITE, ...
# Versions are Debian 12's.

find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)

pkg_check_modules(UV REQUIRED IMPORTED_TARGET libuv>=1.44)
pkg_check_modules(SQLITE REQUIRED IMPORTED_TARGET sqlite3>=3.40)
pkg_check_modules(CJSON REQUIRED IMPORTED_TARGET libcjson>=1.7.15)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash>=0.8.1)
pkg_check_modules(ZSTD REQUIRED IMPORTED_TARGET libzstd>=1.5.4)
pkg_check_modules(POPT REQUIRED IMPORTED_TARGET popt>=1.19)
pkg_check_modules(SMARTCOLS REQUIRED IMPORTED_TARGET smartcols>=2.38)
if(DIVERGE_TESTS)
    pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET cmocka>=1.1.5)
endif()
