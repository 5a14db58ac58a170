/* SPDX-License-Identifier: MIT */
#include "grains/notice.h"

#include <stdio.h>

enum { TYPE_SHOWN = 40, NOTICE_TEXT_MAX = 512 };

static void print(const teff_notice *notice, char *text, size_t size)
{
    static const char *const about[] = {
        [TEFF_NOTICE_MAILBOX] = "messages wait for it",
        [TEFF_NOTICE_ACTIVATE] = "given up: activate is not over within activate_timeout_ns",
        [TEFF_NOTICE_DEACTIVATE] = "given up: deactivate is not over within deactivate_timeout_ns",
        [TEFF_NOTICE_STUCK] = "given up: a turn has been suspended for longer than stuck_ns",
        [TEFF_NOTICE_GRAINS] = "grains are in memory: no more may be (activations_max)",
        [TEFF_NOTICE_MEMORY] = "grains are to go, if they may: memory is short (shed_at_percent)",
    };
    char key[TEFF__KEY_PRINT_MAX] = "", count[24] = "";
    if (notice->grain.type != NULL)
        (void)teff__key_print(&notice->grain.key, key, sizeof(key));
    if (notice->count != 0)
        (void)snprintf(count, sizeof(count), "%llu ", (unsigned long long)notice->count);
    (void)snprintf(text, size, "worker %d: %.*s%s%s%s%s%s", notice->worker, TYPE_SHOWN,
                   notice->grain.type != NULL ? notice->grain.type->text : "",
                   notice->grain.type != NULL ? "/" : "", key,
                   notice->grain.type != NULL ? ": " : "", count, about[notice->kind]);
}

/* The program's code is on the worker: so it is refused what would wait for the silo. */
static void tell(teff__catalog *catalog, teff_notice_kind kind, const teff_ref *grain,
                 uint64_t count)
{
    const teff__grains *grains = catalog->grains;
    char text[NOTICE_TEXT_MAX];
    const teff_notice notice = {
        .struct_size = sizeof(notice),
        .kind = kind,
        .worker = (int)catalog->worker.index,
        .grain = *grain,
        .count = count,
        .text = text,
    };
    print(&notice, text, sizeof(text));
    catalog->worker.running = true;
    grains->notice(grains->user, &notice);
    catalog->worker.running = false;
}

static bool keep(teff__notices *notices, teff_notice_kind kind, const teff_ref *grain,
                 uint64_t count)
{
    const uint32_t max =
        kind == TEFF_NOTICE_MAILBOX ? TEFF__NOTICES_MAILBOX_MAX : TEFF__NOTICES_MAX;
    if (notices->count >= max)
        return false;
    notices->waiting[notices->count].kind = kind;
    notices->waiting[notices->count].grain = *grain;
    notices->waiting[notices->count].count = count;
    notices->count++;
    return true;
}

bool teff__notice(teff__catalog *catalog, teff_notice_kind kind, const teff__activation *activation,
                  uint64_t count)
{
    teff_ref grain = { 0 };
    if (catalog->grains->notice == NULL)
        return true;
    if (activation != NULL)
        grain = (teff_ref){ .type = &activation->type->def.name,
                            .route = activation->record.address,
                            .key = activation->record.key };
    if (catalog->worker.running)
        return keep(&catalog->notices, kind, &grain, count);
    tell(catalog, kind, &grain, count);
    return true;
}

void teff__notices_tell(teff__catalog *catalog)
{
    teff__notices *notices = &catalog->notices;
    for (uint32_t i = 0; i < notices->count; i++) /* nothing is added: none of them is a turn */
        tell(catalog, notices->waiting[i].kind, &notices->waiting[i].grain,
             notices->waiting[i].count);
    notices->count = 0;
}
