/* SPDX-License-Identifier: MIT */
#include "messaging/completion.h"

#include "teff/status.h"

teff__completion *teff__completion_take(teff__postbox *postbox, teff_thunk *thunk, teff__any *done,
                                        void *user, const teff_method *method)
{
    teff__completion *completion = teff__pool_take(&postbox->pools[0]);
    if (completion == NULL)
        return NULL;
    /* What counts; the rest of the message is of other kinds. */
    teff__message *message = &completion->message;
    message->correlation = 0;
    message->home = &postbox->pools[0];
    message->of = NULL;
    message->deadline_ns = INT64_MAX;
    message->hops = message->flags = message->held = message->size_class = 0;
    message->kind = TEFF__MESSAGE_COMPLETION;
    message->code = 0;
    completion->answer = NULL;
    completion->thunk = thunk;
    completion->done = done;
    completion->user = user;
    completion->method = method;
    completion->life = NULL;
    teff__ring_init(&completion->ring);
    return completion;
}

void teff__completion_run(teff__completion *completion, teff__postbox *postbox, teff_caller *caller)
{
    teff__message *answer = completion->answer;
    teff_outcome outcome = { .code = completion->message.code,
                             .may_have_run = true,
                             .method = completion->method };
    const char *text = NULL;
    if (answer != NULL) {
        outcome.code = answer->code;
        outcome.may_have_run = (answer->flags & TEFF__MESSAGE_MAY_HAVE_RUN) != 0;
        if (answer->code != 0) {
            text = teff__message_text(answer);
            outcome.method = answer->origin != NULL ? answer->origin : completion->method;
        }
    }
    if (caller == NULL) {
        outcome.code = TEFF_EGONE;
        outcome.method = completion->method;
        text = "the grain or task that made the call is gone";
    }
    outcome.text = text != NULL ? text : outcome.code != 0 ? teff_status_text(outcome.code) : "";
    const void *ret = NULL;
    if (outcome.code == 0 && answer != NULL) {
        ret = teff__message_value(answer);
        answer->held = 0; /* given to `done` */
    }
    teff_thunk *thunk = completion->thunk;
    completion->thunk = NULL;
    thunk(completion->done, caller, completion->user, &outcome, ret);
    teff__completion_drop(completion, postbox);
}

void teff__completion_drop(teff__completion *completion, teff__postbox *postbox)
{
    if (completion->answer != NULL)
        teff__postbox_drop(postbox, completion->answer);
    teff__ring_remove(&completion->ring);
    teff__postbox_drop(postbox, &completion->message);
}
