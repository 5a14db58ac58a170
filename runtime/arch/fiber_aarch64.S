/* SPDX-License-Identifier: MIT */
/*
 * Where a fiber begins on aarch64: the first jump to it comes here, with its aligned, empty stack
 * in sp and in x19 the argument of teff__fiber_begin, which does not return.
 *
 * A debugger that unwinds a fiber ends here: nobody called this, which is what the undefined return
 * address says. There is deliberately no property note for branch targets: fiber_aarch64.h jumps to
 * plain labels.
 */
    .text
    .globl  teff__fiber_entry
    .hidden teff__fiber_entry
    .hidden teff__fiber_begin
    .type   teff__fiber_entry, %function
    .p2align 4
teff__fiber_entry:
    .cfi_startproc
    .cfi_undefined x30
    mov     x0, x19
    mov     x29, xzr
    bl      teff__fiber_begin
    brk     #1
    .cfi_endproc
    .size   teff__fiber_entry, . - teff__fiber_entry

    .section .note.GNU-stack, "", %progbits
