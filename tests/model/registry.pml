/* SPDX-License-Identifier: MIT */
/*
 * The callback registry, for a blocking client's stripe: open, publish, gate, claim, close, sweep,
 * and reuse of slots. messaging/registry.h and registry.c, step by step; each step names the
 * function that it stands for. Read it beside those.
 *
 * Three threads and two slots. The client owns the stripe: it opens calls, ends some of them itself
 * (deadline, cancellation, its own going: all the same steps), takes what was claimed and uses the
 * slots again. The worker answers any request that was sent, at any later time, also twice and also
 * when the call has long ended; or never. Stop closes the gate and sweeps.
 *
 * What must be true:
 *   exactly once       a call that was opened is ended once and completed once
 *   no lost callback   once stop has ended, each call that was admitted has ended; and the client
 *                      never waits for ever (else spin finds an invalid end state)
 *   no reused slot     an answer completes the call that it answers, and no later one in its slot
 *
 * Each of these makes it wrong, and spin must find out:
 *   WORD_RELEASED          the word is published with release instead of seq_cst
 *   GATE_RELEASED          the gate is closed with release instead of seq_cst
 *   GATE_BEFORE_WORD       the opener looks at the gate before it publishes the word
 *   GENERATION_KEPT        a slot is used again with the generation that it had
 *   GENERATION_WRAPPED     a slot whose generation is exhausted begins again instead of retiring
 *   END_BY_STORE           the word is looked at, then stored: no compare-and-swap
 *   SWEEP_BEFORE_GATE      stop sweeps and then closes the gate
 *   PUSHED_BEFORE_CLAIM    a slot is handed over before it is claimed
 *   TAKEN_BY_STORE         the owner reads the list of done slots, then clears it: no exchange
 *   ANSWER_AFTER_PUSH      the answer is put into the slot after that was handed over
 */
#define SLOTS 2
#ifndef CALLS
#define CALLS 3 /* that the client opens, so that at least one slot is used again */
#endif
#ifndef GENERATION_MAX
#define GENERATION_MAX 2 /* a slot that is used twice is retired */
#endif
#define ENDS 1 /* calls that the client ends itself; more would hide that one was lost */

/* The words that the threads share, and the two plain fields of a slot that are handed over. */
#define MADE 0                   /* stripe->made */
#define GATE 1                   /* stripe->gate */
#define DONE 2                   /* stripe->done: slot + 1 */
#define WORD(slot) (3 + (slot))  /* callback->word */
#define VALUE(slot) (5 + (slot)) /* callback->value and ->code: the call that is answered, or CODE */
#define LINK(slot) (7 + (slot))  /* callback->done: the next slot + 1 */

#define PLAIN 5
#define WORDS 9
#include "tso.pml"

#define CLIENT 0
#define WORKER 1
#define STOP 2

/* callback->word: generation and state */
#define FREE 0
#define OPEN 1
#define CLAIMED 2
#define SETTLED 3
#define WORD_OF(generation, state) ((generation) << 2 | (state))
#define GENERATION(word) ((word) >> 2)
#define STATE(word) ((word)&3)

#define GATE_OPEN 0
#define GATE_CLOSED 1
#define GATE_ENDED 2

#define NOTHING 0 /* in a slot's value: nobody has ended it */
#define CODE 255  /* it ended without an answer; else the number of the call, from 1 */

/* A request: the correlation id, and which call it belongs to. Index: the call. */
typedef Request {
    bool sent; /* it lies in the worker's inbox, which is pushed with a locked instruction */
    byte at_slot;
    byte of_generation
};
Request request[CALLS + 1];

/* What an observer knows, and no thread does. Index: the call; of `open_in`: the slot. */
byte open_in[SLOTS];
bool admitted[CALLS + 1];  /* its opener saw the gate open, and it is not completed */
bool stopped;              /* stop has ended */
byte ended[CALLS + 1];     /* how often it was claimed or retracted */
byte completed[CALLS + 1]; /* how often the client has been told */

/*
 * teff__stripe_claim. `seen`, `head` and `won` are the thread's own. An atomic block is one access
 * to what threads share, and what the thread does with it.
 */
inline claim(me, slot, generation, answer)
{
    atomic {
        load(me, MADE, seen);
        won = (seen > (slot));
        seen = 0
    };
#ifdef PUSHED_BEFORE_CLAIM
    push_done(me, slot);
#endif
    atomic {
        if
        :: won ->
            load(me, WORD(slot), seen);
            won = (seen == WORD_OF(generation, OPEN));
            seen = 0
        :: else
        fi
    };
    atomic {
        if
        :: won -> seen = WORD_OF(generation, OPEN); move_on(me, slot, seen, CLAIMED)
        :: else
        fi;
        seen = 0
    };
    if
    :: won ->
#ifndef ANSWER_AFTER_PUSH
        store(me, VALUE(slot), answer);
#endif
#ifndef PUSHED_BEFORE_CLAIM
        push_done(me, slot);
#endif
#ifdef ANSWER_AFTER_PUSH
        store(me, VALUE(slot), answer);
#endif
        /* teff__stripe_wake: a model of its own, sleep.pml */
        won = false
    :: else
    fi
}

