/* SPDX-License-Identifier: MIT */
/*
 * The type registry: what it refuses and why, how types and handlers are found, layouts of other
 * versions, and a lack of memory at each allocation.
 */
#include "grains/type.h"

#include "teff/silo.h"
#include "teff/status.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

struct point {
    int64_t x, y;
};

#define DOOR_METHODS(METHOD, SELF)                                                                 \
    METHOD(SELF, open, struct point, teff_none, 0)                                                 \
    METHOD(SELF, shut, teff_none, struct point, TEFF_ONE_WAY | TEFF_TIMEOUT_MS(500))
TEFF_INTERFACE(door, DOOR_METHODS);
TEFF_INTERFACE_DEFINE(door, DOOR_METHODS);
TEFF_HANDLERS(door, struct point, door, DOOR_METHODS);

#define LOCK_METHODS(METHOD, SELF) METHOD(SELF, turn_key, teff_none, teff_none, TEFF_READ_ONLY)
TEFF_INTERFACE(lock, LOCK_METHODS);
TEFF_INTERFACE_DEFINE(lock, LOCK_METHODS);
TEFF_HANDLERS(lock, struct point, lock, LOCK_METHODS);

static int door_on_open(teff_turn *turn, struct point *self, const struct point *arg,
                        teff_none *ret)
{
    (void)turn, (void)ret;
    *self = *arg;
    return 0;
}
static int door_on_shut(teff_turn *turn, struct point *self, const teff_none *arg,
                        struct point *ret)
{
    (void)turn, (void)arg;
    *ret = *self;
    return 0;
}
static int lock_on_turn_key(teff_turn *turn, struct point *self, const teff_none *arg,
                            teff_none *ret)
{
    (void)turn, (void)self, (void)arg, (void)ret;
    return 7;
}

static const teff_handlers *const both[] = { &door_handlers, &lock_handlers, NULL };
static const teff_grain_type gate = { .struct_size = sizeof(teff_grain_type),
                                      .name = { "gate" },
                                      .state_size = sizeof(struct point),
                                      .implements = both };

static teff__memory memory;
static teff__types types;

static void set_up(void)
{
    teff__memory_init(&memory, 0);
    teff__types_init(&types, &memory);
}

static void tear_down(void)
{
    teff__types_finish(&types);
    /* Criterion takes no notice of its own assertions here. */
    teff_assert(teff__atomic_u64_load_relaxed(&memory.bytes) == 0);
}

TestSuite(type, .init = set_up, .fini = tear_down);

/* --- Registering and finding --- */

Test(type, a_registered_type_is_found_by_its_text_and_its_number)
{
    int context;
    char same_text[] = "gate";
    const char *reason = "untouched";
    cr_assert_null(teff__types_find_text(&types, "gate"));
    cr_assert_eq(teff__types_register(&types, &gate, &context, &reason), TEFF_OK);
    cr_assert_str_eq(reason, "untouched");
    const teff__type *type = teff__types_find_text(&types, same_text);
    cr_assert_not_null(type);
    cr_assert_eq(type->id, 1);
    cr_assert_eq(type->context, &context);
    cr_assert_eq(type->def.state_size, 16);
    cr_assert_eq(type->implements_count, 2);
    cr_assert_eq(teff__types_by_id(&types, 1), type);
    cr_assert_null(teff__types_by_id(&types, 0));
    cr_assert_null(teff__types_by_id(&types, 2));
    cr_assert_null(teff__types_find_text(&types, "gat"));
    cr_assert_null(teff__types_find_text(&types, "gates"));
    cr_assert_null(teff__types_find_text(&types, ""));
    cr_assert_null(teff__types_find_text(&types, NULL));
}

Test(type, the_users_struct_is_copied)
{
    teff_grain_type def = gate;
    cr_assert_eq(teff__types_register(&types, &def, NULL, NULL), TEFF_OK);
    memset(&def, 0xff, sizeof(def));
    const teff__type *type = teff__types_by_id(&types, 1);
    cr_assert_str_eq(type->def.name.text, "gate");
    cr_assert_eq(type->def.implements, both);
}

Test(type, a_references_name_fits_by_pointer_or_by_text)
{
    char text[] = "gate", other[] = "gates";
    const teff_name same = { text }, different = { other }, none = { NULL };
    cr_assert_eq(teff__types_register(&types, &gate, NULL, NULL), TEFF_OK);
    const teff__type *type = teff__types_by_id(&types, 1);
    cr_assert(teff__type_is(type, &gate.name));
    cr_assert(teff__type_is(type, &same));
    cr_assert_not(teff__type_is(type, &different));
    cr_assert_not(teff__type_is(type, &none));
}

