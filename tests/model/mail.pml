/* SPDX-License-Identifier: MIT */
/*
 * Mail to a client that is going, and to the next one on its stripe. messaging/client_mail.c and the
 * end of a client in client.c.
 *
 * Two threads post a message each while one client after the other owns the stripe. A sender posts
 * and then looks whether somebody reads; a client that goes says that nobody does and then looks
 * for mail. Whoever finds some refuses it.
 *
 * What must be true:
 *   each message is dealt with exactly once: served or refused
 *   no sender takes away the mail of a client that reads it
 *
 * Each of these makes it wrong, and spin must find out:
 *   READS_RELEASED         the client says that it stops reading with release instead of seq_cst
 *   MAIL_BEFORE_READS      the client takes its mail and then says that it stops reading
 *   READS_BEFORE_MAIL      a sender looks whether somebody reads and then posts
 *   REFUSED_AT_ONCE        a sender refuses what it finds, without the lock and a second look
 *   BEGUN_WITHOUT_LOCK     the next client begins to read without the lock
 *   LATE_FORGOTTEN         a client goes with requests that it took after it stopped reading
 */
#define READS 0 /* stripe->reads_mail */
#define MAIL 1  /* stripe->mail.head: the messages that lie there, a bit each */

#define WORDS 2
#define PLAIN 2 /* there are none */
#include "tso.pml"

#define CLIENT 0
#define FIRST 1
#define SECOND 2

#ifndef CLIENTS
#define CLIENTS 2 /* one after the other */
#endif
#define BIT(sender) (1 << ((sender)-1))

bool locked; /* the silo's lock, which is taken and released with locked instructions */

/* What an observer knows */
bool reading; /* a client has begun to read and not yet stopped */
byte dealt;   /* messages that were served or refused */

inline lock()
{
    atomic {
        !locked;
        locked = true
    }
}

inline unlock(me)
{
    d_step {
        drain(me);
        locked = false
    }
}

/* teff__exchange_reject and the like, or an observer's handler */
inline deal_with(messages)
{
    d_step {
        assert((dealt & (messages)) == 0); /* exactly once */
        dealt = dealt | (messages);
        messages = 0
    }
}

/* teff__inbox_take */
inline take(me, into)
{
    load(me, MAIL, into); /* teff__inbox_empty */
    if
    :: into != 0 -> exchange(me, MAIL, 0, into)
    :: else
    fi
}

/* teff_client_create: the stripe was chosen before, under the lock, too */
inline begin()
{
#ifndef BEGUN_WITHOUT_LOCK
    lock();
#endif
    atomic {
        store_seq_cst(CLIENT, READS, 1);
        reading = true
    };
#ifndef BEGUN_WITHOUT_LOCK
    unlock(CLIENT)
#endif
}

/* teff__client_take: take_mail puts requests into the client's own queue */
inline take_mail()
{
    atomic {
        take(CLIENT, mail);
        requests = requests | mail;
        mail = 0
    }
}

/* teff__client_stop_reading */
inline stop_reading()
{
#ifdef MAIL_BEFORE_READS
    take(CLIENT, mail);
    deal_with(mail);
#endif
    atomic {
#ifdef READS_RELEASED
        store(CLIENT, READS, 0);
#else
        store_seq_cst(CLIENT, READS, 0);
#endif
        reading = false
    };
    deal_with(requests); /* teff__client_refuse_requests */
#ifndef MAIL_BEFORE_READS
    take(CLIENT, mail);
    deal_with(mail)
#endif
}

active proctype client()
{
    byte clients, mail, requests;
    do
    :: clients < CLIENTS ->
        clients++;
        begin();
        do
        :: take_mail()
        :: requests != 0 -> deal_with(requests) /* teff__client_serve */
        :: break
        od;
        stop_reading(); /* teff__client_wind_up */
        do
        :: take_mail() /* while calls are open */
        :: break
        od;
#ifdef LATE_FORGOTTEN
        requests = 0;
#else
        deal_with(requests); /* teff__client_refuse_requests: a late sender's */
#endif
        lock(); /* teff__client_gone */
        unlock(CLIENT)
    :: else -> break
    od;
    end_thread(CLIENT)
}

/* The second half of post: nobody reads. */
inline refuse(me)
{
#ifndef REFUSED_AT_ONCE
    lock();
    load(me, READS, reads);
#endif
    if
    :: reads == 0 ->
        atomic {
            take(me, mail);
            assert(mail == 0 || !reading)
        }
    :: else /* teff__stripe_wake: sleep.pml */
    fi;
#ifndef REFUSED_AT_ONCE
    unlock(me);
#endif
    deal_with(mail)
}

/* post */
inline post(me)
{
#ifdef READS_BEFORE_MAIL
    load(me, READS, reads);
#endif
    load(me, MAIL, mail); /* teff__inbox_push_chain */
    do
    :: !pushed -> cas(me, MAIL, mail, mail | BIT(me), pushed)
    :: else -> break
    od;
    mail = 0;
#ifndef READS_BEFORE_MAIL
    load(me, READS, reads);
#endif
    if
    :: reads == 0 -> refuse(me)
    :: else /* teff__stripe_wake: sleep.pml */
    fi
}

/* teff__client_post: a source that fires, or a request to an observer */
active proctype first()
{
    byte mail, reads;
    bool pushed;
    load(FIRST, READS, reads);
    if
    :: reads == 0 -> mail = BIT(FIRST); deal_with(mail) /* there is no client: it is not posted */
    :: else -> post(FIRST)
    fi;
    end_thread(FIRST)
}

/* teff__client_post_chain: answers to a client on a loop */
active proctype second()
{
    byte mail, reads;
    bool pushed;
    post(SECOND);
    end_thread(SECOND)
}

active proctype memory()
{
    run_memory();
    assert(word[MAIL] == 0 && dealt == (BIT(FIRST) | BIT(SECOND)))
}
