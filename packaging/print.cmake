# SPDX-License-Identifier: Apache-2.0
# Runs PROGRAM with ARGUMENTS; its output becomes the file OUTPUT, but only when it succeeds.
execute_process(COMMAND ${PROGRAM} ${ARGUMENTS}
    OUTPUT_FILE ${OUTPUT}.part RESULT_VARIABLE status)
if(NOT status EQUAL 0)
    message(FATAL_ERROR "${PROGRAM} ${ARGUMENTS}: ${status}")
endif()
file(RENAME ${OUTPUT}.part ${OUTPUT})
