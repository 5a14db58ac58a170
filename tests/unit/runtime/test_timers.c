/* SPDX-License-Identifier: MIT */
#include "runtime/timers.h"

#include "runtime/chance.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>

/* A timer with a name; expired ones write their names into the log. */
typedef struct named {
    teff__timer timer;
    int name;
    struct named *stops, *starts; /* what it does to others when it expires */
    int64_t starts_ns;
} named;

enum { LOG_MAX = 4096 };
static teff__timers timers; /* zeroed is the same as initialized */
static int log_names[LOG_MAX];
static int log_count;

static void write_name(teff__timer *timer)
{
    named *self = teff__container_of(timer, named, timer);
    cr_assert(!teff__timer_started(timer));
    cr_assert_lt(log_count, LOG_MAX);
    log_names[log_count++] = self->name;
    if (self->stops != NULL)
        teff__timers_stop(&timers, &self->stops->timer);
    if (self->starts != NULL)
        teff__timers_start(&timers, &self->starts->timer, self->starts_ns, write_name);
}

static void start(named *self, int64_t deadline_ns)
{
    teff__timers_start(&timers, &self->timer, deadline_ns, write_name);
}

static void stop(named *self)
{
    teff__timers_stop(&timers, &self->timer);
}

#define assert_log(...)                                                                            \
    do {                                                                                           \
        static const int expected[] = { __VA_ARGS__ };                                             \
        cr_assert_eq((size_t)log_count, sizeof(expected) / sizeof(expected[0]));                   \
        cr_assert_arr_eq(log_names, expected, sizeof(expected));                                   \
    } while (0)

Test(timers, without_any_there_is_no_deadline_and_nothing_runs)
{
    teff__timers_init(&timers);
    cr_assert_eq(teff__timers_next_ns(&timers), INT64_MAX);
    teff__timers_run(&timers, INT64_MAX);
    cr_assert_eq(log_count, 0);
}

Test(timers, next_is_the_earliest_deadline)
{
    named a = { .name = 1 }, b = { .name = 2 }, c = { .name = 3 };
    start(&a, 200);
    cr_assert_eq(teff__timers_next_ns(&timers), 200);
    start(&b, 100);
    cr_assert_eq(teff__timers_next_ns(&timers), 100);
    start(&c, 300);
    cr_assert_eq(teff__timers_next_ns(&timers), 100);
    stop(&b);
    cr_assert_eq(teff__timers_next_ns(&timers), 200);
    stop(&a);
    cr_assert_eq(teff__timers_next_ns(&timers), 300);
    stop(&c);
    cr_assert_eq(teff__timers_next_ns(&timers), INT64_MAX);
}

Test(timers, expire_in_order_of_deadline)
{
    named a = { .name = 1 }, b = { .name = 2 }, c = { .name = 3 }, d = { .name = 4 };
    start(&c, 30);
    start(&a, 10);
    start(&d, 40);
    start(&b, 20);
    teff__timers_run(&timers, 100);
    assert_log(1, 2, 3, 4);
}

Test(timers, expire_at_the_deadline_and_not_before)
{
    named a = { .name = 1 }, b = { .name = 2 };
    start(&a, 10);
    start(&b, 11);
    teff__timers_run(&timers, 9);
    cr_assert_eq(log_count, 0);
    cr_assert(teff__timer_started(&a.timer));
    teff__timers_run(&timers, 10);
    assert_log(1);
    cr_assert_not(teff__timer_started(&a.timer));
    cr_assert(teff__timer_started(&b.timer));
    teff__timers_run(&timers, 11);
    assert_log(1, 2);
}

Test(timers, equal_deadlines_expire_in_the_order_started)
{
    static named all[1000];
    for (int i = 0; i < 1000; i++) { /* 7 and 1000 have no common divisor: each is started once */
        int k = i * 7 % 1000;
        all[k].name = i;
        start(&all[k], 5);
    }
    teff__timers_run(&timers, 5);
    cr_assert_eq(log_count, 1000);
    for (int i = 0; i < 1000; i++)
        cr_assert_eq(log_names[i], i);
}

Test(timers, one_that_is_started_anew_goes_behind_its_equals)
{
    named a = { .name = 1 }, b = { .name = 2 }, c = { .name = 3 };
    start(&a, 5);
    start(&b, 5);
    start(&c, 5);
    stop(&a);
    start(&a, 5);
    teff__timers_run(&timers, 5);
    assert_log(2, 3, 1);
}

Test(timers, stopped_ones_do_not_expire_wherever_they_stand)
{
    for (unsigned stopped = 0; stopped < 64; stopped++) { /* every choice of six */
        named all[6] = { { .name = 0 } };
        for (int i = 0; i < 6; i++) {
            all[i].name = i;
            start(&all[i], (i * 5) % 6);
        }
        /* Running the earliest one gives the heap some depth: until then all are children of it. */
        log_count = 0;
        teff__timers_run(&timers, 0);
        cr_assert_eq(log_count, 1);
        for (int i = 1; i < 6; i++)
            if ((stopped >> i & 1) != 0) {
                stop(&all[i]);
                cr_assert_not(teff__timer_started(&all[i].timer));
            }
        teff__timers_run(&timers, 5);
        int at = 1;
        for (int deadline = 1; deadline < 6; deadline++) {
            int name = deadline * 5 % 6; /* 5 is its own inverse modulo 6 */
            if ((stopped >> name & 1) == 0)
                cr_assert_eq(log_names[at++], name);
        }
        cr_assert_eq(log_count, at);
        cr_assert_eq(teff__timers_next_ns(&timers), INT64_MAX);
    }
}