Test(type, as_many_types_as_numbers_are_found_and_one_more_is_refused, .timeout = 60)
{
    enum { NAME = 8, MAX = 65535 };
    char *names = malloc((MAX + 1) * NAME);
    teff_grain_type def = gate;
    const char *reason = NULL;
    for (unsigned i = 0; i <= MAX; i++) {
        def.name.text = names + (size_t)i * NAME;
        (void)snprintf(names + (size_t)i * NAME, NAME, "t%u", i);
        int r = teff__types_register(&types, &def, NULL, &reason);
        cr_assert_eq(r, i < MAX ? TEFF_OK : TEFF_ELIMIT);
    }
    cr_assert_str_eq(reason, "65535 grain types are registered");
    for (unsigned i = 0; i < MAX; i++) {
        char name[NAME];
        (void)snprintf(name, sizeof(name), "t%u", i);
        const teff__type *type = teff__types_find_text(&types, name);
        cr_assert_not_null(type);
        cr_assert_eq(type->id, i + 1);
        cr_assert_eq(teff__types_by_id(&types, i + 1), type);
    }
    cr_assert_null(teff__types_find_text(&types, "t65535"));
    free(names);
}

/* --- Handlers --- */

Test(type, each_interface_has_its_own_table_and_a_foreign_one_has_none)
{
    static const teff_method rows[] = { { "open", 16, 1, 0 } };
    static const teff_interface window = { { "window" }, rows, 1 };
    cr_assert_eq(teff__types_register(&types, &gate, NULL, NULL), TEFF_OK);
    const teff__type *type = teff__types_by_id(&types, 1);
    cr_assert_eq(teff__type_table(type, &door_interface), door_table);
    cr_assert_eq(teff__type_table(type, &lock_interface), lock_table);
    cr_assert_null(teff__type_table(type, &window));
    cr_assert_null(teff__type_table(type, NULL));

    struct point state = { 0, 0 }, to = { 3, 4 }, ret = { 0, 0 };
    cr_assert_eq(door_table[door_number_open](NULL, &state, &to, NULL), 0);
    cr_assert_eq(door_table[door_number_shut](NULL, &state, NULL, &ret), 0);
    cr_assert(ret.x == 3 && ret.y == 4);
    cr_assert_eq(lock_table[lock_number_turn_key](NULL, &state, NULL, NULL), 7);
}

Test(type, an_interface_of_another_library_counts_if_its_name_and_rows_agree)
{
    char door_text[] = "door", lock_text[] = "lock", hatch_text[] = "hatch";
    const teff_method rows[] = { { "open", 16, 1, 0 }, { "shut", 1, 16, 0 }, { "x", 1, 1, 0 } };
    const teff_method wider[] = { { "open", 24, 1, 0 }, { "shut", 1, 16, 0 } };
    const teff_method longer[] = { { "open", 16, 1, 0 }, { "shut", 1, 24, 0 } };
    const teff_interface same = { { door_text }, rows, 2 }, more = { { door_text }, rows, 3 };
    const teff_interface fewer = { { door_text }, rows, 1 }, named = { { hatch_text }, rows, 2 };
    const teff_interface argument = { { door_text }, wider, 2 };
    const teff_interface result = { { door_text }, longer, 2 };
    const teff_interface second = { { lock_text }, &rows[2], 1 };
    cr_assert_eq(teff__types_register(&types, &gate, NULL, NULL), TEFF_OK);
    const teff__type *type = teff__types_by_id(&types, 1);
    cr_assert_eq(teff__type_table(type, &same), door_table);
    cr_assert_eq(teff__type_table(type, &second), lock_table);
    cr_assert_null(teff__type_table(type, &more));
    cr_assert_null(teff__type_table(type, &fewer));
    cr_assert_null(teff__type_table(type, &named));
    cr_assert_null(teff__type_table(type, &argument));
    cr_assert_null(teff__type_table(type, &result));
}

