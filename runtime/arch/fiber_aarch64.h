/* SPDX-License-Identifier: MIT */
/*
 * The jump from one stack to another on aarch64 (AAPCS64). Inlined for the reasons that
 * fiber_x86_64.h gives.
 *
 * All registers are named as changed, so the compiler saves what it needs; x29 and x19, with which
 * it may find its frame, are saved by hand. On Linux x18 is a register like any other. v0 to v31
 * stand for the SVE registers too.
 */
#ifndef TEFF_RUNTIME_ARCH_FIBER_AARCH64_H
#define TEFF_RUNTIME_ARCH_FIBER_AARCH64_H

#ifdef __ARM_FEATURE_SVE
#define TEFF__FIBER_VECTOR_CHANGED                                                                 \
    , "p0", "p1", "p2", "p3", "p4", "p5", "p6", "p7", "p8", "p9", "p10", "p11", "p12", "p13",      \
        "p14", "p15"
#else
#define TEFF__FIBER_VECTOR_CHANGED
#endif

static inline __attribute__((always_inline)) void teff__fiber_jump(teff__fiber *from,
                                                                   teff__fiber *to)
{
    register teff__fiber *x0 __asm__("x0") = from;
    register teff__fiber *x1 __asm__("x1") = to;
    __asm__ volatile(
        "mov x2, sp\n\t"
        "adr x3, 1f\n\t"
        "str x2, [x0, %[sp]]\n\t"
        "str x3, [x0, %[resume]]\n\t"
        "str x29, [x0, %[frame]]\n\t"
        "str x19, [x0, %[base]]\n\t"
        "ldr x2, [x1, %[sp]]\n\t"
        "ldr x3, [x1, %[resume]]\n\t"
        "ldr x29, [x1, %[frame]]\n\t"
        "ldr x19, [x1, %[base]]\n\t"
        "mov sp, x2\n\t"
        "br x3\n"
        "1:"
        : "+r"(x0), "+r"(x1)
        : [sp] "i"(offsetof(teff__fiber, sp)), [resume] "i"(offsetof(teff__fiber, resume)),
          [frame] "i"(offsetof(teff__fiber, frame)), [base] "i"(offsetof(teff__fiber, base))
        : "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15",
          "x16", "x17", "x18", "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27", "x28", "x30",
          "cc", "memory", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11",
          "v12", "v13", "v14", "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24",
          "v25", "v26", "v27", "v28", "v29", "v30", "v31" TEFF__FIBER_VECTOR_CHANGED);
}

#endif
