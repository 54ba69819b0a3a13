/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The floating-point environment of a kernel: round to nearest, denormals kept, no traps. Training
 * programs like to set flush-to-zero, which would change what is measured; what they set, and the
 * flags they raised, is put back as it was.
 */
#ifndef DVG_FINGERPRINT_FPENV_H
#define DVG_FINGERPRINT_FPENV_H

#if defined(__x86_64__)
#include <xmmintrin.h>

typedef unsigned dvg_fpenv;

/* Writing the register halts the pipeline, so it is written when it must be: mostly never. */
static inline dvg_fpenv dvg_fpenv_enter(void)
{
    const unsigned flags = 0x3f;
    const unsigned usual = 0x1f80;
    dvg_fpenv saved = _mm_getcsr();

    if ((saved & ~flags) != usual)
        _mm_setcsr(usual);
    return saved;
}

static inline void dvg_fpenv_leave(dvg_fpenv saved)
{
    if (_mm_getcsr() != saved)
        _mm_setcsr(saved);
}
#elif defined(__aarch64__)
typedef unsigned long dvg_fpenv;

/* FPCR, and in the upper half FPSR, which has the flags. */
static inline dvg_fpenv dvg_fpenv_read(void)
{
    unsigned long control;
    unsigned long status;

    __asm__ volatile("mrs %0, fpcr\n\tmrs %1, fpsr" : "=r"(control), "=r"(status));
    return (control & 0xffffffff) | status << 32;
}

static inline dvg_fpenv dvg_fpenv_enter(void)
{
    dvg_fpenv saved = dvg_fpenv_read();

    __asm__ volatile("msr fpcr, %0" : : "r"(0UL) : "memory");
    return saved;
}

static inline void dvg_fpenv_leave(dvg_fpenv saved)
{
    __asm__ volatile("msr fpcr, %0\n\tmsr fpsr, %1"
                     :
                     : "r"(saved & 0xffffffff), "r"(saved >> 32)
                     : "memory");
}
#else
#error "no known way to keep denormals on this machine: add one here"
#endif

#endif
