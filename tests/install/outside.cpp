/* SPDX-License-Identifier: MIT */
/* A caller in C++: one call of each form, to a grain that is written in C. */
#include "greeter.h"

#include <cstdio>

namespace
{

struct answer {
    int code;
    struct greeted greeted;
};

struct greeting named(const char *name)
{
    struct greeting greeting;
    (void)std::snprintf(greeting.name, sizeof(greeting.name), "%s", name);
    return greeting;
}

void on_greeted(teff_caller *, void *user, const teff_outcome *outcome, const struct greeted *ret)
{
    struct answer *answer = static_cast<struct answer *>(user);
    answer->code = outcome->code;
    if (ret != nullptr)
        answer->greeted = *ret;
}

int call_it(teff_client *client)
{
    greeter_ref greeter = greeter_at(1);
    const struct greeting one = named("call"), two = named("claim"), three = named("then");
    struct greeted greeted;
    struct answer answer = {};
    teff_call_options options = {};
    options.struct_size = sizeof(options);
    options.timeout_ns = INT64_C(10000000000);

    int r = greeter_note_send(client, &greeter, &one);
    if (r == 0)
        r = greeter_greet(teff_with(client, &options), &greeter, &one, &greeted);
    if (r != 0)
        return r;
    std::printf("%s, %u\n", greeted.text, greeted.notes);

    teff_future note = greeter_note_start(client, &greeter, &two);
    teff_future greet = greeter_greet_start(client, &greeter, &two);
    r = greeter_note_claim(client, note, nullptr);
    if (r == 0)
        r = greeter_greet_claim(client, greet, &greeted);
    if (r != 0)
        return r;
    std::printf("%s, %u\n", greeted.text, greeted.notes);

    r = greeter_greet_then(client, &greeter, &three, on_greeted, &answer);
    if (r == 0)
        r = teff_client_run(client, INT64_MAX);
    if (r == 0)
        r = answer.code;
    if (r == 0)
        std::printf("%s, %u\n", answer.greeted.text, answer.greeted.notes);
    return r;
}

} // namespace

int main()
{
    teff_silo *silo = nullptr;
    teff_client *client = nullptr;

    int r = teff_silo_create(nullptr, &silo);
    if (r == 0)
        r = teff_silo_register(silo, &greeter_grain, nullptr);
    if (r == 0)
        r = teff_silo_start(silo);
    if (r == 0)
        r = teff_client_create(silo, nullptr, &client);
    if (r == 0)
        r = call_it(client);
    if (r != 0)
        std::fprintf(stderr, "%s: %s\n", teff_status_name(r), teff_status_text(r));

    teff_client_destroy(client);
    teff_silo_destroy(silo);
    return r != 0;
}