/*
 * An open callback ends: the compare-and-swap of teff__stripe_claim and teff__stripe_retract. One
 * that fails has seen another word, which is not open with that generation, and never will be again;
 * so the loop around it ends with its next look.
 */
inline move_on(me, slot, expected, state)
{
#ifdef END_BY_STORE
    store(me, WORD(slot), WORD_OF(GENERATION(expected), state));
    won = true;
#else
    cas(me, WORD(slot), expected, WORD_OF(GENERATION(expected), state), won);
#endif
    if
    :: won ->
        assert(ended[open_in[slot]] == 0); /* exactly once */
        ended[open_in[slot]]++
    :: else
    fi
}

/* The second half of teff__stripe_claim: hands the slot to the owner. */
inline push_done(me, slot)
{
    load(me, DONE, head);
    do
    :: atomic {
        store(me, LINK(slot), head);
        pushed = false;
        cas(me, DONE, head, (slot) + 1, pushed);
        if
        :: pushed -> head = 0; pushed = false; break
        :: else
        fi
       }
    od
}

/* teff__stripe_claim_all, with teff__stripe_next_open */
inline claim_all(me)
{
    load(me, MADE, made);
    do
    :: slot < made ->
        atomic {
            load(me, WORD(slot), seen);
            generation = (STATE(seen) == OPEN -> GENERATION(seen) : 0);
            seen = 0
        };
        if
        :: generation != 0 -> claim(me, slot, generation, CODE)
        :: else
        fi;
        atomic {
            generation = 0;
            slot++
        }
    :: else -> break
    od;
    atomic {
        slot = 0;
        made = 0
    }
}

/* The owner is told of a call's end. */
inline observe_completion(which, answer)
{
    assert(completed[which] == 0);                   /* exactly once */
    assert((answer) == CODE || (answer) == (which)); /* no answer in a reused slot */
    completed[which]++;
    admitted[which] = false
}

/* teff__stripe_free. `next` is the owner's alone, as is the list of free slots. */
inline give_back(slot, generation)
{
    store(CLIENT, WORD(slot), WORD_OF(generation, FREE));
    if
#ifndef GENERATION_WRAPPED
    :: (generation) >= GENERATION_MAX /* retired */
#endif
    :: else ->
        next[slot] = free;
        free = (slot) + 1
    fi
}

/* teff__stripe_retract */
inline retract(slot, which)
{
    atomic {
        load(CLIENT, WORD(slot), seen);
        won = (STATE(seen) == OPEN);
        head = seen;
        seen = 0
    };
    atomic {
        if
        :: won -> seen = head; move_on(CLIENT, slot, seen, SETTLED)
        :: else
        fi;
        seen = 0;
        if
        :: won ->
            observe_completion(which, CODE); /* TEFF_EUNAVAILABLE, from the opening call itself */
            opened--
        :: else /* handed over like any other */
        fi
    };
    atomic {
        if
        :: won -> give_back(slot, GENERATION(head))
        :: else
        fi;
        head = 0;
        won = false
    }
}

/* teff__client_open and teff__request_send */
inline open_call()
{
    atomic {
        load(CLIENT, GATE, gate); /* a look to fail early; nothing depends on it */
        refused = (gate != GATE_OPEN);
        gate = 0
    };
    if
    :: !refused ->
        atomic { /* teff__stripe_take, teff__stripe_grow */
            if
            :: free != 0 ->
                slot = free - 1;
                free = next[slot];
                next[slot] = 0
            :: else ->
                slot = made;
                made++;
                store_seq_cst(CLIENT, MADE, made)
            fi;
            calls++;
            opened++
        };
        atomic { /* teff__stripe_prepare; the word of a free slot nobody else writes */
            store(CLIENT, VALUE(slot), NOTHING);
            load(CLIENT, WORD(slot), seen);
#if defined(GENERATION_KEPT)
            generation = 1;
#elif defined(GENERATION_WRAPPED)
            generation = GENERATION(seen) % GENERATION_MAX + 1;
#else
            generation = GENERATION(seen) + 1;
#endif
            seen = 0;
            request[calls].at_slot = slot;
            request[calls].of_generation = generation
        };
        /* teff__stripe_open_shared */
#ifdef GATE_BEFORE_WORD
        look_at_gate();
#endif
        atomic {
            open_in[slot] = calls;
#ifdef WORD_RELEASED
            store(CLIENT, WORD(slot), WORD_OF(generation, OPEN))
#else
            store_seq_cst(CLIENT, WORD(slot), WORD_OF(generation, OPEN))
#endif
        };
#ifndef GATE_BEFORE_WORD
        look_at_gate();
#endif
        if
        :: !refused ->
            atomic {
                d_step {
                    drain(CLIENT); /* teff__worker_post_chain */
                    request[calls].sent = true
                };
                slot = 0;
                generation = 0
            }
        :: else ->
            retract(slot, calls);
            atomic {
                slot = 0;
                generation = 0
            }
        fi
    :: else
    fi
}

