/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIVERGE_EXPORT_H
#define DIVERGE_EXPORT_H

/* The library is built with hidden visibility; what carries this is its ABI. */
#if defined(__GNUC__)
#define DIVERGE_API __attribute__((visibility("default")))
#else
#define DIVERGE_API
#endif

#endif
