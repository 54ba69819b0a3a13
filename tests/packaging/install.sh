#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs into a fresh prefix, moves it, and uses it as others would: pkg-config and CMake, C11 and
# C++17, shared and static.
set -euo pipefail

folder=$(mktemp -d /tmp/dvgtest-install-XXXXXX)
trap 'rm -rf "$folder"' EXIT
here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
export DIVERGE_DISABLE=1

fail() { printf 'install: %s\n' "$*" >&2 && exit 1; }

cmake --install "$DVG_BUILD_DIR" --prefix "$folder/first" >"$folder/log" ||
    fail "cmake --install failed: $(<"$folder/log")"
# An installed tree may be moved: nothing in it knows where it was.
mv "$folder/first" "$folder/moved"
prefix=$folder/moved
pc=$(find "$prefix" -name diverge.pc)
[[ -n $pc ]] || fail "no diverge.pc"
lib=$(dirname "$(dirname "$pc")")

# ---- every file is there, and is what its name says ----
for file in bin/diverged bin/divergectl include/diverge/diverge.h lib/systemd/user/diverged.service \
    share/man/man1/diverged.1 share/man/man1/divergectl.1 \
    share/bash-completion/completions/divergectl share/zsh/site-functions/_divergectl \
    share/fish/vendor_completions.d/divergectl.fish \
    share/doc/diverged/{first-diff,replicas,suspects,tree}.schema.json; do
    [[ -s $prefix/$file ]] || fail "$file is missing or empty"
done
for page in diverged divergectl; do
    grep -qi "^\.TH \"\?$page\"\? \"\?1" "$prefix/share/man/man1/$page.1" || fail "$page.1 has no title"
done
bash -n "$prefix/share/bash-completion/completions/divergectl"
head -n 1 "$prefix/share/zsh/site-functions/_divergectl" | grep -q '^#compdef divergectl' ||
    fail "the zsh completion does not name its command"
grep -q 'complete -c divergectl' "$prefix/share/fish/vendor_completions.d/divergectl.fish" ||
    fail "the fish completion does not name its command"
"$prefix/bin/diverged" --version | grep -q '0\.1\.0' || fail "diverged --version"
"$prefix/bin/divergectl" --version | grep -q '0\.1\.0' || fail "divergectl --version"
for header in "$DVG_SOURCE_DIR"/include/diverge/*.h; do
    cmp "$header" "$prefix/include/diverge/$(basename "$header")"
done

# ---- the library: its name, what it needs, what it shows ----
readelf -d "$lib/libdiverge.so" >"$folder/dynamic"
grep -q 'SONAME.*\[libdiverge\.so\.0\]' "$folder/dynamic" || fail "soname is not libdiverge.so.0"
if grep 'NEEDED' "$folder/dynamic" | grep -vE '\[(libc\.so\.6|libm\.so\.6|ld-linux.*)\]'; then
    fail "libdiverge needs more than libc"
fi
nm -D --defined-only "$lib/libdiverge.so" >"$folder/shared"
nm -g --defined-only "$lib/libdiverge.a" >"$folder/static"
for kind in shared static; do
    grep -q ' T diverge_session_open' "$folder/$kind" || fail "$kind: diverge_session_open is not there"
    if grep -E ' [A-Z] ' "$folder/$kind" | grep -vE ' (diverge_[a-z0-9_]+(@@.*)?|DIVERGE_[0-9.]+)$'; then
        fail "$kind: symbols beside the public ones"
    fi
done

# ---- pkg-config ----
export PKG_CONFIG_PATH=$lib/pkgconfig
strict=(-Wall -Wextra -pedantic -Werror)
read -ra shared_flags < <(pkg-config --cflags --libs diverge)
read -ra compile_flags < <(pkg-config --cflags diverge)
cc -std=c11 "${strict[@]}" "$here/consumer/consumer.c" "${shared_flags[@]}" -o "$folder/c"
c++ -std=c++17 "${strict[@]}" "$here/consumer/consumer.cc" "${shared_flags[@]}" -o "$folder/cc"
cc -std=c11 "${strict[@]}" "$here/consumer/consumer.c" "${compile_flags[@]}" \
    "$lib/libdiverge.a" -pthread -lm -o "$folder/c-static"
LD_LIBRARY_PATH=$lib "$folder/c"
LD_LIBRARY_PATH=$lib "$folder/cc"
"$folder/c-static"

# ---- CMake ----
if ! cmake -S "$here/consumer" -B "$folder/build" -DCMAKE_PREFIX_PATH="$prefix" >"$folder/log" 2>&1 ||
    ! cmake --build "$folder/build" >>"$folder/log" 2>&1; then
    cat "$folder/log"
    fail "the CMake consumer does not build"
fi
for program in c_diverge cxx_diverge c_diverge_static cxx_diverge_static; do
    "$folder/build/$program"
done

# ---- the service ----
grep -q "^ExecStart=/.*/bin/diverged" "$prefix/lib/systemd/user/diverged.service" ||
    fail "the service does not start diverged"
printf 'install: all as it should be\n'
