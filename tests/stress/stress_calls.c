/* SPDX-License-Identifier: MIT */
/*
 * Calls from everywhere to grains that come and go.
 *
 *   stress_calls [calls=200000] [workers=4] [tasks=25] [clients=2] [grains=1000] [leaves=64]
 *                [leaving=10] [seed=1] [seconds_max=300]
 *
 * `clients` threads outside the silo and `tasks` tasks on each of `workers` workers are the
 * senders. Together they make `calls` awaited calls to grains that each chooses by its own seeded
 * generator; `leaving` of a hundred messages ask their grain to be deactivated, some grains await
 * another one or sleep in their turns, some messages are one way, also several in a row with a call
 * behind them. What must hold is checked outside of the grains, mostly where it happens, by the
 * turns (stress_calls_grains.c), the rest at the end (stress_calls_check.c): each call ends once
 * and well and has its own answer; in the end as many turns ran as messages were sent, all
 * activations are gone, and nothing is open.
 */
#include "stress_calls_check.h"
#include "stress_calls_common.h"

#include "runtime/clock.h"
#include "runtime/silo.h"

enum { BURST_MAX = 4, NAP_NS_MAX = 20000 };

/* --- Sending ---------------------------------------------------------------------------------- */

typedef enum method { QUICK, LEAVE, ASK, NAP } method;

static method choose_method(sender *self)
{
    const uint64_t dice = teff__chance_next(&self->chance) % 100;
    if (dice < self->leaving)
        return LEAVE;
    return dice % 20 < 3 ? ASK : dice % 20 < 4 ? NAP : QUICK;
}

static struct work next_work(sender *self, uint32_t target)
{
    return (struct work){
        .target = target,
        .sender = self->index,
        .number = ++self->numbers[target],
        .leaf = (uint32_t)(teff__chance_next(&self->chance) % self->ledger->leaf_count),
        .leave = teff__chance_next(&self->chance) % 16 == 0,
        .nap_ns = (int64_t)(teff__chance_next(&self->chance) % 2 * NAP_NS_MAX),
    };
}

/* The reference that this sender has used before or, now and then, one that knows nothing. */
static target_ref *choose_reference(sender *self, uint32_t target)
{
    if (teff__chance_next(&self->chance) % 8 == 0)
        self->refs[target] = target_at(target);
    return &self->refs[target];
}

static const char *sender_name(const sender *self, char text[48])
{
    if (self->worker < 0)
        (void)snprintf(text, 48, "sender %u (a client)", self->index);
    else
        (void)snprintf(text, 48, "sender %u (a task on worker %d)", self->index, self->worker);
    return text;
}

static void send(sender *self, teff_caller *caller, uint32_t target)
{
    char name[48];
    target_ref *to = choose_reference(self, target);
    const struct work arg = next_work(self, target);
    const method kind = choose_method(self);
    const int r = kind == LEAVE ? target_leave_send(caller, to, &arg)
                  : kind == ASK ? target_ask_send(caller, to, &arg)
                  : kind == NAP ? target_nap_send(caller, to, &arg)
                                : target_quick_send(caller, to, &arg);
    if (r != 0)
        fail("%s: its message %u to target %u was refused: %s", sender_name(self, name), arg.number,
             target, teff_status_name(r));
    self->unawaited[target] = true;
    self->sends++;
    self->leaves += kind == LEAVE;
}

static void call(sender *self, teff_caller *caller, uint32_t target, method kind)
{
    char name[48];
    target_ref *to = choose_reference(self, target);
    const struct work arg = next_work(self, target);
    struct worked ret = { 0 };
    teff__atomic_u64_store_relaxed(&self->waiting, (uint64_t)target << 32 | arg.number);
    const int r = kind == LEAVE ? target_leave(caller, to, &arg, &ret)
                  : kind == ASK ? target_ask(caller, to, &arg, &ret)
                  : kind == NAP ? target_nap(caller, to, &arg, &ret)
                                : target_quick(caller, to, &arg, &ret);
    teff__atomic_u64_store_relaxed(&self->waiting, 0);
    if (r != 0) {
        const teff_outcome *outcome = teff_outcome_last(caller);
        fail("%s: its call %u to target %u: %s from %s: %s", sender_name(self, name), arg.number,
             target, teff_status_name(r), outcome->method != NULL ? outcome->method->name : "?",
             outcome->text);
    }
    if (ret.target != target || ret.sender != self->index || ret.number != arg.number)
        fail("%s: its call %u to target %u got the answer to call %u of sender %u to target %u",
             sender_name(self, name), arg.number, target, ret.number, ret.sender, ret.target);
    self->unawaited[target] = false;
    self->calls++;
    self->leaves += kind == LEAVE;
    teff__atomic_u64_increment_owner(&self->ended);
}

