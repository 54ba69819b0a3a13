/* SPDX-License-Identifier: Apache-2.0 */
#define HASH_OPS hash_portable
#include "daemon/store/hash_body.h"

const struct hash_ops *hash_ops(void)
{
#ifdef __x86_64__
    return __builtin_cpu_supports("avx2") ? &hash_avx2 : &hash_portable;
#else
    return &hash_portable;
#endif
}
