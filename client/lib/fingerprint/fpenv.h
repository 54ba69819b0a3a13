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

static inline unsigned dvg_fpenv_enter(void)
{
    unsigned saved = _mm_getcsr();

    _mm_setcsr(0x1f80);
    return saved;
}

static inline void dvg_fpenv_leave(unsigned saved)
{
    _mm_setcsr(saved);
}
#elif defined(__aarch64__)
/* FPCR alone: its flags are in FPSR, saved in the upper half. */
static inline unsigned long dvg_fpenv_read(void)
{
    unsigned long control;
    unsigned long status;

    __asm__ volatile("mrs %0, fpcr\n\tmrs %1, fpsr" : "=r"(control), "=r"(status));
    return (control & 0xffffffff) | status << 32;
}

static inline unsigned long dvg_fpenv_enter(void)
{
    unsigned long saved = dvg_fpenv_read();

    __asm__ volatile("msr fpcr, %0" : : "r"(0UL) : "memory");
    return saved;
}

static inline void dvg_fpenv_leave(unsigned long saved)
{
    __asm__ volatile("msr fpcr, %0\n\tmsr fpsr, %1"
                     :
                     : "r"(saved & 0xffffffff), "r"(saved >> 32)
                     : "memory");
}
#else
#include <fenv.h>
#error "no known way to keep denormals on this machine: add one here"
#endif

#endif
