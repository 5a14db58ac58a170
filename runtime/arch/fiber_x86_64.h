/* SPDX-License-Identifier: MIT */
/*
 * The jump from one stack to another on x86-64 (System V).
 *
 * It is inlined where it is used, for the sake of the processor's stack of return addresses. A
 * switch that is called and jumps away leaves one address too many there, and from then on every
 * `ret` of the calls around it is predicted wrongly, at 5 to 10 ns each. Inlined into a worker's
 * loop and into the awaited call it touches no return address: each fiber comes back at the depth
 * at which it left, and what the processor remembers of one fits the next.
 *
 * All registers are named as changed, so the compiler saves those that hold something at this very
 * place and no others. The two that it may need itself to find a frame, rbp and rbx, are saved by
 * hand. The floating-point control words stay as they are (design, section 13). Nothing is pushed:
 * the red zone below rsp stays whole.
 *
 * Shadow stacks cannot follow this. fiber_x86_64.S carries no property note, so the linker does not
 * ask for them.
 */
#ifndef TEFF_RUNTIME_ARCH_FIBER_X86_64_H
#define TEFF_RUNTIME_ARCH_FIBER_X86_64_H

#ifdef __AVX512F__
#define TEFF__FIBER_VECTOR_CHANGED                                                                 \
    , "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", "xmm24", "xmm25",    \
        "xmm26", "xmm27", "xmm28", "xmm29", "xmm30", "xmm31", "k0", "k1", "k2", "k3", "k4", "k5",  \
        "k6", "k7"
#else
#define TEFF__FIBER_VECTOR_CHANGED
#endif

static inline __attribute__((always_inline)) void teff__fiber_jump(teff__fiber *from,
                                                                   teff__fiber *to)
{
    __asm__ volatile(
        "leaq 1f(%%rip), %%rax\n\t"
        "movq %%rsp, %c[sp](%%rdi)\n\t"
        "movq %%rax, %c[resume](%%rdi)\n\t"
        "movq %%rbp, %c[frame](%%rdi)\n\t"
        "movq %%rbx, %c[base](%%rdi)\n\t"
        "movq %c[frame](%%rsi), %%rbp\n\t"
        "movq %c[base](%%rsi), %%rbx\n\t"
        "movq %c[sp](%%rsi), %%rsp\n\t"
        "jmpq *%c[resume](%%rsi)\n"
        "1:"
        : "+D"(from), "+S"(to)
        : [sp] "i"(offsetof(teff__fiber, sp)), [resume] "i"(offsetof(teff__fiber, resume)),
          [frame] "i"(offsetof(teff__fiber, frame)), [base] "i"(offsetof(teff__fiber, base))
        : "rax", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "cc", "memory",
          "st", "st(1)", "st(2)", "st(3)", "st(4)", "st(5)", "st(6)", "st(7)", "mm0", "mm1", "mm2",
          "mm3", "mm4", "mm5", "mm6", "mm7", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6",
          "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14",
          "xmm15" TEFF__FIBER_VECTOR_CHANGED);
}

#endif
