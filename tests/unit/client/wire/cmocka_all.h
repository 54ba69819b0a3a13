/* SPDX-License-Identifier: Apache-2.0 */
/* cmocka.h needs these first, in this order. */
#ifndef TESTS_UNIT_CLIENT_WIRE_CMOCKA_ALL_H
#define TESTS_UNIT_CLIENT_WIRE_CMOCKA_ALL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#endif
