/* SPDX-License-Identifier: MIT */
/* The measurements in silos on threads. */
#include "benchmarks/calls_forms.h"

#include "benchmarks/calls_grain.h"
#include "benchmarks/machine.h"

#include <inttypes.h>

enum { KEYS_PER_WORKER = 1000 };

/* How long a measurement may take beside its duration. */
#define PATIENCE_NS INT64_C(60000000000)

static int pin_worker(void *user, uint32_t worker, void **ret_context)
{
    (void)user;
    (void)ret_context;
    machine_pin(worker);
    return 0;
}

/* The grains of a worker are activated there: by a task of its. */
static int activate_main(teff_task *task, void *user)
{
    const uint64_t first_key = *(const uint64_t *)user;
    int r = 0;
    for (uint64_t key = first_key; r == 0 && key < first_key + CALLS_GRAINS; key++) {
        calls_echo_ref echo = calls_echo_at(key);
        r = calls_echo_add(task, &echo, NULL, NULL);
    }
    return r;
}

static int activate(calls_host *host)
{
    for (unsigned worker = 0; worker < host->workers; worker++) {
        uint64_t first_key = (uint64_t)worker * KEYS_PER_WORKER;
        teff_future task;
        int result = 0;
        int r = teff_silo_spawn(host->silo, (int)worker, activate_main, &first_key, host->client,
                                &task);
        if (r == 0)
            r = teff_task_claim(host->client, task, &result);
        if (r != 0 || result != 0)
            return calls_complain("grains cannot be activated", r != 0 ? r : result);
    }
    return 0;
}

int calls_host_init(calls_host *host, unsigned workers)
{
    const teff_silo_options options = { .struct_size = sizeof(options),
                                        .workers = workers,
                                        .worker_start = pin_worker };
    *host = (calls_host){ .workers = workers };
    int r = teff_silo_create(&options, &host->silo);
    if (r == 0)
        r = teff_silo_register(host->silo, &calls_echo_grain, NULL);
    if (r == 0)
        r = teff_silo_register(host->silo, &calls_driver_grain, NULL);
    if (r == 0)
        r = teff_silo_start(host->silo);
    if (r == 0)
        r = teff_client_create(host->silo, NULL, &host->client);
    if (r != 0)
        calls_complain("the silo does not start", r);
    if (r == 0)
        r = activate(host);
    if (r != 0)
        calls_host_finish(host);
    return r;
}

void calls_host_finish(calls_host *host)
{
    host->client = teff_client_destroy(host->client);
    host->silo = teff_silo_destroy(host->silo);
}

/* A driver's first call decides where it lives, so it is made by a task of worker 0. */
typedef struct drive_job {
    struct calls_order order;
    struct calls_report report;
} drive_job;

static int drive_main(teff_task *task, void *user)
{
    drive_job *job = user;
    calls_driver_ref driver = calls_driver_at(1);
    return calls_driver_drive(teff_within(task, job->order.duration_ns + PATIENCE_NS), &driver,
                              &job->order, &job->report);
}

int calls_run(calls_host *host, calls_form form, int64_t duration_ns, double *ret_ns)
{
    drive_job job = { .order = { .form = (int32_t)form,
                                 .first_key = form == CALLS_SEND_CROSS ? KEYS_PER_WORKER : 0,
                                 .duration_ns = duration_ns,
                                 .silo = host->silo } };
    teff_future task;
    int result = 0;
    int r = teff_silo_spawn(host->silo, 0, drive_main, &job, host->client, &task);
    if (r == 0)
        r = teff_task_claim(host->client, task, &result);
    if (r != 0 || result != 0)
        return calls_complain(result > 0 ? "an answer was lost, or a buffer copied"
                                         : "the driver failed",
                              r != 0 ? r : result);
    *ret_ns = job.report.ns;
    return 0;
}

/* --- Memory -------------------------------------------------------------------------------- */

/* Waits until so many turns hang: each sends when it has its stack. */
static int hang(teff_client *client, unsigned turns, double *ret_bytes)
{
    int r = 0;
    for (unsigned i = 0; r == 0 && i < turns; i++) { /* their activations are not the turns' */
        calls_hanger_ref hanger = calls_hanger_at(i);
        r = calls_hanger_meet(client, &hanger, NULL, NULL);
    }
    const int64_t before = machine_rss_bytes();
    for (unsigned i = 0; r == 0 && i < turns; i++) {
        calls_hanger_ref hanger = calls_hanger_at(i);
        r = calls_hanger_hang_send(client, &hanger, NULL);
    }
    /* What is asked on the same worker is answered behind all of them. */
    calls_echo_ref echo = calls_echo_at(1);
    if (r == 0)
        r = calls_echo_add(client, &echo, NULL, NULL);
    *ret_bytes = (double)(machine_rss_bytes() - before) / turns;
    return r;
}

int calls_suspended(unsigned turns, double *ret_bytes)
{
    const teff_silo_options options = {
        .struct_size = sizeof(options), .workers = 1, .mailbox_max = turns + 1, .stop_timeout_ns = 1
    };
    teff_silo *silo = NULL;
    teff_client *client = NULL;
    int r = teff_silo_create(&options, &silo);
    if (r == 0)
        r = teff_silo_register(silo, &calls_hanger_grain, NULL);
    if (r == 0)
        r = teff_silo_register(silo, &calls_echo_grain, NULL);
    if (r == 0)
        r = teff_silo_start(silo);
    if (r == 0)
        r = teff_client_create(silo, NULL, &client);
    if (r == 0)
        r = hang(client, turns, ret_bytes);
    if (r != 0)
        calls_complain("turns cannot be suspended", r);
    teff_client_destroy(client);
    teff_silo_destroy(silo);
    return r != 0 ? -1 : 0;
}