Test(type, what_the_macros_make_is_what_one_would_write_by_hand)
{
    cr_assert_str_eq(door_interface.name.text, "door");
    cr_assert_eq(door_interface.count, 2);
    cr_assert_str_eq(door_interface.methods[0].name, "open");
    cr_assert_eq(door_interface.methods[0].arg_size, 16);
    cr_assert_eq(door_interface.methods[0].ret_size, 1);
    cr_assert_eq(door_interface.methods[0].options, 0);
    cr_assert_str_eq(door_interface.methods[1].name, "shut");
    cr_assert_eq(door_interface.methods[1].arg_size, 1);
    cr_assert_eq(door_interface.methods[1].ret_size, 16);
    cr_assert_eq(door_interface.methods[1].options, UINT64_C(0x000001f400000004));
    cr_assert_eq(door_handlers.of, &door_interface);
    cr_assert_eq(door_handlers.table, door_table);
}

/* --- What is refused --- */

static void expect_refused(const teff_grain_type *def, int status, const char *expected)
{
    const char *reason = NULL;
    uint32_t count = types.count;
    cr_assert_eq(teff__types_register(&types, def, NULL, &reason), status, "for: %s", expected);
    cr_assert_str_eq(reason, expected);
    cr_assert_eq(types.count, count);
    cr_assert_eq(teff__types_register(&types, def, NULL, NULL), status);
}

/* Registers a type whose one interface has one row: this method, behind it this handler. */
static void expect_row_refused(teff_method method, teff_handler *handler, const char *expected)
{
    const teff_interface of = { { "i" }, &method, 1 };
    teff_handler *const table[] = { handler };
    const teff_handlers handlers = { &of, table };
    const teff_handlers *const implements[] = { &handlers, NULL };
    teff_grain_type def = gate;
    def.implements = implements;
    expect_refused(&def, TEFF_EINVAL, expected);
}

static void expect_handlers_refused(teff_interface of, teff_handler *const *table,
                                    const char *expected)
{
    const teff_handlers handlers = { &of, table };
    const teff_handlers *const implements[] = { &door_handlers, &handlers, NULL };
    teff_grain_type def = gate;
    def.implements = implements;
    expect_refused(&def, TEFF_EINVAL, expected);
}

Test(type, a_type_without_a_proper_name_state_or_list_is_refused)
{
    char name[257];
    const teff_handlers *const none[] = { NULL };
    const teff_handlers *const twice[] = { &door_handlers, &lock_handlers, &door_handlers, NULL };
    const teff_handlers *endless[66];
    teff_grain_type def = gate;
    expect_refused(NULL, TEFF_EINVAL, "there is no grain type");
    def.name.text = NULL;
    expect_refused(&def, TEFF_EINVAL, "the grain type has no name");
    def.name.text = "";
    expect_refused(&def, TEFF_EINVAL, "the grain type has no name");
    memset(name, 'n', sizeof(name));
    name[256] = '\0';
    def.name.text = name;
    expect_refused(&def, TEFF_EINVAL, "the grain type's name has more than 255 bytes");
    def = gate;
    def.state_size = 1048577;
    expect_refused(&def, TEFF_EINVAL, "the grain type's state has more than 1 MiB");
    def = gate;
    def.implements = NULL;
    expect_refused(&def, TEFF_EINVAL, "the grain type implements no interface");
    def.implements = none;
    expect_refused(&def, TEFF_EINVAL, "the grain type implements no interface");
    def.implements = twice;
    expect_refused(&def, TEFF_EINVAL, "the grain type implements an interface twice");

    char names[66][4];
    teff_interface interfaces[66];
    teff_handlers handlers[66];
    for (unsigned i = 0; i < 66; i++) {
        (void)snprintf(names[i], sizeof(names[i]), "i%u", i);
        interfaces[i] = door_interface;
        interfaces[i].name.text = names[i];
        handlers[i] = (teff_handlers){ &interfaces[i], door_table };
        endless[i] = &handlers[i];
    }
    def.implements = endless;
    expect_refused(&def, TEFF_EINVAL, "the list of interfaces has more than 64, or lacks its NULL");
    endless[64] = NULL;
    name[255] = '\0'; /* what is just allowed */
    def.name.text = name;
    def.state_size = 1048576;
    cr_assert_eq(teff__types_register(&types, &def, NULL, NULL), TEFF_OK);
}

