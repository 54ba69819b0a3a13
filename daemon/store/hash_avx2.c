/* SPDX-License-Identifier: Apache-2.0 */
/* Compiled with -mavx2 on x86-64, else empty. */
#ifdef __AVX2__
#define HASH_OPS hash_avx2
#include "daemon/store/hash_body.h"
#else
typedef int hash_avx2_is_empty;
#endif
