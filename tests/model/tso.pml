/* SPDX-License-Identifier: MIT */
/*
 * Memory as x86 has it (x86-TSO; Sewell and others, "x86-TSO: a rigorous and usable programmer's
 * model", 2010), for the models beside this file.
 *
 * Each thread has a buffer of stores, first in, first out. A store goes into it; a load takes the
 * thread's own newest store to that word, else what lies in memory; the oldest store of a buffer
 * reaches memory at any later moment, which is the business of a model's process `memory`. A locked
 * instruction (compare-and-swap, exchange, and a seq_cst store, which is an exchange) empties the
 * thread's buffer, and then reads and writes memory in the same step.
 *
 * So relaxed, acquire and release are the same here, as they are in the code that a compiler makes
 * for x86. What a model on top of this rejects is wrong on x86 already. It says nothing about the
 * weaker orders of other processors; those are argued in docs/concurrency.md.
 *
 * Words from PLAIN on are plain fields, handed from one thread to another. When a store to one of
 * them reaches memory makes no difference as long as no other thread touches the field meanwhile.
 * That is asserted at each access (it is a data race), and lets us leave such moments out: a store
 * to a plain field reaches memory together with the next one to a shared word.
 *
 * A model has three threads, and defines WORDS and PLAIN before it includes this. That a buffer
 * overflows fails by an assertion: a full one would hide interleavings.
 */
#define THREADS 3
#define CAPACITY 4 /* of a buffer, in stores */

typedef Buffer {
    byte count;
    byte where[CAPACITY]; /* 0 is the oldest */
    byte what[CAPACITY]
};

byte word[WORDS];
Buffer buffer[THREADS];
byte finished; /* threads that have ended */

hidden byte at, other; /* only within a d_step: no part of the state */

/* No data race: nobody else has a store to that plain field under way. */
inline check_race(me, where_)
{
    if
    :: (where_) >= PLAIN ->
        other = 0;
        do
        :: other < THREADS ->
            at = 0;
            do
            :: at < buffer[other].count ->
                assert(other == (me) || buffer[other].where[at] != (where_));
                at++
            :: else -> break
            od;
            other++
        :: else -> break
        od
    :: else
    fi
}

/* teff__atomic_…_load_relaxed, _acquire, _seq_cst; a plain read */
inline load(me, where_, into)
{
    d_step {
        check_race(me, where_);
        at = buffer[me].count;
        do
        :: at == 0 -> into = word[where_]; break
        :: else ->
            at--;
            if
            :: buffer[me].where[at] == (where_) -> into = buffer[me].what[at]; break
            :: else
            fi
        od
    }
}

/* teff__atomic_…_store_relaxed, _release; a plain write */
inline store(me, where_, what_)
{
    d_step {
        check_race(me, where_);
        assert(buffer[me].count < CAPACITY);
        buffer[me].where[buffer[me].count] = where_;
        buffer[me].what[buffer[me].count] = what_;
        buffer[me].count++
    }
}

/* All stores of a thread reach memory. Within a d_step. */
inline drain(me)
{
    at = 0;
    do
    :: at < buffer[me].count ->
        word[buffer[me].where[at]] = buffer[me].what[at];
        buffer[me].where[at] = 0;
        buffer[me].what[at] = 0;
        at++
    :: else -> break
    od;
    buffer[me].count = 0
}

/* teff__atomic_…_store_seq_cst */
inline store_seq_cst(me, where_, what_)
{
    d_step {
        drain(me);
        word[where_] = what_
    }
}

/* teff__atomic_…_exchange_…; the new value must not depend on `into` */
inline exchange(me, where_, what_, into)
{
    d_step {
        drain(me);
        into = word[where_];
        word[where_] = what_
    }
}

/* teff__atomic_…_cas_…: `expected` becomes what was seen; `done` says whether it was as expected. */
inline cas(me, where_, expected, desired, done)
{
    d_step {
        drain(me);
        if
        :: word[where_] == (expected) -> word[where_] = desired; done = true
        :: else -> expected = word[where_]; done = false
        fi
    }
}

/* The oldest stores of a thread reach memory: up to the first one to a shared word, or all. */
inline flush(me)
{
    d_step {
        do
        :: buffer[me].count > 0 ->
            word[buffer[me].where[0]] = buffer[me].what[0];
            other = (buffer[me].where[0] < PLAIN -> 1 : 0);
            at = 1;
            do
            :: at < buffer[me].count ->
                buffer[me].where[at - 1] = buffer[me].where[at];
                buffer[me].what[at - 1] = buffer[me].what[at];
                at++
            :: else -> break
            od;
            buffer[me].count--;
            buffer[me].where[buffer[me].count] = 0;
            buffer[me].what[buffer[me].count] = 0;
            if
            :: other == 1 -> break
            :: else
            fi
        :: else -> break
        od
    }
}

/* Whether a store of a thread to a shared word is under way. */
#define is_shared(me, n) (buffer[me].count > (n) && buffer[me].where[n] < PLAIN)
#define under_way(me) (is_shared(me, 0) || is_shared(me, 1) || is_shared(me, 2) || is_shared(me, 3))

/* The end of a thread: its last stores reach memory. */
inline end_thread(me)
{
    d_step {
        drain(me);
        finished++
    }
}

/* Stores reach memory, at any time; until all threads have ended. The body of `memory`. */
inline run_memory()
{
    do
    :: under_way(0) -> flush(0)
    :: under_way(1) -> flush(1)
    :: under_way(2) -> flush(2)
    :: finished == THREADS -> break
    od
}
