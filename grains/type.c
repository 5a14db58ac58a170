/* SPDX-License-Identifier: MIT */
/*
 * The type registry: an array of types in order of registration, and beside it a hash table of
 * their names, open addressed and at most half full. Names are a program's own, so their hash needs
 * no seed.
 *
 * Everything that a user can get wrong in a table made by hand is refused here, once, so that no
 * call has to look: the values' sizes, the options, and a function behind each row.
 */
#include "grains/type.h"

#include "messaging/message.h"
#include "runtime/options.h"

#include "teff/status.h"

enum {
    CAPACITY_FIRST = 16,   /* types that the first allocation holds */
    NAMES_PER_CAPACITY = 2 /* slots of the hash table for each type: half of them stay free */
};

/* The oldest layout ended here: what follows are hooks and settings that may be absent. */
static const size_t def_size_min =
    offsetof(teff_grain_type, implements) + sizeof(((teff_grain_type *)0)->implements);

static const uint64_t options_known = TEFF_READ_ONLY | TEFF_INTERLEAVE | TEFF_ONE_WAY |
                                      TEFF_ARG_BYTES(15) | TEFF_RET_BYTES(15) |
                                      TEFF_TIMEOUT_MS(UINT32_MAX);

/* FNV-1a (Fowler, Noll, Vo), 32 bits. */
static uint32_t text_hash(const char *text)
{
    uint32_t hash = UINT32_C(2166136261);
    for (; *text != '\0'; text++)
        hash = (hash ^ (unsigned char)*text) * UINT32_C(16777619);
    return hash;
}

/* Where the name stands, or the free slot where it would. */
static uint32_t names_slot(const teff__types *types, const char *name)
{
    uint32_t mask = types->names_size - 1, slot = text_hash(name) & mask;
    while (types->names[slot] != 0 &&
           strcmp(types->by_id[types->names[slot] - 1]->def.name.text, name) != 0)
        slot = (slot + 1) & mask;
    return slot;
}

void teff__types_init(teff__types *types, teff__memory *memory)
{
    *types = (teff__types){ .memory = memory };
}

void teff__types_finish(teff__types *types)
{
    for (uint32_t i = 0; i < types->count; i++)
        teff__memory_free(types->memory, types->by_id[i], sizeof(teff__type));
    teff__memory_free(types->memory, types->by_id, types->capacity * sizeof(*types->by_id));
    teff__memory_free(types->memory, types->names, types->names_size * sizeof(*types->names));
    *types = (teff__types){ .memory = types->memory };
}

/* Makes room for one more type. All or nothing. */
static int types_grow(teff__types *types)
{
    if (types->count < types->capacity)
        return TEFF_OK;
    uint32_t capacity = types->capacity != 0 ? 2 * types->capacity : CAPACITY_FIRST;
    teff__types grown = { .memory = types->memory,
                          .count = types->count,
                          .capacity = capacity,
                          .names_size = NAMES_PER_CAPACITY * capacity };
    grown.by_id = teff__memory_alloc(types->memory, capacity * sizeof(*grown.by_id));
    if (grown.by_id == NULL)
        return TEFF_ENOMEM;
    grown.names = teff__memory_alloc(types->memory, grown.names_size * sizeof(*grown.names));
    if (grown.names == NULL) {
        teff__memory_free(types->memory, grown.by_id, capacity * sizeof(*grown.by_id));
        return TEFF_ENOMEM;
    }
    for (uint32_t i = 0; i < types->count; i++) {
        grown.by_id[i] = types->by_id[i];
        grown.names[names_slot(&grown, types->by_id[i]->def.name.text)] = (uint16_t)(i + 1);
    }
    teff__memory_free(types->memory, types->by_id, types->capacity * sizeof(*types->by_id));
    teff__memory_free(types->memory, types->names, types->names_size * sizeof(*types->names));
    *types = grown;
    return TEFF_OK;
}

static const char *name_wrong(const char *text)
{
    if (text == NULL || text[0] == '\0')
        return "the grain type has no name";
    if (strnlen(text, TEFF__TYPE_NAME_MAX + 1) > TEFF__TYPE_NAME_MAX)
        return "the grain type's name has more than 255 bytes";
    return NULL;
}

static const char *method_wrong(const teff_method *method, teff_handler *handler)
{
    if (method->name == NULL || method->name[0] == '\0')
        return "a method has no name";
    if (handler == NULL)
        return "a method has no handler";
    if (method->arg_size > TEFF_VALUE_MAX)
        return "a method's argument has more than 1024 bytes";
    if (method->ret_size > TEFF_VALUE_MAX)
        return "a method's result has more than 1024 bytes";
    if ((method->options & ~options_known) != 0)
        return "a method has an unknown option";
    if (teff__method_argument_bytes(method) * sizeof(void *) > method->arg_size)
        return "TEFF_ARG_BYTES of a method is more than its argument holds";
    if (teff__method_result_bytes(method) * sizeof(void *) > method->ret_size)
        return "TEFF_RET_BYTES of a method is more than its result holds";
    if ((method->options & TEFF_ONE_WAY) != 0 && teff__method_result_bytes(method) != 0)
        return "a one-way method has buffers in its result, which nobody would take";
    return NULL;
}

const char *teff__handlers_wrong(const teff_handlers *handlers)
{
    const teff_interface *of = handlers->of;
    if (of == NULL || of->name.text == NULL || of->name.text[0] == '\0')
        return "an interface has no name";
    if (strnlen(of->name.text, TEFF__TYPE_NAME_MAX + 1) > TEFF__TYPE_NAME_MAX)
        return "an interface's name has more than 255 bytes";
    if (of->methods == NULL || of->count == 0)
        return "an interface has no methods";
    if (of->count > TEFF__INTERFACE_METHODS_MAX)
        return "an interface has more than 65535 methods";
    if (handlers->table == NULL)
        return "an interface has no table of handlers";
    for (uint32_t i = 0; i < of->count; i++) {
        const char *wrong = method_wrong(&of->methods[i], handlers->table[i]);
        if (wrong != NULL)
            return wrong;
    }
    return NULL;
}

