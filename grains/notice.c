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
        [TEFF_NOTICE_MEMORY] = "grains are deactivated: memory is short (shed_at_percent)",
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

void teff__notice(teff__catalog *catalog, teff_notice_kind kind, const teff__activation *activation,
                  uint64_t count)
{
    const teff__grains *grains = catalog->grains;
    char text[NOTICE_TEXT_MAX];
    if (grains->notice == NULL)
        return;
    teff_notice notice = {
        .struct_size = sizeof(notice),
        .kind = kind,
        .worker = (int)catalog->worker.index,
        .count = count,
        .text = text,
    };
    if (activation != NULL)
        notice.grain = (teff_ref){ .type = &activation->type->def.name,
                                   .route = activation->record.address,
                                   .key = activation->record.key };
    print(&notice, text, sizeof(text));
    /* The program's code is on the worker: so it is refused what would wait for the silo. */
    const bool running = catalog->worker.running;
    catalog->worker.running = true;
    grains->notice(grains->user, &notice);
    catalog->worker.running = running;
}