Test(type, an_interface_that_is_not_whole_is_refused)
{
    teff_interface of = { { "i" }, door_methods, 2 };
    char name[257];
    memset(name, 'n', 256);
    name[256] = '\0';
    const teff_handlers unnamed = { NULL, door_table };
    const teff_handlers *const implements[] = { &unnamed, NULL };
    teff_grain_type def = gate;
    def.implements = implements;
    expect_refused(&def, TEFF_EINVAL, "an interface has no name");
    of.name.text = NULL;
    expect_handlers_refused(of, door_table, "an interface has no name");
    of.name.text = "";
    expect_handlers_refused(of, door_table, "an interface has no name");
    of.name.text = name;
    expect_handlers_refused(of, door_table, "an interface's name has more than 255 bytes");
    of.name.text = "door";
    expect_handlers_refused(of, door_table, "the grain type implements an interface twice");
    of.name.text = "i";
    expect_handlers_refused(of, NULL, "an interface has no table of handlers");
    of.count = 0;
    expect_handlers_refused(of, door_table, "an interface has no methods");
    of.count = 65536;
    expect_handlers_refused(of, door_table, "an interface has more than 65535 methods");
    of.count = 2;
    of.methods = NULL;
    expect_handlers_refused(of, door_table, "an interface has no methods");
}

Test(type, a_row_that_no_call_could_serve_is_refused)
{
    teff_handler *handler = door_table[0];
    const uint64_t known = TEFF_READ_ONLY | TEFF_INTERLEAVE | TEFF_ONE_WAY | TEFF_TIMEOUT_MS(1);
    expect_row_refused((teff_method){ NULL, 1, 1, 0 }, handler, "a method has no name");
    expect_row_refused((teff_method){ "", 1, 1, 0 }, handler, "a method has no name");
    expect_row_refused((teff_method){ "m", 1, 1, 0 }, NULL, "a method has no handler");
    expect_row_refused((teff_method){ "m", 1025, 1, 0 }, handler,
                       "a method's argument has more than 1024 bytes");
    expect_row_refused((teff_method){ "m", 1, 1025, 0 }, handler,
                       "a method's result has more than 1024 bytes");
    expect_row_refused((teff_method){ "m", 15, 1, TEFF_ARG_BYTES(2) }, handler,
                       "TEFF_ARG_BYTES of a method is more than its argument holds");
    expect_row_refused((teff_method){ "m", 1, 119, TEFF_RET_BYTES(15) }, handler,
                       "TEFF_RET_BYTES of a method is more than its result holds");
    expect_row_refused((teff_method){ "m", 1, 8, TEFF_RET_BYTES(1) | TEFF_ONE_WAY }, handler,
                       "a one-way method has buffers in its result, which nobody would take");
    for (unsigned bit = 3; bit < 32; bit = bit == 7 ? 16 : bit + 1) /* 8 to 15 are the above */
        expect_row_refused((teff_method){ "m", 1, 1, known | UINT64_C(1) << bit }, handler,
                           "a method has an unknown option");

    const teff_method largest = { "m", 1024, 1024, known };
    const teff_interface of = { { "i" }, &largest, 1 };
    teff_handler *const table[] = { handler };
    const teff_handlers handlers = { &of, table };
    const teff_handlers *const implements[] = { &handlers, NULL };
    teff_grain_type def = gate;
    def.implements = implements;
    cr_assert_eq(teff__types_register(&types, &def, NULL, NULL), TEFF_OK);
}

Test(type, a_name_that_is_taken_and_any_after_the_freeze_are_refused)
{
    char text[] = "gate";
    teff_grain_type def = gate;
    cr_assert_eq(teff__types_register(&types, &gate, NULL, NULL), TEFF_OK);
    def.name.text = text;
    expect_refused(&def, TEFF_EINVALIDSTATE, "a grain type of that name is registered");
    teff__types_freeze(&types);
    def.name.text = "another";
    expect_refused(&def, TEFF_EINVALIDSTATE, "the silo has been started");
    cr_assert_not_null(teff__types_find_text(&types, "gate"));
}

