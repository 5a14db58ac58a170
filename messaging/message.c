/* SPDX-License-Identifier: MIT */
/*
 * Messages: where they come from and go back to.
 *
 * A foreign message costs its dropper a shared write, so droppers collect a chain for one home and
 * push it whole, once a pass or when another home's turn comes.
 */
#include "messaging/message.h"

#include "messaging/bytes.h"
#include "messaging/cancel.h"

#include "teff/status.h"

void teff__postbox_init(teff__postbox *postbox, teff__memory *memory, uint32_t messages_max)
{
    for (uint32_t i = 0; i < TEFF__MESSAGE_CLASSES; i++)
        teff__pool_init(&postbox->pools[i], memory, teff__message_bytes(i), messages_max);
    postbox->returns_first = postbox->returns_last = NULL;
    postbox->returns_home = NULL;
}

void teff__postbox_finish(teff__postbox *postbox)
{
    for (uint32_t i = 0; i < TEFF__MESSAGE_CLASSES; i++)
        teff__pool_finish(&postbox->pools[i]);
}

int teff__postbox_refusal(const teff_method *method)
{
    return teff__message_class(method->arg_size, method->ret_size) == TEFF__MESSAGE_HEAP
               ? TEFF_EINVAL
               : TEFF_ENOMEM;
}

int teff__postbox_take_under(teff__postbox *postbox, const teff_interface *of, uint32_t number,
                             teff_cancel *cancel, teff__message **ret)
{
    const teff_method *method = &of->methods[number];
    const uint32_t size_class =
        teff__message_class(sizeof(teff__cancel_entry) + method->arg_size, method->ret_size);
    if (size_class == TEFF__MESSAGE_HEAP)
        return TEFF_EINVAL;
    teff__message *message = teff__pool_take(&postbox->pools[size_class]);
    if (message == NULL)
        return TEFF_ENOMEM;
    message->home = &postbox->pools[size_class];
    message->of = of;
    message->method = (uint16_t)number;
    message->value = TEFF__MESSAGE_HEADER + sizeof(teff__cancel_entry);
    message->hops = message->path_count = 0;
    message->kind = TEFF__MESSAGE_REQUEST;
    message->flags = TEFF__MESSAGE_UNDER;
    message->size_class = (uint8_t)size_class;
    message->held = TEFF__HELD_SOURCE;
    teff__cancel_entry *entry = teff__message_entry(message);
    entry->cancel = teff_cancel_ref(cancel);
    teff__ring_init(&entry->ring);
    entry->place = NULL;
    *ret = message;
    return 0;
}

void teff__postbox_flush(teff__postbox *postbox)
{
    if (postbox->returns_home == NULL)
        return;
    teff__pool_put_foreign(postbox->returns_home, postbox->returns_first, postbox->returns_last);
    postbox->returns_home = NULL;
}

void teff__message_hold(teff__message *message, const teff_method *method)
{
    teff_bytes **bytes = teff__message_value(message);
    const uint32_t count = teff__method_argument_bytes(method);
    message->flags |= TEFF__MESSAGE_BUFFERS;
    message->held |= (uint8_t)count;
    for (uint32_t i = 0; i < count; i++)
        (void)teff_bytes_ref(bytes[i]);
}

void teff__message_release(teff__message *message)
{
    teff_bytes **bytes = teff__message_value(message);
    const uint32_t count = message->held & ~(uint32_t)TEFF__HELD_SOURCE;
    for (uint32_t i = 0; i < count; i++)
        (void)teff_bytes_unref(bytes[i]);
    if ((message->held & TEFF__HELD_SOURCE) != 0)
        teff__cancel_leave(message);
    message->held = 0;
}

void teff__message_send_home(teff__message *message)
{
    teff_assert(message->size_class != TEFF__MESSAGE_HEAP);
    if (message->held != 0)
        teff__message_release(message);
    teff__pool_link *link = (teff__pool_link *)message;
    teff__pool_put_foreign(message->home, link, link);
}

void teff__postbox_return_foreign(teff__postbox *postbox, teff__message *message)
{
    teff__pool_link *link = (teff__pool_link *)message;
    teff__pool *home = message->home;
    if (message->size_class == TEFF__MESSAGE_HEAP) {
        teff__memory_free(postbox->pools[0].memory, message, message->heap_bytes);
        return;
    }
    if (postbox->returns_home != home) {
        teff__postbox_flush(postbox);
        postbox->returns_home = home;
        postbox->returns_last = link;
        link->next = NULL;
    } else {
        link->next = postbox->returns_first;
    }
    postbox->returns_first = link;
}

void teff__message_refuse(teff__message *message, int code, const char *text)
{
    if (message->held != 0)
        teff__message_release(message);
    teff__message_answer(message, code, 0);
    message->origin = NULL;
    if (text != NULL)
        teff__message_set_text(message, text);
}

void teff__message_set_text(teff__message *message, const char *text)
{
    const size_t room =
        teff__message_bytes(message->size_class) - TEFF__MESSAGE_HEADER - TEFF__MESSAGE_REFERENCE;
    const size_t length = strnlen(text, room - 1);
    char *body = teff__message_body(message);
    memcpy(body, text, length);
    body[length] = '\0';
    message->flags |= TEFF__MESSAGE_TEXT;
}