/* Sends its share, then makes sure that all that it sent one way has run, too. */
static void run_sender(sender *self, teff_caller *caller)
{
    const uint32_t target_count = self->ledger->target_count;
    while (self->calls < self->share) {
        const uint32_t target = (uint32_t)(teff__chance_next(&self->chance) % target_count);
        const uint64_t dice = teff__chance_next(&self->chance) % 16;
        if (dice == 0) /* alone, unless another one follows by chance */
            send(self, caller, target);
        else if (dice == 1)
            for (uint64_t left = teff__chance_next(&self->chance) % BURST_MAX + 1; left > 0; left--)
                send(self, caller, target);
        if (dice != 0)
            call(self, caller, target, choose_method(self));
    }
    for (uint32_t target = 0; target < target_count; target++)
        if (self->unawaited[target])
            call(self, caller, target, QUICK);
}

static int task_main(teff_task *task, void *user)
{
    run_sender(user, task);
    return 0;
}

static void client_main(void *user)
{
    sender *self = user;
    teff_client *client;
    const int r = teff_client_create(self->silo, NULL, &client);
    if (r != 0)
        fail("no client: %s", teff_status_name(r));
    run_sender(self, client);
    if (teff_client_destroy(client) != NULL)
        fail("a client was not destroyed by its own thread");
}

/* --- The watchdog and the progress line ------------------------------------------------------- */

static const stress *watched;

static uint64_t calls_ended(const stress *self)
{
    uint64_t ended = 0;
    for (uint32_t i = 0; i < self->sender_count; i++)
        ended += teff__atomic_u64_load_relaxed(&self->senders[i].ended);
    return ended;
}

/* Where it hangs it is the end of the program all the same: so it may print. */
static void on_watchdog(int number)
{
    enum { SHOWN_MAX = 12 };
    const stress *self = watched;
    uint32_t waiting = 0;
    (void)number;
    printf("\n");
    for (uint32_t i = 0; i < self->sender_count; i++) {
        char name[48];
        const uint64_t waits = teff__atomic_u64_load_relaxed(&self->senders[i].waiting);
        if (waits == 0 || waiting++ >= SHOWN_MAX)
            continue;
        const account *target = &self->ledger.targets[waits >> 32];
        printf("%s waits for call %u to target %u, which has %u activations and is %s\n",
               sender_name(&self->senders[i], name), (uint32_t)waits, (uint32_t)(waits >> 32),
               teff__atomic_u32_load_relaxed(&target->alive),
               teff__atomic_u32_load_relaxed(&target->busy) != 0 ? "busy" : "idle");
    }
    fail("it hangs: %llu of %llu calls have ended, %u senders wait, %llu callbacks are open",
         (unsigned long long)calls_ended(self), self->calls, waiting,
         (unsigned long long)teff__silo_open_count(self->silo));
}

static void show_progress(const stress *self)
{
    const bool terminal = isatty(STDOUT_FILENO) != 0;
    while (terminal && calls_ended(self) < self->calls) {
        printf("\r%llu of %llu calls", (unsigned long long)calls_ended(self), self->calls);
        (void)fflush(stdout);
        pause_ms(100);
    }
    if (terminal)
        printf("\r%40s\r", "");
}

/* --- Before and after ------------------------------------------------------------------------- */

static void *make(size_t count, size_t size)
{
    void *memory = calloc(count, size);
    if (memory == NULL)
        fail("out of memory");
    return memory;
}

static int worker_start(void *user, uint32_t worker, void **ret_context)
{
    stress *self = user;
    self->numbers[worker] = (int)worker + 1; /* 0 is a state's before it was activated */
    *ret_context = &self->numbers[worker];
    return 0;
}

static void build_ledger(stress *self)
{
    self->ledger.target_count = (uint32_t)self->grains;
    self->ledger.leaf_count = (uint32_t)self->leaves;
    self->ledger.targets = make(self->grains, sizeof(account));
    self->ledger.leaves = make(self->leaves, sizeof(account));
    for (uint32_t i = 0; i < self->grains; i++)
        self->ledger.targets[i].seen = make(self->sender_count, sizeof(uint32_t));
}

