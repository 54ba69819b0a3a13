# SPDX-License-Identifier: Apache-2.0
# dvg_flags: what every C target of this tree is compiled with. Link it PRIVATE.

set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
# Turn off for one build with: cmake --compile-no-warning-as-error
set(CMAKE_COMPILE_WARNING_AS_ERROR ON)

add_library(dvg_flags INTERFACE)
target_compile_definitions(dvg_flags INTERFACE _GNU_SOURCE DIVERGE_VERSION="${PROJECT_VERSION}")
target_include_directories(dvg_flags INTERFACE
    ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
target_compile_options(dvg_flags INTERFACE
    -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wpointer-arith
    -Wundef -Wwrite-strings -Wimplicit-fallthrough -Wformat=2
    # A guess that changes with the optimiser; snprintf's truncation is checked or wanted.
    $<$<C_COMPILER_ID:GNU>:-Wno-format-truncation>
    # A fused multiply-add rounds once where the fingerprint's definition rounds twice.
    -ffp-contract=off
    # sqrt is an instruction then, not a call into libm for the sake of errno.
    -fno-math-errno
    -fno-common)
target_link_options(dvg_flags INTERFACE -Wl,--as-needed)
target_link_libraries(dvg_flags INTERFACE m)

# The sanitizers see more without fortified wrappers, so the two exclude each other.
if(NOT DIVERGE_SANITIZE AND NOT DIVERGE_FUZZ AND NOT DIVERGE_COVERAGE)
    target_compile_options(dvg_flags INTERFACE -fstack-protector-strong)
    target_compile_definitions(dvg_flags INTERFACE
        $<$<NOT:$<CONFIG:Debug>>:_FORTIFY_SOURCE=2>)
    target_link_options(dvg_flags INTERFACE -Wl,-z,relro -Wl,-z,now)
endif()

# Instrumentation holds for every object of the build, so it is not part of dvg_flags.
if(DIVERGE_SANITIZE)
    add_compile_options(-fsanitize=${DIVERGE_SANITIZE} -fno-omit-frame-pointer
        -fno-sanitize-recover=all)
    add_link_options(-fsanitize=${DIVERGE_SANITIZE})
endif()
if(DIVERGE_FUZZ)
    if(NOT CMAKE_C_COMPILER_ID MATCHES "Clang")
        message(FATAL_ERROR "DIVERGE_FUZZ needs clang (libFuzzer); use the preset: "
            "cmake --preset fuzz")
    endif()
    add_compile_options(-fsanitize=fuzzer-no-link)
endif()
if(DIVERGE_COVERAGE)
    add_compile_options(--coverage -fprofile-update=atomic)
    add_link_options(--coverage)
endif()
