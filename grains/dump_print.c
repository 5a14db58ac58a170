/* SPDX-License-Identifier: MIT */
/*
 * A dump in words. A line is cut at its buffer's end; names are short as a rule.
 */
#include "grains/dump.h"

#include "grains/observer.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

enum { TEXT_BYTES = 1024 };

typedef struct text {
    char bytes[TEXT_BYTES];
    size_t length;
} text;

static __attribute__((format(printf, 2, 3))) void add(text *to, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int length =
        vsnprintf(to->bytes + to->length, TEXT_BYTES - to->length, format, arguments);
    va_end(arguments);
    to->length += length > 0 ? (size_t)length : 0;
    if (to->length >= TEXT_BYTES)
        to->length = TEXT_BYTES - 1;
}

static void say(const teff__dump *dump, const text *what)
{
    dump->line(dump->user, what->bytes);
}

static const char *plural(uint64_t count)
{
    return count == 1 ? "" : "s";
}

static void add_seconds(text *to, int64_t ns)
{
    const int64_t ms = ns > 0 ? ns / 1000000 : 0;
    add(to, "%" PRId64 ".%03" PRId64 " s", ms / 1000, ms % 1000);
}

/* --- Names ----------------------------------------------------------------------------------- */

static void add_grain(text *to, const teff__type *type, const teff_key *key)
{
    char printed[TEFF__KEY_PRINT_MAX];
    (void)teff__key_print(key, printed, sizeof(printed));
    add(to, "%s/%s", type->def.name.text, printed);
}

static void add_work(text *to, const teff__dump_work *work)
{
    if (work->of != NULL)
        add(to, " %s.%s", work->of->name.text, work->method->name);
    else if (work->method != NULL)
        add(to, " %s", work->method->name);
    else if (work->hook != NULL)
        add(to, " (%s)", work->hook);
}

/* The client that has that stripe. */
static void add_client(text *to, const teff__dump *dump, uint64_t stripe)
{
    const uint32_t number = dump->clients[stripe - TEFF__STRIPES_WORKERS].number;
    if (number != 0)
        add(to, "client %u", number);
    else
        add(to, "a client that has gone");
}

static void add_caller(text *to, const teff__dump *dump, const teff__dump_entry *entry)
{
    if (entry->owner < 0)
        add_client(to, dump, (uint64_t)-entry->owner);
    else if (entry->caller.type == NULL)
        add(to, "a task");
    else
        add_grain(to, entry->caller.type, &entry->caller.key);
    add_work(to, &entry->caller.work);
}

/* --- A call ------------------------------------------------------------------------------------ */

static void add_callee(text *to, const teff__dump *dump, const teff__dump_entry *entry,
                       const teff__grain_record *record)
{
    if (entry->place != TEFF__DUMP_UNKNOWN)
        add_grain(to, entry->callee.type, &entry->callee.key);
    else if (teff__target_is_observer(entry->target))
        add(to, "an observer of "), add_client(to, dump, entry->target);
    else if (record != NULL)
        add_grain(to, teff__types_by_id(&dump->grains->types, record->type), &record->key);
    else if (entry->target != 0)
        add(to, "a grain that is not active");
    else
        add(to, "a task");
    add_work(to, &entry->callee.work);
}

static void add_place(text *to, const teff__dump *dump, const teff__dump_entry *entry,
                      const teff__grain_record *record)
{
    static const char *const waits[] = { [TEFF__WAITING_CALL] = "waits for a call",
                                         [TEFF__WAITING_FUTURES] = "waits for futures",
                                         [TEFF__WAITING_SLEEP] = "sleeps" };
    if (entry->place == TEFF__DUMP_RUNNING) {
        add(to, ": runs on worker %u and %s", entry->worker, waits[entry->what]);
    } else if (entry->place == TEFF__DUMP_QUEUED) {
        add(to, ": queued on worker %u, number %u behind", entry->worker, entry->position);
        add_work(to, &entry->holds_it_up);
        add(to, ", which %s", waits[entry->what]);
    } else if (record != NULL) {
        const uint32_t worker = teff__address_worker(record->address);
        const bool silent = ((dump->silent | dump->silent_then) >> worker & 1) != 0;
        add(to, silent ? ": on worker %u, which does not answer" : ": under way on worker %u",
            worker);
    }
}

static void add_due(text *to, const teff__dump *dump, const teff__dump_entry *entry)
{
    if (entry->deadline_ns == TEFF__DEADLINE_NEVER) {
        add(to, ", no deadline");
        return;
    }
    const int64_t left_ns = entry->deadline_ns - dump->now_ns;
    add(to, left_ns >= 0 ? ", due in " : ", overdue by ");
    add_seconds(to, left_ns >= 0 ? left_ns : -left_ns);
}

