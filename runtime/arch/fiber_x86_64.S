/* SPDX-License-Identifier: MIT */
/*
 * Where a fiber begins on x86-64: the first jump to it comes here, with its aligned, empty stack in
 * rsp and in rbx the argument of teff__fiber_begin, which does not return.
 *
 * A debugger that unwinds a fiber ends here: nobody called this, which is what the undefined return
 * address says. There is deliberately no property note for shadow stacks: see fiber_x86_64.h.
 */
    .text
    .globl  teff__fiber_entry
    .hidden teff__fiber_entry
    .hidden teff__fiber_begin
    .type   teff__fiber_entry, @function
    .p2align 4
teff__fiber_entry:
    .cfi_startproc
    .cfi_undefined rip
    movq    %rbx, %rdi
    xorl    %ebp, %ebp
    call    teff__fiber_begin
    ud2
    .cfi_endproc
    .size   teff__fiber_entry, . - teff__fiber_entry

    .section .note.GNU-stack, "", @progbits
