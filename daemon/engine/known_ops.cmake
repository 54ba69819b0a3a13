# SPDX-License-Identifier: Apache-2.0
# Writes OUTPUT, the initialisers of struct known_op, from the table FILE.
file(READ "${FILE}" text)
set(text "\n${text}")
string(REGEX REPLACE "\n#[^\n]*" "" text "${text}")
string(REGEX REPLACE "\n+" "\n" text "${text}")
string(STRIP "${text}" text)
string(REPLACE "\\" "\\\\" text "${text}")
string(REPLACE "\"" "\\\"" text "${text}")
string(REPLACE "\t" "\", \"" text "${text}")
string(REPLACE "\n" "\"},\n{\"" text "${text}")
file(WRITE "${OUTPUT}" "/* Made from schema/known_ops.tsv. */\n{\"${text}\"},\n")