static void build_senders(stress *self)
{
    self->senders = make(self->sender_count, sizeof(sender));
    for (uint32_t i = 0; i < self->sender_count; i++) {
        sender *each = &self->senders[i];
        each->ledger = &self->ledger;
        each->silo = self->silo;
        each->index = i;
        each->worker = i < self->clients ? -1 : (int)((i - self->clients) / self->tasks);
        each->leaving = self->leaving;
        each->share = self->calls / self->sender_count + (i < self->calls % self->sender_count);
        teff__chance_init(&each->chance, self->seed * 1000003 + i + 1);
        each->refs = make(self->grains, sizeof(target_ref));
        each->numbers = make(self->grains, sizeof(uint32_t));
        each->unawaited = make(self->grains, sizeof(bool));
        for (uint32_t k = 0; k < self->grains; k++)
            each->refs[k] = target_at(k);
    }
}

static void start(stress *self)
{
    const teff_silo_options options = {
        .struct_size = sizeof(options),
        .workers = (uint32_t)self->workers,
        .worker_start = worker_start,
        .user = self,
        .seed = self->seed,
    };
    int r = teff_silo_create(&options, &self->silo);
    if (r == 0)
        r = teff_silo_register(self->silo, &target_type, &self->ledger);
    if (r == 0)
        r = teff_silo_register(self->silo, &leaf_type, &self->ledger);
    if (r == 0)
        r = teff_silo_start(self->silo);
    if (r != 0)
        fail("no silo: %s", teff_status_name(r));
}

/* Runs all senders to their end. */
static void run(stress *self)
{
    teff_client *client;
    int r = teff_client_create(self->silo, NULL, &client);
    for (uint32_t i = 0; r == 0 && i < self->sender_count; i++) {
        sender *each = &self->senders[i];
        r = each->worker < 0
                ? teff__thread_start(&each->thread, client_main, each, "client")
                : teff_silo_spawn(self->silo, each->worker, task_main, each, client, &each->future);
    }
    if (r != 0)
        fail("a sender does not start: %s", teff_status_name(r));
    show_progress(self);
    for (uint32_t i = 0; i < self->sender_count; i++) {
        sender *each = &self->senders[i];
        int result = -1;
        if (each->worker < 0)
            teff__thread_join(&each->thread);
        else if ((r = teff_task_claim(client, each->future, &result)) != 0 || result != 0)
            fail("the task of sender %u: %s, result %d", i, teff_status_name(r), result);
    }
    if (teff_client_destroy(client) != NULL)
        fail("the client was not destroyed by its own thread");
}

static void finish(stress *self)
{
    for (uint32_t i = 0; i < self->sender_count; i++) {
        free(self->senders[i].refs);
        free(self->senders[i].numbers);
        free(self->senders[i].unawaited);
    }
    for (uint32_t i = 0; i < self->ledger.target_count; i++)
        free(self->ledger.targets[i].seen);
    free(self->ledger.targets);
    free(self->ledger.leaves);
    free(self->senders);
}

int main(int count, char **given)
{
    static stress self = { .calls = 200000,
                           .workers = 4,
                           .tasks = 25,
                           .clients = 2,
                           .grains = 1000,
                           .leaves = 64,
                           .leaving = 10,
                           .seed = 1,
                           .seconds_max = 300 };
    const argument known[] = {
        { "calls", &self.calls, 1, UINT64_C(1) << 40 },
        { "workers", &self.workers, 1, WORKERS_MAX },
        { "tasks", &self.tasks, 1, 1000 },
        { "clients", &self.clients, 0, 60 },
        { "grains", &self.grains, 1, 1000000 },
        { "leaves", &self.leaves, 1, 1000000 },
        { "leaving", &self.leaving, 0, 100 },
        { "seed", &self.seed, 1, UINT32_MAX },
        { "seconds_max", &self.seconds_max, 1, 86400 },
    };
    const teff__clock clock = { 0 };
    arguments_read("stress_calls", known, sizeof(known) / sizeof(known[0]), count, given);
    self.sender_count = (uint32_t)(self.clients + self.workers * self.tasks);
    build_ledger(&self);
    start(&self);
    build_senders(&self);
    watched = &self;
    watchdog_start(self.seconds_max, on_watchdog);
    const int64_t began_ns = teff__clock_now_ns(&clock);
    run(&self);
    const int64_t duration_ns = teff__clock_now_ns(&clock) - began_ns;
    check_turns(&self);
    check_left(&self);
    check_stop(&self);
    show(&self, duration_ns);
    printf("stress_calls: passed: seed %llu, %u senders, %llu workers\n", self.seed,
           self.sender_count, self.workers);
    finish(&self);
    return 0;
}
