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
# see; `sweep` marks the long tier that `ctest` leaves out unless DVG_DEEP is asked for (see dev).
#
# Every test starts from one clean environment, below, and finds its tools there.

function(dvg_test_environment test)
    set(home "${PROJECT_BINARY_DIR}/tests/home")
    file(MAKE_DIRECTORY "${home}")
    set(changes
        "HOME=set:${home}"
        "LC_ALL=set:C.UTF-8"
        "NO_COLOR=set:1"
        "DVG_SOURCE_DIR=set:${PROJECT_SOURCE_DIR}"
        "DVG_BUILD_DIR=set:${PROJECT_BINARY_DIR}"
        "DVG_TEST_DATA=set:${PROJECT_SOURCE_DIR}/tests/data")
    foreach(name IN ITEMS XDG_RUNTIME_DIR XDG_STATE_HOME XDG_CONFIG_HOME XDG_DATA_HOME
            XDG_CACHE_HOME NOTIFY_SOCKET RANK WORLD_SIZE DIVERGE_STORE DIVERGE_SOCKET DIVERGE_RUN_ID
            DIVERGE_RUN_NAME DIVERGE_LEVEL DIVERGE_SPOOL DIVERGE_WAIT_MS DIVERGE_DISABLE
            DIVERGE_CONFIG DIVERGE_LOG DIVERGE_STEPS DIVERGE_SPOOL_BYTES DIVERGE_SKETCH
            DIVERGE_RECORDING DIVERGE_KERNEL LD_PRELOAD DVG_FAULT DVG_FAULT_REPORT)
        list(APPEND changes "${name}=unset:")
    endforeach()
    foreach(pair IN ITEMS "DVG_DIVERGED diverged" "DVG_DIVERGECTL divergectl"
            "DVG_FAULT_LIB dvgfault")
        separate_arguments(pair)
        list(GET pair 0 variable)
        list(GET pair 1 target)
        if(TARGET ${target})
            list(APPEND changes "${variable}=set:$<TARGET_FILE:${target}>")
        endif()
    endforeach()
    set_tests_properties(${test} PROPERTIES
        ENVIRONMENT_MODIFICATION "${changes}"
        ENVIRONMENT "${DVG_SANITIZER_ENVIRONMENT}")
endfunction()

# One process finds all: leaks are errors, and a finding ends the process with a status of its own.
set(DVG_SANITIZER_ENVIRONMENT
    "ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=1:allocator_may_return_null=1"
    "UBSAN_OPTIONS=print_stacktrace=1"
    "TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1:suppressions=${PROJECT_SOURCE_DIR}/tests/support/tsan.supp")

# Sanitized programs run several times slower.
function(dvg_test_limits test timeout labels)
    if(NOT timeout)
        set(timeout 60)
    endif()
    if(DIVERGE_SANITIZE OR DIVERGE_COVERAGE)
        math(EXPR timeout "${timeout} * 4")
    endif()
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
    add_test(NAME ${arg_NAME} COMMAND ${arg_NAME})
    dvg_test_limits(${arg_NAME} "${arg_TIMEOUT}" "${arg_LABELS}")
    dvg_test_environment(${arg_NAME})
endfunction()

function(dvg_add_script_test)
    cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME;SCRIPT;TIMEOUT" "ARGS;LABELS")
    if(NOT arg_LABELS)
        set(arg_LABELS cli)
    endif()
    add_test(NAME ${arg_NAME}
        COMMAND bash "${CMAKE_CURRENT_SOURCE_DIR}/${arg_SCRIPT}" ${arg_ARGS})
    dvg_test_limits(${arg_NAME} "${arg_TIMEOUT}" "${arg_LABELS}")
    dvg_test_environment(${arg_NAME})
endfunction()

function(dvg_add_fuzzer)
    cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME;CORPUS" "SOURCES;LIBS")
    cmake_path(ABSOLUTE_PATH arg_CORPUS NORMALIZE)
    add_executable(${arg_NAME} ${arg_SOURCES})
    target_link_libraries(${arg_NAME} PRIVATE ${arg_LIBS} dvg_flags diverge_headers
        Threads::Threads)
    if(DIVERGE_FUZZ)
        target_link_options(${arg_NAME} PRIVATE -fsanitize=fuzzer)
        set_property(GLOBAL APPEND_STRING PROPERTY DVG_FUZZERS
            "${arg_NAME} $<TARGET_FILE:${arg_NAME}> ${arg_CORPUS}\n")
        add_test(NAME ${arg_NAME} COMMAND ${arg_NAME} -runs=0 "${arg_CORPUS}")
    else()
        target_sources(${arg_NAME} PRIVATE ${PROJECT_SOURCE_DIR}/tests/support/fuzz_replay.c)
        add_test(NAME ${arg_NAME} COMMAND ${arg_NAME} "${arg_CORPUS}")
    endif()
    dvg_test_limits(${arg_NAME} "" fuzz)
    dvg_test_environment(${arg_NAME})
endfunction()

# The list that `./dev test --deep` walks: name, program, corpus; one fuzz target a line.
function(dvg_write_fuzzer_list)
    get_property(fuzzers GLOBAL PROPERTY DVG_FUZZERS)
    file(GENERATE OUTPUT "${PROJECT_BINARY_DIR}/fuzzers.txt" CONTENT "${fuzzers}")
endfunction()
