/* SPDX-License-Identifier: MIT */
/*
 * Going to sleep, and being woken. runtime/inbox.h with worker.c: a worker sleeps in its loop, and
 * an eventfd wakes it. With CLIENT, messaging/registry.c with client.c and client_wait.c: a blocking
 * client sleeps on its stripe's word by a futex; three kinds of news end that.
 *
 * Two threads bring news (the first one twice) and then look whether the sleeper sleeps; the
 * sleeper says that it sleeps and then looks for news.
 *
 * What must be true: the sleeper gets all of the news; it never sleeps for ever with some there
 * (else spin finds an invalid end state).
 *
 * Each of these makes it wrong, and spin must find out:
 *   SLEEPING_RELEASED      the sleeper says that it sleeps with release instead of seq_cst
 *   NEWS_BEFORE_SLEEPING   the sleeper looks for news and then says that it sleeps
 *   SLEEPING_BEFORE_NEWS   a producer looks whether the sleeper sleeps and then brings its news
 *   TAKEN_BY_STORE         the sleeper reads the stack, then clears it: no exchange
 * and with CLIENT:
 *   GATE_RELEASED          the gate is closed with release instead of seq_cst
 *   GATE_BEFORE_SLEEPING   the client looks at the gate and then says that it sleeps
 *   BLIND_WAIT             the futex is waited on without comparing the word again
 */
#define SLEEPING 0 /* inbox->sleeping, stripe->sleeping */
#define INBOX 1    /* inbox->head, or a stripe's `done`: how many lie there */
#define MAIL 2     /* a stripe's mail.head */
#define GATE 3     /* a stripe's gate: that it is closed is news, too */

#define WORDS 4
#define PLAIN 4 /* there are none */
#include "tso.pml"

#define SLEEPER 0
#define FIRST 1
#define SECOND 2

#define NEWS 3   /* in all */
#define TIMERS 1 /* how often a timer wakes it; more would hide that nobody else did */

/* The kernel's, which nobody sees but through system calls */
bool event;   /* the eventfd is readable */
bool waiting; /* on the futex */

#ifdef CLIENT
#define SECOND_PUSHES MAIL
#else
#define SECOND_PUSHES INBOX
#endif

/* The second half of teff__inbox_push_chain; teff__stripe_wake */
inline wake(me)
{
    load(me, SLEEPING, seen);
    if
    :: seen != 0 ->
        exchange(me, SLEEPING, 0, seen);
        if
        :: seen != 0 ->
#ifdef CLIENT
            waiting = false /* teff__futex_wake */
#else
            event = true /* teff__wakeup_send */
#endif
        :: else
        fi
    :: else
    fi;
    seen = 0
}

/* teff__inbox_push_chain; the push onto `done` in teff__stripe_claim */
inline push(me, stack)
{
    load(me, stack, seen);
    pushed = false;
    do
    :: !pushed -> cas(me, stack, seen, seen + 1, pushed)
    :: else -> break
    od;
    pushed = false;
    seen = 0
}

inline bring(me, stack)
{
#ifdef SLEEPING_BEFORE_NEWS
    wake(me);
    push(me, stack)
#else
    push(me, stack);
    wake(me)
#endif
}

/* teff__inbox_take, teff__stripe_take_done */
inline take(stack)
{
    load(SLEEPER, stack, seen); /* teff__inbox_empty */
    if
    :: seen != 0 ->
#ifdef TAKEN_BY_STORE
        store_seq_cst(SLEEPER, stack, 0);
#else
        exchange(SLEEPER, stack, 0, seen);
#endif
        taken = taken + seen
    :: else
    fi;
    seen = 0
}

inline say_sleeping()
{
#ifdef SLEEPING_RELEASED
    store(SLEEPER, SLEEPING, 1)
#else
    store_seq_cst(SLEEPER, SLEEPING, 1)
#endif
}

/* Are there news? The second half of teff__inbox_sleep and teff__client_announce_sleep */
inline look()
{
    load(SLEEPER, INBOX, seen);
#ifdef CLIENT
    if
    :: seen == 0 -> load(SLEEPER, MAIL, seen)
    :: else
    fi;
#endif
    skip
}

#ifdef CLIENT
inline look_at_gate()
{
    if
    :: !closed -> load(SLEEPER, GATE, gate)
    :: else
    fi
}
#endif

/*
 * teff__inbox_sleep and park; teff__client_announce_sleep and wait_news. `closed`: the client has
 * seen that the gate is closed, and does not wait for that.
 */
inline sleep()
{
#ifdef GATE_BEFORE_SLEEPING
    look_at_gate();
#endif
#ifdef NEWS_BEFORE_SLEEPING
    look();
    say_sleeping();
#else
    say_sleeping();
    look();
#endif
    if
    :: seen != 0 -> seen = 0
    :: else ->
#ifdef CLIENT
#ifndef GATE_BEFORE_SLEEPING
        look_at_gate();
#endif
        if
        :: !gate ->
            d_step { /* teff__futex_wait: the kernel compares, and puts it to sleep, in one step */
                drain(SLEEPER);
#ifdef BLIND_WAIT
                waiting = true
#else
                waiting = (word[SLEEPING] == 1)
#endif
            };
            if
            :: !waiting
            :: timers < TIMERS -> timers++; waiting = false
            fi
        :: else
        fi;
        gate = false
#else
        d_step { /* no barrier by itself, but who sleeps in the kernel has passed many */
            drain(SLEEPER)
        };
        if /* uv_run */
        :: event -> event = false /* teff__worker_on_wake */
        :: timers < TIMERS -> timers++
        fi
#endif
    fi;
    store(SLEEPER, SLEEPING, 0) /* teff__inbox_awake, or the end of wait_news */
}

active proctype sleeper()
{
    byte taken, timers;
    byte seen;
#ifdef CLIENT
    bool gate, closed;
#endif
    do
    :: take(INBOX);
#ifdef CLIENT
        take(MAIL);
        load(SLEEPER, GATE, closed); /* teff_client_run */
        if
        :: taken == NEWS && closed -> break
        :: else
        fi;
#else
        if
        :: taken == NEWS -> break
        :: else
        fi;
#endif
        sleep()
    od;
    assert(taken == NEWS);
    end_thread(SLEEPER)
}

active proctype first()
{
    byte seen;
    bool pushed;
    bring(FIRST, INBOX);
    bring(FIRST, INBOX);
    end_thread(FIRST)
}

active proctype second()
{
    byte seen;
    bool pushed;
    bring(SECOND, SECOND_PUSHES);
#ifdef CLIENT
#ifdef GATE_RELEASED
    store(SECOND, GATE, 1);
#else
    store_seq_cst(SECOND, GATE, 1); /* teff__stripe_close_gate */
#endif
    wake(SECOND);
#endif
    end_thread(SECOND)
}

active proctype memory()
{
    run_memory();
    assert(word[INBOX] == 0 && word[MAIL] == 0)
}
