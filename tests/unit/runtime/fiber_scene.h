/* SPDX-License-Identifier: MIT */
/*
 * What the tests of fibers share: a pool whose fibers run one job after the other for a host, and a
 * call between two looks at the registers that a function must keep.
 */
#ifndef TEFF_TESTS_FIBER_SCENE_H
#define TEFF_TESTS_FIBER_SCENE_H

#include "runtime/fiber.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct scene {
    teff__memory memory;
    teff__fiber_pool pool;
    teff__fiber host;
    teff__fiber *running;
    void (*job)(struct scene *scene);
    uint64_t number; /* what a job is told */
    uint64_t done;   /* jobs that came to their end */
} fiber_scene;

/* A job's way back to the host, in its midst. */
static inline void scene_leave(fiber_scene *scene)
{
    teff__fiber *self = scene->running;
    teff__fiber_switch(self, &scene->host);
}

/* The host's way to a fiber: its next job, or the rest of the one that it left. */
static inline void scene_enter(fiber_scene *scene, teff__fiber *fiber)
{
    scene->running = fiber;
    teff__fiber_switch(&scene->host, fiber);
}

static inline void scene_loop(void *argument)
{
    fiber_scene *scene = argument;
    for (;;) {
        scene->job(scene);
        scene->done++;
        scene_leave(scene);
    }
}

static inline int scene_init(fiber_scene *scene, size_t stack_bytes, uint32_t made_max,
                             void (*job)(struct scene *scene))
{
    *scene = (fiber_scene){ .job = job };
    teff__memory_init(&scene->memory, 0);
    teff__fiber_adopt(&scene->host);
    return teff__fiber_pool_init(&scene->pool, &scene->memory, stack_bytes, made_max, scene_loop,
                                 scene);
}

static inline teff__fiber *scene_take(fiber_scene *scene)
{
    int r = teff__fiber_pool_reserve(&scene->pool);
    return r == 0 ? teff__fiber_pool_take(&scene->pool) : NULL;
}

/*
 * ------------------------------------------------------------------------------------------------
 * registers
 */

/*
 * Calls function(argument) with all registers that it must keep loaded from `in`; `out` is how it
 * left them. Wherever the compiler puts its own values, nothing between the two looks is the
 * compiler's.
 */
void call_with_registers(void (*function)(void *argument), void *argument, const uint64_t *in,
                         uint64_t *out);

#if defined(__x86_64__)
enum { REGISTERS = 6 };
__asm__(".text\n"
        "call_with_registers:\n\t"
        "pushq %rbp\n\tpushq %rbx\n\tpushq %r12\n\tpushq %r13\n\tpushq %r14\n\tpushq %r15\n\t"
        "pushq %rcx\n\t"
        "movq %rdi, %rax\n\t"
        "movq %rsi, %rdi\n\t"
        "movq 0(%rdx), %rbp\n\tmovq 8(%rdx), %rbx\n\tmovq 16(%rdx), %r12\n\t"
        "movq 24(%rdx), %r13\n\tmovq 32(%rdx), %r14\n\tmovq 40(%rdx), %r15\n\t"
        "call *%rax\n\t"
        "popq %rcx\n\t"
        "movq %rbp, 0(%rcx)\n\tmovq %rbx, 8(%rcx)\n\tmovq %r12, 16(%rcx)\n\t"
        "movq %r13, 24(%rcx)\n\tmovq %r14, 32(%rcx)\n\tmovq %r15, 40(%rcx)\n\t"
        "popq %r15\n\tpopq %r14\n\tpopq %r13\n\tpopq %r12\n\tpopq %rbx\n\tpopq %rbp\n\t"
        "ret\n");
#elif defined(__aarch64__)
enum { REGISTERS = 19 };
__asm__(".text\n"
        "call_with_registers:\n\t"
        "stp x29, x30, [sp, #-176]!\n\t"
        "stp x19, x20, [sp, #16]\n\tstp x21, x22, [sp, #32]\n\tstp x23, x24, [sp, #48]\n\t"
        "stp x25, x26, [sp, #64]\n\tstp x27, x28, [sp, #80]\n\t"
        "stp d8, d9, [sp, #96]\n\tstp d10, d11, [sp, #112]\n\tstp d12, d13, [sp, #128]\n\t"
        "stp d14, d15, [sp, #144]\n\t"
        "str x3, [sp, #160]\n\t"
        "mov x9, x0\n\t"
        "mov x0, x1\n\t"
        "ldp x19, x20, [x2]\n\tldp x21, x22, [x2, #16]\n\tldp x23, x24, [x2, #32]\n\t"
        "ldp x25, x26, [x2, #48]\n\tldp x27, x28, [x2, #64]\n\tldr x29, [x2, #80]\n\t"
        "ldp d8, d9, [x2, #88]\n\tldp d10, d11, [x2, #104]\n\tldp d12, d13, [x2, #120]\n\t"
        "ldp d14, d15, [x2, #136]\n\t"
        "blr x9\n\t"
        "ldr x3, [sp, #160]\n\t"
        "stp x19, x20, [x3]\n\tstp x21, x22, [x3, #16]\n\tstp x23, x24, [x3, #32]\n\t"
        "stp x25, x26, [x3, #48]\n\tstp x27, x28, [x3, #64]\n\tstr x29, [x3, #80]\n\t"
        "stp d8, d9, [x3, #88]\n\tstp d10, d11, [x3, #104]\n\tstp d12, d13, [x3, #120]\n\t"
        "stp d14, d15, [x3, #136]\n\t"
        "ldp x19, x20, [sp, #16]\n\tldp x21, x22, [sp, #32]\n\tldp x23, x24, [sp, #48]\n\t"
        "ldp x25, x26, [sp, #64]\n\tldp x27, x28, [sp, #80]\n\t"
        "ldp d8, d9, [sp, #96]\n\tldp d10, d11, [sp, #112]\n\tldp d12, d13, [sp, #128]\n\t"
        "ldp d14, d15, [sp, #144]\n\t"
        "ldp x29, x30, [sp], #176\n\t"
        "ret\n");