Test(timers, may_start_itself_again_when_it_expires)
{
    named a = { .name = 1 };
    a.starts = &a;
    a.starts_ns = 20;
    start(&a, 10);
    teff__timers_run(&timers, 10);
    assert_log(1);
    cr_assert_eq(teff__timers_next_ns(&timers), 20);
    stop(&a);
}

Test(timers, one_started_meanwhile_runs_if_it_is_due)
{
    named due = { .name = 2 }, later = { .name = 3 }, c = { .name = 4 };
    named a = { .name = 1, .starts = &due, .starts_ns = 5 };
    due.starts = &later;
    due.starts_ns = 31;
    start(&a, 10);
    start(&c, 30);
    teff__timers_run(&timers, 30);
    assert_log(1, 2, 4);
    cr_assert(teff__timer_started(&later.timer));
    stop(&later);
}

Test(timers, one_that_is_due_may_still_be_stopped_by_another)
{
    named b = { .name = 2 }, c = { .name = 3 }, a = { .name = 1, .stops = &b };
    start(&a, 10);
    start(&b, 10);
    start(&c, 10);
    teff__timers_run(&timers, 10);
    assert_log(1, 3);
}

static void free_itself(teff__timer *timer)
{
    log_count++;
    free(teff__container_of(timer, named, timer));
}

Test(timers, may_free_itself_when_it_expires)
{
    for (int i = 0; i < 100; i++) {
        named *a = calloc(1, sizeof(*a));
        cr_assert_not_null(a);
        teff__timers_start(&timers, &a->timer, i % 10, free_itself);
    }
    teff__timers_run(&timers, 10);
    cr_assert_eq(log_count, 100);
}

Test(timers, extreme_deadlines_keep_their_order)
{
    named a = { .name = 1 }, b = { .name = 2 }, c = { .name = 3 };
    start(&c, INT64_MAX);
    start(&b, 0);
    start(&a, INT64_MIN);
    cr_assert_eq(teff__timers_next_ns(&timers), INT64_MIN);
    teff__timers_run(&timers, INT64_MAX - 1);
    assert_log(1, 2);
    stop(&c);
}

static void count_only(teff__timer *timer)
{
    (void)timer;
    log_count++;
}

/* A million children of one node: a recursive merge would overflow the stack. */
Test(timers, a_million_need_no_deep_stack)
{
    teff__timer *all = calloc(1000000, sizeof(*all));
    cr_assert_not_null(all);
    for (int i = 0; i < 1000000; i++)
        teff__timers_start(&timers, &all[i], i % 2 == 0 ? i : 1000000 - i, count_only);
    teff__timers_run(&timers, 1000000);
    cr_assert_eq(log_count, 1000000);
    free(all);
}

Test(timers, starting_a_started_one_aborts, .signal = SIGABRT)
{
    named a = { .name = 1 };
    start(&a, 1);
    start(&a, 2);
}

Test(timers, stopping_one_that_is_not_started_aborts, .signal = SIGABRT)
{
    named a = { .name = 1 };
    stop(&a);
}

/* The reference: a list that keeps the order of starting; the first of its earliest runs next. */
static int reference_names[200];
static int64_t reference_deadlines[200];
static int reference_count;

static void reference_remove(int at)
{
    reference_count--;
    for (int i = at; i < reference_count; i++) {
        reference_names[i] = reference_names[i + 1];
        reference_deadlines[i] = reference_deadlines[i + 1];
    }
}

static int reference_earliest(void)
{
    int earliest = 0;
    for (int i = 1; i < reference_count; i++)
        if (reference_deadlines[i] < reference_deadlines[earliest])
            earliest = i;
    return earliest;
}

static int reference_find(int name)
{
    int i = 0;
    while (reference_names[i] != name)
        i++;
    return i;
}

Test(timers, random_operations_agree_with_a_sorted_reference)
{
    static named all[200];
    teff__chance chance;
    int64_t now = 0;
    teff__chance_init(&chance, 31);
    for (int i = 0; i < 200; i++)
        all[i].name = i;
    for (int step = 0; step < 200000; step++) {
        uint64_t number = teff__chance_next(&chance);
        named *one = &all[(number >> 8) % 200];
        if (number % 64 == 0) { /* time passes */
            now += (int64_t)(number >> 32) % 40;
            log_count = 0;
            teff__timers_run(&timers, now);
            for (int i = 0; i < log_count; i++) {
                int earliest = reference_earliest();
                cr_assert_eq(log_names[i], reference_names[earliest], "step %d", step);
                cr_assert_leq(reference_deadlines[earliest], now);
                reference_remove(earliest);
            }
        } else if (!teff__timer_started(&one->timer)) {
            int64_t deadline = now + (int64_t)(number >> 32) % 50;
            start(one, deadline);
            reference_names[reference_count] = one->name;
            reference_deadlines[reference_count++] = deadline;
        } else if (number % 3 == 0) {
            stop(one);
            reference_remove(reference_find(one->name));
        }
        cr_assert_eq(teff__timers_next_ns(&timers),
                     reference_count > 0 ? reference_deadlines[reference_earliest()] : INT64_MAX,
                     "step %d", step);
    }
}