/* Checks the list of interfaces and counts it. */
static const char *implements_wrong(const teff_handlers *const *implements, uint32_t *ret_count)
{
    uint32_t count = 0;
    if (implements == NULL || implements[0] == NULL)
        return "the grain type implements no interface";
    for (; implements[count] != NULL; count++) {
        if (count == TEFF__TYPE_INTERFACES_MAX)
            return "the list of interfaces has more than 64, or lacks its NULL";
        const char *wrong = teff__handlers_wrong(implements[count]);
        if (wrong != NULL)
            return wrong;
        for (uint32_t i = 0; i < count; i++) {
            if (strcmp(implements[i]->of->name.text, implements[count]->of->name.text) == 0)
                return "the grain type implements an interface twice";
        }
    }
    *ret_count = count;
    return NULL;
}

/* Checks how long its grains live and where. */
static const char *life_wrong(const teff_grain_type *def)
{
    if (def->idle_ns < 0)
        return "the grain type's idle_ns is negative";
    if (def->idle_quantum_ns < 0)
        return "the grain type's idle_quantum_ns is negative";
    if ((uint32_t)def->placement > TEFF_PLACE_LEAST_LOADED)
        return "the grain type's placement is unknown";
    if (def->stateless_max > TEFF__TYPE_STATELESS_MAX)
        return "the grain type's stateless_max is more than 65535";
    return NULL;
}

/* Reads the user's struct into `type`, all but its number. */
static const char *type_read(teff__type *type, const teff_grain_type *def)
{
    if (def == NULL)
        return "there is no grain type";
    if (teff__sized_copy(&type->def, sizeof(type->def), def_size_min, def) != 0)
        return "the grain type's struct_size is wrong, or it asks for what this version lacks";
    const char *wrong = name_wrong(type->def.name.text);
    if (wrong != NULL)
        return wrong;
    if (type->def.state_size > TEFF__TYPE_STATE_MAX)
        return "the grain type's state has more than 1 MiB";
    if (type->def.name.text[0] == '(')
        return "the grain type's name begins with (, as only the runtime's own do";
    wrong = life_wrong(&type->def);
    if (wrong != NULL)
        return wrong;
    wrong = implements_wrong(type->def.implements, &type->implements_count);
    if (wrong != NULL)
        return wrong;
    type->first_of = type->def.implements[0]->of;
    type->first_table = type->def.implements[0]->table;
    if (type->def.idle_ns > TEFF__IDLE_MAX_NS)
        type->def.idle_ns = INT64_MAX;
    return NULL;
}

static int refused(int status, const char *reason, const char **ret_reason)
{
    if (ret_reason != NULL)
        *ret_reason = reason;
    return status;
}

int teff__types_register(teff__types *types, const teff_grain_type *def, void *context,
                         const char **ret_reason)
{
    if (types->frozen)
        return refused(TEFF_EINVALIDSTATE, "the silo has been started", ret_reason);
    teff__type made = { .context = context };
    const char *wrong = type_read(&made, def);
    if (wrong != NULL)
        return refused(TEFF_EINVAL, wrong, ret_reason);
    if (teff__types_find_text(types, made.def.name.text) != NULL)
        return refused(TEFF_EINVALIDSTATE, "a grain type of that name is registered", ret_reason);
    if (types->count == TEFF__TYPES_MAX)
        return refused(TEFF_ELIMIT, "65535 grain types are registered", ret_reason);

    teff__type *type = teff__memory_alloc(types->memory, sizeof(*type));
    if (type == NULL || types_grow(types) != 0) {
        teff__memory_free(types->memory, type, sizeof(*type));
        return refused(TEFF_ENOMEM, "out of memory", ret_reason);
    }
    made.id = types->count + 1;
    *type = made;
    types->names[names_slot(types, type->def.name.text)] = (uint16_t)made.id;
    types->by_id[types->count++] = type;
    return TEFF_OK;
}

void teff__types_freeze(teff__types *types)
{
    types->frozen = true;
}

const teff__type *teff__types_find_text(const teff__types *types, const char *name)
{
    if (types->count == 0 || name == NULL)
        return NULL;
    return teff__types_by_id(types, types->names[names_slot(types, name)]);
}

bool teff__interface_same(const teff_interface *a, const teff_interface *b)
{
    static const uint64_t bytes = TEFF_ARG_BYTES(15) | TEFF_RET_BYTES(15);
    if (a == b)
        return true;
    if (b == NULL || b->name.text == NULL || b->methods == NULL)
        return false; /* made by hand */
    if (a->count != b->count || strcmp(a->name.text, b->name.text) != 0)
        return false;
    for (uint32_t i = 0; i < a->count; i++) {
        if (a->methods[i].arg_size != b->methods[i].arg_size ||
            a->methods[i].ret_size != b->methods[i].ret_size ||
            ((a->methods[i].options ^ b->methods[i].options) & bytes) != 0)
            return false;
    }
    return true;
}

teff_handler *const *teff__type_table_slow(const teff__type *type, const teff_interface *of)
{
    const teff_handlers *const *implements = type->def.implements;
    for (uint32_t i = 0; i < type->implements_count; i++) {
        if (implements[i]->of == of)
            return implements[i]->table;
    }
    for (uint32_t i = 0; i < type->implements_count; i++) {
        if (teff__interface_same(implements[i]->of, of))
            return implements[i]->table;
    }
    return NULL;
}