Test(type, how_long_it_lives_and_where_is_to_make_sense)
{
    teff_grain_type def = gate;
    def.idle_ns = -1;
    expect_refused(&def, TEFF_EINVAL, "the grain type's idle_ns is negative");
    def.idle_ns = INT64_MIN;
    expect_refused(&def, TEFF_EINVAL, "the grain type's idle_ns is negative");
    def = gate;
    def.idle_quantum_ns = -1;
    expect_refused(&def, TEFF_EINVAL, "the grain type's idle_quantum_ns is negative");
    def = gate;
    def.placement = (teff_placement)4;
    expect_refused(&def, TEFF_EINVAL, "the grain type's placement is unknown");
    def.placement = (teff_placement)-1;
    expect_refused(&def, TEFF_EINVAL, "the grain type's placement is unknown");
    def = gate;
    def.stateless_max = 65536;
    expect_refused(&def, TEFF_EINVAL, "the grain type's stateless_max is more than 65535");

    def.stateless_max = 65535; /* what is just allowed */
    def.placement = TEFF_PLACE_LEAST_LOADED;
    def.idle_ns = 1;
    def.idle_quantum_ns = INT64_MAX;
    cr_assert_eq(teff__types_register(&types, &def, NULL, NULL), TEFF_OK);
}

Test(type, idle_for_more_than_30_days_is_never)
{
    static const int64_t days_30_ns = INT64_C(2592000000000000);
    const struct {
        const char *name;
        int64_t asked_ns, kept_ns;
    } rows[] = { { "silo's", 0, 0 },
                 { "short", 1, 1 },
                 { "30 days", days_30_ns, days_30_ns },
                 { "longer", days_30_ns + 1, INT64_MAX },
                 { "never", INT64_MAX, INT64_MAX } };
    for (unsigned i = 0; i < 5; i++) {
        teff_grain_type def = gate;
        def.name.text = rows[i].name;
        def.idle_ns = rows[i].asked_ns;
        cr_assert_eq(teff__types_register(&types, &def, NULL, NULL), TEFF_OK);
        cr_expect_eq(teff__types_find_text(&types, rows[i].name)->def.idle_ns, rows[i].kept_ns);
    }
}

/* --- Layouts of other versions --- */

/* The smallest, from before there were hooks. */
struct grain_type_old {
    size_t struct_size;
    teff_name name;
    size_t state_size;
    const teff_handlers *const *implements;
};
/* One of a version to come. */
struct grain_type_new {
    teff_grain_type now;
    uint64_t later[2];
};

static const char size_wrong[] =
    "the grain type's struct_size is wrong, or it asks for what this version lacks";

Test(type, a_type_of_the_oldest_layout_is_taken_and_the_rest_is_zero)
{
    /* Exactly its size, so that the address sanitizer sees a read past it. */
    struct grain_type_old *old = malloc(sizeof(*old));
    *old = (struct grain_type_old){ sizeof(*old), { "gate" }, 16, both };
    cr_assert_eq(sizeof(*old), 32);
    cr_assert_eq(teff__types_register(&types, (const teff_grain_type *)(void *)old, NULL, NULL),
                 TEFF_OK);
    free(old);
    const teff__type *type = teff__types_find_text(&types, "gate");
    cr_assert_eq(type->def.state_size, 16);
    cr_assert_null(type->def.activate);
    cr_assert_null(type->def.deactivate);
    cr_assert_eq(type->def.idle_ns, 0);
    cr_assert_eq(teff__type_table(type, &lock_interface), lock_table);
}

Test(type, a_type_from_before_there_was_placement_is_taken_and_the_rest_is_zero)
{
    /* Ends behind idle_ns; what stands behind that is the program's own, and not looked at. */
    const size_t size = offsetof(teff_grain_type, idle_quantum_ns);
    teff_grain_type old;
    memset(&old, 0xff, sizeof(old));
    memcpy(&old, &gate, size);
    old.struct_size = size;
    old.idle_ns = 5;
    cr_assert_eq(size, 56);
    cr_assert_eq(teff__types_register(&types, &old, NULL, NULL), TEFF_OK);
    const teff__type *type = teff__types_find_text(&types, "gate");
    cr_assert_eq(type->def.idle_ns, 5);
    cr_assert_eq(type->def.idle_quantum_ns, 0);
    cr_assert_eq(type->def.placement, TEFF_PLACE_DEFAULT);
    cr_assert_eq(type->def.stateless_max, 0);
}

Test(type, a_type_of_a_newer_layout_is_taken_if_it_asks_for_nothing_new)
{
    struct grain_type_new new = { .now = gate };
    new.now.struct_size = sizeof(new);
    new.later[1] = 1;
    expect_refused(&new.now, TEFF_EINVAL, size_wrong);
    new.later[1] = 0;
    cr_assert_eq(teff__types_register(&types, &new.now, NULL, NULL), TEFF_OK);
}