inline look_at_gate()
{
    atomic {
        load(CLIENT, GATE, gate);
        refused = (gate != GATE_OPEN);
        admitted[calls] = !refused;
        assert(refused || !stopped);
        gate = 0
    }
}

/* teff__client_end_due, teff__client_drop_future, teff__client_wind_up: one of its own open calls */
inline end_call(which)
{
    atomic {
        load(CLIENT, WORD(which), seen);
        generation = GENERATION(seen);
        seen = 0
    };
    claim(CLIENT, which, generation, CODE);
    generation = 0
}

/*
 * teff__client_take: teff__stripe_take_done, but for the reversal, which is the owner's alone; then
 * receive and finish for each slot. That it is settled for a while, before it is free, is nobody
 * else's business either: others only ask whether it is open.
 */
inline take_done()
{
#ifdef TAKEN_BY_STORE
    load(CLIENT, DONE, list);
    store_seq_cst(CLIENT, DONE, 0);
#else
    exchange(CLIENT, DONE, 0, list);
#endif
    do
    :: list != 0 ->
        atomic {
            slot = list - 1;
            load(CLIENT, LINK(slot), list);
            load(CLIENT, VALUE(slot), head);
            observe_completion(open_in[slot], head);
            opened--;
            head = 0
        };
        atomic {
            load(CLIENT, WORD(slot), seen);
            assert(STATE(seen) == CLAIMED);
            give_back(slot, GENERATION(seen)); /* teff__client_free */
            seen = 0;
            slot = 0
        }
    :: else -> break
    od
}

active proctype client()
{
    byte calls, opened, ends;          /* begun; teff__client_open_count; ended by itself */
    byte free, made;                   /* stripe->free; what it stored as stripe->made */
    byte next[SLOTS];                  /* callback->next */
    byte slot, generation, gate, list; /* registers */
    byte seen, head;
    bool won, pushed, refused;
    do
    :: calls < CALLS && !refused && (free != 0 || made < SLOTS) -> open_call()
    :: ends < ENDS && made > 0 && opened > 0 -> ends++; end_call(0)
    :: ends < ENDS && made > 1 && opened > 0 -> ends++; end_call(1)
    :: word[DONE] != 0 -> take_done() /* never in its own buffer */
    :: opened == 0 -> break
    od;
    atomic {
        for (slot : 1 .. calls) {
            assert(completed[slot] == 1)
        };
        slot = 0
    };
    end_thread(CLIENT)
}

active proctype worker()
{
    byte which;
    byte seen, head;
    bool won, pushed;
    do
    :: if
        :: request[1].sent -> which = 1
        :: request[2].sent -> which = 2
#if CALLS > 2
        :: request[3].sent -> which = 3
#endif
        fi;
        claim(WORKER, request[which].at_slot, request[which].of_generation, which);
        which = 0
    :: break
    od;
    end_thread(WORKER)
}

inline close_gate(state)
{
#ifdef GATE_RELEASED
    store(STOP, GATE, state);
#else
    store_seq_cst(STOP, GATE, state);
#endif
    /* teff__stripe_wake: sleep.pml */
}

active proctype stop()
{
    byte slot, generation, made;
    byte seen, head;
    bool won, pushed;
#ifdef SWEEP_BEFORE_GATE
    claim_all(STOP);
#endif
    close_gate(GATE_CLOSED); /* teff__stripe_close_gate, by begin_stop */
    close_gate(GATE_ENDED);  /* teff__stripe_end, by finish_stop */
#ifndef SWEEP_BEFORE_GATE
    claim_all(STOP);
#endif
    atomic { /* the silo's lock, in finish_stop: its stores have reached memory */
        d_step {
            drain(STOP)
        };
        for (slot : 1 .. CALLS) {
            assert(!admitted[slot] || ended[slot] == 1) /* no lost callback */
        };
        slot = 0;
        stopped = true
    };
    end_thread(STOP)
}

/* Its end is that of the whole: what must then be true. */
active proctype memory()
{
    run_memory();
    assert(word[DONE] == 0 && STATE(word[WORD(0)]) == FREE && STATE(word[WORD(1)]) == FREE)
}
