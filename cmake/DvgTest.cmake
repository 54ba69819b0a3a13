# SPDX-License-Identifier: Apache-2.0
# How tests are declared.
#
#   dvg_add_test(NAME test_x SOURCES ... [LIBS ...] [LABELS ...] [TIMEOUT s])
#       a cmocka program
#   dvg_add_script_test(NAME cli_x SCRIPT x.sh [ARGS ...] [LABELS ...] [TIMEOUT s])
#       a bash script against the real binaries; exit status 0 passes
#   dvg_add_fuzzer(NAME fuzz_x SOURCES ... [LIBS ...] CORPUS dir)
#       LLVMFuzzerTestOneInput, run by libFuzzer under DIVERGE_FUZZ, else replayed by ctest
#
# Labels: unit, integration, cli, fault, cases, fuzz; `threads` marks what ThreadSanitizer must
# see; `sweep` marks the long tier of ./dev test --deep.
#
# Every test starts from one clean environment, below, and finds the programs to run there.

# Sets `ret` to the command prefix that gives a test nothing but these variables. Leaks are errors,
# the first race ends the process, and the fault library may be preloaded before ASan's runtime.
function(dvg_clean_environment ret)
    set(home "${PROJECT_BINARY_DIR}/tests/home")
    file(MAKE_DIRECTORY "${home}")
    set(asan detect_leaks=1 strict_string_checks=1 detect_stack_use_after_return=1
        allocator_may_return_null=1 verify_asan_link_order=0)
    set(tsan halt_on_error=1 second_deadlock_stack=1
        suppressions=${PROJECT_SOURCE_DIR}/tests/support/tsan.supp)
    list(JOIN asan ":" asan)
    list(JOIN tsan ":" tsan)
    set(command /usr/bin/env -i
        "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        "HOME=${home}"
        "LC_ALL=C.UTF-8"
        "TZ=UTC"
        "NO_COLOR=1"
        "ASAN_OPTIONS=${asan}"
        "UBSAN_OPTIONS=print_stacktrace=1"
        "TSAN_OPTIONS=${tsan}"
        "DVG_SOURCE_DIR=${PROJECT_SOURCE_DIR}"
        "DVG_BUILD_DIR=${PROJECT_BINARY_DIR}"
        "DVG_TEST_DATA=${PROJECT_SOURCE_DIR}/tests/data")
    foreach(pair IN ITEMS "DVG_DIVERGED diverged" "DVG_DIVERGECTL divergectl"
            "DVG_DIGITS_TRAIN digits_train" "DVG_FAULT_LIB dvgfault")
        separate_arguments(pair)
        list(GET pair 0 variable)
        list(GET pair 1 target)
        if(TARGET ${target})
            list(APPEND command "${variable}=$<TARGET_FILE:${target}>")
        endif()
    endforeach()
    set(${ret} "${command}" PARENT_SCOPE)
endfunction()

# Sanitized programs run several times slower.
function(dvg_test_limits test timeout labels)
    if(NOT timeout)
        set(timeout 60)
    endif()
    if(DIVERGE_SANITIZE OR DIVERGE_COVERAGE)
        math(EXPR timeout "${timeout} * 4")
    endif()
    # LABELS a b and LABELS "a;b" mean the same.
    string(REPLACE "\\;" ";" labels "${labels}")
    set_tests_properties(${test} PROPERTIES TIMEOUT ${timeout} LABELS "${labels}")
endfunction()

function(dvg_add_test)
    cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME;TIMEOUT" "SOURCES;LIBS;LABELS")
    if(NOT arg_LABELS)
        set(arg_LABELS unit)
    endif()
    add_executable(${arg_NAME} ${arg_SOURCES})
    target_link_libraries(${arg_NAME} PRIVATE ${arg_LIBS} dvg_flags diverge_headers
        PkgConfig::CMOCKA Threads::Threads)
    dvg_clean_environment(clean)
    add_test(NAME ${arg_NAME} COMMAND ${clean} $<TARGET_FILE:${arg_NAME}>)
    dvg_test_limits(${arg_NAME} "${arg_TIMEOUT}" "${arg_LABELS}")
endfunction()

function(dvg_add_script_test)
    cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME;SCRIPT;TIMEOUT" "ARGS;LABELS")
    if(NOT arg_LABELS)
        set(arg_LABELS cli)
    endif()
    dvg_clean_environment(clean)
    add_test(NAME ${arg_NAME}
        COMMAND ${clean} bash "${CMAKE_CURRENT_SOURCE_DIR}/${arg_SCRIPT}" ${arg_ARGS})
    dvg_test_limits(${arg_NAME} "${arg_TIMEOUT}" "${arg_LABELS}")
endfunction()

function(dvg_add_fuzzer)
    cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME;CORPUS" "SOURCES;LIBS")
    cmake_path(ABSOLUTE_PATH arg_CORPUS NORMALIZE)
    add_executable(${arg_NAME} ${arg_SOURCES})
    target_link_libraries(${arg_NAME} PRIVATE ${arg_LIBS} dvg_flags diverge_headers
        Threads::Threads)
    dvg_clean_environment(clean)
    if(DIVERGE_FUZZ)
        target_link_options(${arg_NAME} PRIVATE -fsanitize=fuzzer)
        set_property(GLOBAL APPEND_STRING PROPERTY DVG_FUZZERS
            "${arg_NAME} $<TARGET_FILE:${arg_NAME}> ${arg_CORPUS}\n")
        add_test(NAME ${arg_NAME} COMMAND ${clean} $<TARGET_FILE:${arg_NAME}> -runs=0 "${arg_CORPUS}")
    else()
        target_sources(${arg_NAME} PRIVATE ${PROJECT_SOURCE_DIR}/tests/support/fuzz_replay.c)
        add_test(NAME ${arg_NAME} COMMAND ${clean} $<TARGET_FILE:${arg_NAME}> "${arg_CORPUS}")
    endif()
    dvg_test_limits(${arg_NAME} "" fuzz)
endfunction()

# The list that `./dev test --deep` walks: name, program, corpus; one fuzz target a line.
function(dvg_write_fuzzer_list)
    get_property(fuzzers GLOBAL PROPERTY DVG_FUZZERS)
    file(GENERATE OUTPUT "${PROJECT_BINARY_DIR}/fuzzers.txt" CONTENT "${fuzzers}")
endfunction()