Test(type, a_struct_size_that_no_version_has_is_refused)
{
    static const size_t sizes[] = { 0, 1, 24, 31, 33, sizeof(teff_grain_type) + 4, 4104, SIZE_MAX };
    teff_grain_type def = gate;
    for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        def.struct_size = sizes[i];
        expect_refused(&def, TEFF_EINVAL, size_wrong);
    }
}

Test(type, a_struct_over_4096_bytes_is_garbage_even_if_it_is_zero)
{
    struct {
        size_t struct_size, zeroes[512];
    } from = { 4096, { 0 } };
    size_t ret[600] = { 1, 1, 1 }; /* two are the struct's; the rest must stay */
    cr_assert_eq(teff__sized_copy(ret, 16, 8, &from), TEFF_OK);
    cr_assert(ret[0] == 4096 && ret[1] == 0 && ret[2] == 1);
    from.struct_size = 4104;
    cr_assert_eq(teff__sized_copy(ret, 16, 8, &from), TEFF_EINVAL);
    cr_assert_eq(ret[0], 4096);
}

Test(type, options_of_an_old_layout_are_completed_with_zeroes)
{
    /* teff_silo_options as it was before the members that follow `seed`. */
    struct {
        size_t struct_size;
        uint32_t workers;
        void *loop;
        size_t stack_bytes;
        void (*worker_start)(void);
        void (*worker_stop)(void);
        void *user;
        bool simulated;
        uint64_t seed;
    } old = { sizeof(old), 3, NULL, 131072, NULL, NULL, &memory, true, 42 };
    const size_t size_min = offsetof(teff_silo_options, workers);
    teff_silo_options options;
    memset(&options, 0xff, sizeof(options));
    cr_assert_eq(sizeof(old), offsetof(teff_silo_options, response_timeout_ns));
    cr_assert_eq(teff__sized_copy(&options, sizeof(options), size_min, &old), TEFF_OK);
    cr_assert_eq(options.workers, 3);
    cr_assert_eq(options.stack_bytes, 131072);
    cr_assert_eq(options.user, &memory);
    cr_assert_eq(options.simulated, true);
    cr_assert_eq(options.seed, 42);
    cr_assert_eq(options.response_timeout_ns, 0);
    cr_assert_eq(options.stop_timeout_ns, 0);
    cr_assert_eq(options.suspended_max, 0);
    cr_assert_eq(options.memory_bytes_max, 0);
    cr_assert_eq(options.mailbox_max, 0);

    memset(&options, 0xff, sizeof(options)); /* refused: untouched */
    old.struct_size = 7;
    cr_assert_eq(teff__sized_copy(&options, sizeof(options), size_min, &old), TEFF_EINVAL);
    cr_assert_eq(options.workers, UINT32_MAX);
}

/* --- Out of memory --- */

Test(type, each_allocation_may_fail_and_nothing_changes)
{
    char names[40][4];
    teff_grain_type def = gate;
    const char *reason = NULL;
    for (unsigned i = 0; i < 40; i++) { /* past two growths */
        (void)snprintf(names[i], sizeof(names[i]), "t%u", i);
        def.name.text = names[i];
        int r;
        unsigned failures = 0;
        for (uint64_t n = 1;; n++, failures++) {
            teff__memory_fail_at(&memory, n);
            uint64_t bytes = teff__atomic_u64_load_relaxed(&memory.bytes);
            r = teff__types_register(&types, &def, NULL, &reason);
            teff__memory_fail_at(&memory, 0);
            if (r == TEFF_OK)
                break;
            cr_assert_eq(r, TEFF_ENOMEM);
            cr_assert_str_eq(reason, "out of memory");
            cr_assert_eq(teff__atomic_u64_load_relaxed(&memory.bytes), bytes);
            cr_assert_null(teff__types_find_text(&types, names[i]));
            cr_assert_eq(types.count, i);
        }
        cr_assert_eq(failures, i == 0 || i == 16 || i == 32 ? 3 : 1);
    }
    for (unsigned i = 0; i < 40; i++)
        cr_assert_eq(teff__types_find_text(&types, names[i])->id, i + 1);
}

Test(type, a_registry_is_finished_twice_without_harm)
{
    cr_assert_eq(teff__types_register(&types, &gate, NULL, NULL), TEFF_OK);
    teff__types_finish(&types);
    cr_assert_null(teff__types_find_text(&types, "gate"));
    cr_assert_null(teff__types_by_id(&types, 1));
}
