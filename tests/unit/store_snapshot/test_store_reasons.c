/* The order of reasons in a store (SPEC.md 13.4): where two lines of its table apply,
 * the first one answers. */
#include "tests/support/store_support.h"

#include "tests/support/spec_text.h"

enum {
    REFUSED,
    BINDING,
    INCOMPLETE,
    BARE,
    DOMAIN,
    BEHIND,
    LOST,
    UNREADABLE,
    OTHER,
    RANGE,
    N_LINES
};

/* Lines 2 to 11 of the table, in its words. */
static const char *const answers[N_LINES] = {
    "MAYBE/UNREADABLE", "MAYBE/MISMATCH", "MAYBE/MISMATCH",  "MAYBE/NO_FILTER",
    "MAYBE/MISMATCH",   "MAYBE/BEHIND",   "MAYBE/FILE_LOST", "MAYBE/UNREADABLE",
    "MAYBE/MISMATCH",   "ABSENT"};

struct records {
    struct record r;
    struct meta m;
    char file[900];
};

static struct records made;

static int make(void **state)
{
    if (test_dir_create(NULL) != 0)
        return -1;
    struct tamis_store *s = store_new("made");
    struct tamis_segment_options o = {
        .size = sizeof o, .binding = "b", .binding_bytes = 1, .watermark = 5};
    EDIT(s, put_keys(edit, "s", 100, 100, &o));
    struct tamis_snapshot *now = snapshot_of(s);
    const struct entry *entry = now->entries[0];
    record_decode(entry->bytes + entry->name_bytes, entry->value_bytes, "s", 1,
                  &made.r);
    snprintf(made.file, sizeof made.file, "%s",
             file_of(s, "made", "s") + strlen(path_of("made")));
    tamis_snapshot_release(now);
    tamis_store_close(s);
    made.m = meta_in("made");
    return 0;
}

/* A copy of the store to which the lines of this set apply. */
static void spoil(unsigned set)
{
    char file[1600];
    uint8_t value[RECORD_MAX_BYTES];
    struct record r = made.r;
    struct meta m = made.m;
    copy_tree("made", "now");
    snprintf(file, sizeof file, "%s%s", path_of("now"), made.file);
    if (set & 1U << UNREADABLE)
        flip(file, 300);
    if (set & 1U << LOST)
        OK(unlink(file));
    if (set & 1U << OTHER)
        r.table_digest ^= 1;
    if (set & 1U << BARE) {
        memset(r.uuid, 0, sizeof r.uuid);
        r.state = RECORD_NO_FILTER;
        r.kind = 0;
        r.has_range = 0;
        r.first_bytes = r.last_bytes = 0;
    }
    size_t n = record_encode(&r, "s", 1, value);
    value[0] ^= (uint8_t)(set >> REFUSED & 1);
    poke_catalog("now", "segments", "s", value, n);
    m.complete = !(set >> INCOMPLETE & 1);
    put_meta("now", &m);
}

static const char *asked(unsigned set)
{
    static char text[60];
    STORE s = store_open("now");
    SNAPSHOT now = snapshot_of(s);
    struct tamis_target t;
    enum tamis_reason why;
    struct tamis_key key = key_in(s, set >> RANGE & 1 ? 5 : 105);
    if (set & 1U << DOMAIN)
        key.tag ^= 1;
    tamis_snapshot_find(now, "s", 1, set & 1U << BINDING ? "c" : NULL,
                        set >> BINDING & 1, set & 1U << BEHIND ? 6 : 5, &t);
    tamis_snapshot_probe(now, &t, &key, &why);
    bool absent = why == TAMIS_NO_REASON;
    snprintf(text, sizeof text, "%s%s", absent ? "" : "MAYBE/", tamis_reason_name(why));
    return text;
}

static const char *wanted(unsigned set)
{
    if (set & 1U << BARE)
        set &= ~(1U << INCOMPLETE); /* the line says so */
    return set ? answers[__builtin_ctz(set)] : "MAYBE/HIT";
}

static void check_set(unsigned set)
{
    spoil(set);
    const char *got = asked(set);
    if (strcmp(got, wanted(set)) != 0)
        fail_msg("lines %#x of SPEC.md 13.4: %s, not %s", set << 2, got, wanted(set));
}

TEST(the_first_line_answers)
{
    check_set(0);
    for (unsigned i = 0; i < N_LINES; i++)
        for (unsigned k = i; k < N_LINES; k++)
            check_set(1U << i | 1U << k);
}

TEST(lines_are_those_of_the_table)
{
    struct row r;
    load_spec(NULL);
    const char *at = table("table", "reasons");
    assert_true(next_row(&at, &r));
    assert_string_equal(r.cell[2], "MAYBE/UNKNOWN_SEGMENT");
    for (unsigned i = 0; i < N_LINES; i++) {
        assert_true(next_row(&at, &r));
        IS(number(r.cell[0]), i + 2);
        assert_string_equal(r.cell[2], answers[i]);
    }
    free_spec(NULL);
}

/* A growing filter's record has a lower bound of its watermark: only the file tells
 * that it is behind. */
TEST(a_growing_filter_is_behind_by_its_file)
{
    struct tamis_target t;
    enum tamis_reason why;
    STORE s = store_new("growing");
    put_growing(s, "g");
    char file[900];
    snprintf(file, sizeof file, "%s", file_of(s, "growing", "g"));
    for (int lost = 0; lost < 2; lost++) {
        struct tamis_snapshot *now = snapshot_of(s);
        struct tamis_key key = key_in(s, 1);
        OK(tamis_snapshot_find(now, "g", 1, NULL, 0, 9, &t));
        tamis_snapshot_probe(now, &t, &key, &why);
        IS(why, lost ? TAMIS_FILE_LOST : TAMIS_BEHIND);
        tamis_snapshot_release(now);
        tamis_store_close(s);
        if (!lost)
            OK(unlink(file));
        s = store_open("growing");
    }
}

RUN_TESTS(make, test_dir_remove)