static void print_entry(const teff__dump *dump, const teff__dump_entry *entry)
{
    static const char *const does[] = { [TEFF__DUMP_AWAITED] = "awaits",
                                        [TEFF__DUMP_STARTED] = "has started",
                                        [TEFF__DUMP_FUTURES] = "awaits",
                                        [TEFF__DUMP_THEN] = "is to hear of",
                                        [TEFF__DUMP_SLEEP] = "sleeps" };
    text line = { .length = 0 };
    add(&line, "  ");
    add_seconds(&line, dump->now_ns - entry->since_ns);
    add(&line, ": ");
    add_caller(&line, dump, entry);
    add(&line, " %s", does[entry->form]);
    if (entry->form != TEFF__DUMP_SLEEP) {
        teff__grain_record record;
        const bool known = entry->target != 0 && teff__directory_find_hash(&dump->grains->directory,
                                                                           entry->target, &record);
        add(&line, " ");
        add_callee(&line, dump, entry, known ? &record : NULL);
        if (entry->form == TEFF__DUMP_FUTURES)
            add(&line, " (%u to come)", entry->remaining);
        add_due(&line, dump, entry);
        add_place(&line, dump, entry, known ? &record : NULL);
    } else {
        add(&line, " for ");
        add_seconds(&line, entry->deadline_ns - dump->now_ns);
        add(&line, " more");
    }
    if (entry->behind != 0)
        add(&line, "; %u queued behind", entry->behind);
    say(dump, &line);
}

/* --- Whose they are ---------------------------------------------------------------------------- */

/* Prints the owner's entries from *at on, which is moved behind them. */
static void print_entries(const teff__dump *dump, int32_t owner, uint32_t *at)
{
    for (; *at < dump->count && dump->entries[*at].owner == owner; ++*at)
        print_entry(dump, &dump->entries[*at]);
}

static void print_worker(const teff__dump *dump, uint32_t worker, uint32_t *at)
{
    const teff__dump_worker *has = &dump->workers[worker];
    text line = { .length = 0 };
    if (dump->silent >> worker & 1) {
        add(&line, "worker %u does not answer", worker);
    } else if (dump->ended >> worker & 1) {
        add(&line, "worker %u has ended", worker);
    } else {
        add(&line,
            "worker %u: %" PRIu64 " grain%s, %" PRIu64 " open call%s, %" PRIu64 " task%s; "
            "of turns and tasks %" PRIu64 " in a call, %" PRIu64 " in futures, %" PRIu64
            " asleep, %" PRIu64 " queued behind",
            worker, has->grains, plural(has->grains), has->open, plural(has->open), has->tasks,
            plural(has->tasks), has->waits_call, has->waits_futures, has->sleeps, has->behind);
    }
    say(dump, &line);
    print_entries(dump, (int32_t)worker, at);
}

static void print_client(const teff__dump *dump, uint32_t index, uint32_t *at)
{
    const teff__dump_client *client = &dump->clients[index];
    if (client->number == 0 && client->open == 0)
        return;
    text line = { .length = 0 };
    add_client(&line, dump, TEFF__STRIPES_WORKERS + index);
    add(&line, ", %s: %" PRIu64 " open call%s", client->on_loop ? "on a loop" : "which blocks",
        client->open, plural(client->open));
    say(dump, &line);
    print_entries(dump, -(int32_t)(TEFF__STRIPES_WORKERS + index), at);
}

static void print_counts(const teff__dump *dump)
{
    static const char *const names[] = {
        [TEFF_END_RESPONSE] = "answered",
        [TEFF_END_ERROR] = "failed",
        [TEFF_END_REJECTED] = "rejected",
        [TEFF_END_OVERLOADED] = "overloaded",
        [TEFF_END_UNRECOVERABLE] = "refused",
        [TEFF_END_TIMED_OUT] = "timed out",
        [TEFF_END_CANCELED_UNSENT] = "canceled before they were sent",
        [TEFF_END_CANCELED_QUEUED] = "canceled in the queue",
        [TEFF_END_CANCELED_RUNNING] = "canceled under way",
        [TEFF_END_STOPPED] = "stopped",
        [TEFF_END_GONE] = "gone",
        [TEFF_END_STUCK] = "stuck",
        [TEFF_END_DEADLOCK] = "deadlocked",
    };
    _Static_assert(sizeof(names) / sizeof(*names) == TEFF_ENDS, "each end has a name");
    teff_counts counts = { .struct_size = sizeof(counts) };
    (void)teff_silo_counts(dump->grains->exchange->silo, &counts);
    text line = { .length = 0 };
    add(&line, "calls: %" PRIu64 " opened, %" PRIu64 " open", counts.opened, counts.open);
    for (int end = 0; end < TEFF_ENDS; end++)
        if (counts.ended[end] != 0)
            add(&line, ", %" PRIu64 " %s", counts.ended[end], names[end]);
    add(&line, "; answers: %" PRIu64 " late, %" PRIu64 " unknown; %" PRIu64 " future%s unclaimed",
        counts.late, counts.unknown, counts.unclaimed, plural(counts.unclaimed));
    say(dump, &line);
}

void teff__dump_print(teff__dump *dump)
{
    const uint32_t workers = dump->grains->exchange->workers_count;
    const char *state = teff__silo_state_text(dump->grains->exchange->silo);
    uint32_t clients = 0, at = 0;
    for (uint32_t i = 0; i < TEFF__STRIPES - TEFF__STRIPES_WORKERS; i++)
        clients += dump->clients[i].number != 0;
    text line = { .length = 0 };
    add(&line, "silo: %s, %u worker%s, %u client%s", state, workers, plural(workers), clients,
        plural(clients));
    say(dump, &line);
    print_counts(dump);
    for (uint32_t i = 0; i < workers; i++)
        print_worker(dump, i, &at);
    for (uint32_t i = 0; i < TEFF__STRIPES - TEFF__STRIPES_WORKERS; i++)
        print_client(dump, i, &at);
    if (dump->found > dump->count) {
        text rest = { .length = 0 };
        add(&rest, "and %" PRIu64 " more, not so old", dump->found - dump->count);
        say(dump, &rest);
    }
}