#else
enum { REGISTERS = 1 };
void call_with_registers(void (*function)(void *argument), void *argument, const uint64_t *in,
                         uint64_t *out)
{
    function(argument);
    memcpy(out, in, REGISTERS * sizeof *in);
}
#endif

/*
 * Has nothing to keep over the switch: what it does not save for the compiler's sake, the switch
 * must.
 */
static __attribute__((noinline)) void leave_once(void *argument)
{
    scene_leave(argument);
}

/*
 * Leaves three times with registers of its own number; 0 if each came back as it was, else 1 + its
 * index.
 */
static inline int registers_lost(fiber_scene *scene)
{
    volatile uint64_t number = scene->number;
    for (uint64_t round = 0; round < 3; round++) {
        uint64_t in[REGISTERS], out[REGISTERS] = { 0 };
        for (int i = 0; i < REGISTERS; i++)
            in[i] = (number << 32) + (round << 24) + UINT64_C(0x1111) * (uint64_t)(i + 1);
        call_with_registers(leave_once, scene, in, out);
        for (int i = 0; i < REGISTERS; i++)
            if (out[i] != in[i])
                return i + 1;
    }
    return 0;
}

/*
 * -------------------------------------------------------------------------------------------------
 * overflow
 */

static inline ptrdiff_t stack_left(const fiber_scene *scene)
{
    return (char *)__builtin_frame_address(0) - (char *)scene->running->stack_low;
}

/*
 * Touches the low end of one large frame, as a handler with a buffer does that writes its beginning
 * only.
 */
static __attribute__((noinline)) int frame_of_32_kib(void)
{
    char buffer[32 * 1024];
    __asm__ volatile("" ::"r"(buffer)
                     : "memory"); /* all of it is somebody's: it cannot be made smaller */
    buffer[0] = 1;
    __asm__ volatile("" ::"r"(buffer) : "memory");
    return buffer[0];
}

/* Recurs until less than `left` bytes of stack are left, and from there calls `last`. */
static __attribute__((noinline)) int descend(fiber_scene *scene, ptrdiff_t left, int (*last)(void))
{
    volatile char frame[512];
    frame[0] = 1;
    int below = stack_left(scene) < left ? last() : descend(scene, left, last);
    return below + frame[0];
}

static inline int nothing(void)
{
    return 0;
}

static inline void job_overflow_slowly(fiber_scene *scene)
{
    scene->number = (uint64_t)descend(scene, PTRDIFF_MIN, nothing);
}

static inline void job_overflow_at_once(fiber_scene *scene)
{
    /*
     * Within what a handler may well have used, and far more than a guard of one page beneath the
     * large frame.
     */
    scene->number = (uint64_t)descend(scene, 12 * 1024, frame_of_32_kib);
}

enum { FAULT_AT_GUARD = 42, FAULT_ELSEWHERE = 43 };

static teff__fiber *overflowing;

static inline void on_fault(int number, siginfo_t *info, void *context)
{
    ptrdiff_t below = (char *)overflowing->stack_low - (char *)info->si_addr;
    (void)number, (void)context;
    _exit(below > 0 && below <= TEFF__FIBER_GUARD_BYTES ? FAULT_AT_GUARD : FAULT_ELSEWHERE);
}

/* The wait status of a child that runs `job` on a fiber with neighbours on both sides. */
static inline int status_of_child(size_t stack_bytes, void (*job)(fiber_scene *scene))
{
    (void)fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        static char signal_stack[64 * 1024];
        stack_t on_stack = { .ss_sp = signal_stack, .ss_size = sizeof signal_stack };
        struct sigaction action = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK };
        struct rlimit no_core = { 0, 0 };
        (void)setrlimit(RLIMIT_CORE, &no_core);
        (void)sigaltstack(&on_stack, NULL);
        (void)sigaction(SIGSEGV, &action, NULL);
        (void)signal(SIGABRT, SIG_DFL);
        fiber_scene scene;
        teff__fiber *fibers[3];
        if (scene_init(&scene, stack_bytes, 0, job) != 0)
            _exit(99);
        for (int i = 0; i < 3; i++)
            fibers[i] = scene_take(&scene);
        overflowing = fibers[1];
        scene_enter(&scene, fibers[1]);
        _exit(0);
    }
    int status = 0;
    return child > 0 && waitpid(child, &status, 0) == child ? status : -1;
}

static inline bool faulted_at_guard(int status)
{
    return WIFEXITED(status) && WEXITSTATUS(status) == FAULT_AT_GUARD;
}

#endif
