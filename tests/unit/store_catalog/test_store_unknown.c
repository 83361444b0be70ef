/* An unknown bit in each word of features, and an unknown version (SPEC.md 5.2, 10):
 * may a process read or write, and what becomes of the bit? */
#include "tests/support/filters.h"
#include "tests/support/store_support.h"

#define BIT                "\0\0\0\0\0\1"
#define MAJOR              "\2"
#define AT(record, member) offsetof(struct record##_disk, member)

static const struct unknown {
    const char *record;
    size_t at;
    const char *bytes;
    size_t n_bytes;
    bool read, written;
} rows[] = {
#define WORDS(record)                                                                  \
    {#record, AT(record, compat), BIT, 6, true, true},                                 \
        {#record, AT(record, ro_compat), BIT, 6, true, false},                         \
    {                                                                                  \
#record, AT(record, incompat), BIT, 6, false, false                            \
    }
    WORDS(identity),
    WORDS(commit),
    WORDS(meta),
    WORDS(record),
    {"identity", AT(identity, major), MAJOR, 1, false, false},
    {"meta", AT(meta, major), MAJOR, 1, false, false},
};

static void poke_file(const char *file, const struct unknown *row)
{
    size_t n;
    FREED uint8_t *bytes = file_read(file, &n);
    if (row->record[0] == 'i') {
        memcpy(bytes + row->at, row->bytes, row->n_bytes);
        checksum_set(bytes, IDENTITY_BYTES, 0);
    }
    for (uint8_t slot = SLOT_A; row->record[0] == 'c' && slot <= SLOT_B; slot++) {
        uint8_t *record = bytes + commit_slot_offset(slot);
        memcpy(record + row->at, row->bytes, row->n_bytes);
        checksum_set(record, SLOT_BYTES, 0);
    }
    file_write(file, bytes, n);
}

/* The records of the catalog that the row is about, closed. */
static void poke_records(struct tamis_store *s, const struct unknown *row)
{
    uint8_t bytes[RECORD_MAX_BYTES];
    bool is_meta = row->record[0] == 'm';
    struct record r = record_in(s, "g");
    tamis_store_close(s);
    struct meta m = meta_in("s");
    size_t n = META_BYTES;
    if (is_meta)
        meta_encode(&m, bytes);
    else
        n = record_encode(&r, "g", 1, bytes);
    memcpy(bytes + row->at, row->bytes, row->n_bytes);
    checksum_set(bytes, n, is_meta ? 0 : XXH3_64bits("g", 1));
    poke_catalog("s", is_meta ? "meta" : "segments", is_meta ? "store" : "g", bytes, n);
}

static uint64_t compat_now(struct tamis_store *s, const struct unknown *row)
{
    char file[900];
    snprintf(file, sizeof file, "%s", file_of(s, "s", "g"));
    if (row->record[0] == 'c')
        return commit_of(file).compat;
    return row->record[0] == 'r' ? record_in(s, "g").compat : 0;
}

static void check_row(const struct unknown *row)
{
    struct tamis_writer *w;
    struct tamis_store *s = store_of_g();
    w = writer_of(s, "g");
    add_keys(w, 0, 100);
    OK(tamis_writer_commit(w, 1, NULL));
    OK(tamis_writer_close(w, NULL));
    if (strchr("ic", row->record[0])) {
        char file[900];
        snprintf(file, sizeof file, "%s", file_of(s, "s", "g"));
        tamis_store_close(s);
        poke_file(file, row);
    } else {
        poke_records(s, row);
    }
    bool of_store = row->record[0] == 'm';
    int rc = tamis_store_open(path_of("s"), NULL, &s, NULL);
    IS(rc, of_store && !row->read ? TAMIS_ERR_VERSION : 0);
    if (!rc) {
        IS(reason_of(s, "g", 7), row->read ? TAMIS_HIT : TAMIS_UNREADABLE);
        rc = tamis_store_writer(s, "g", 1, NULL, &w, NULL);
        assert_true(row->written
                        ? rc == 0
                        : rc == TAMIS_ERR_VERSION || rc == TAMIS_ERR_READ_ONLY);
        if (!rc) {
            add_keys(w, 100, 2000); /* it grows, so the catalog's record follows */
            OK(tamis_writer_commit(w, 2, NULL));
            OK(tamis_writer_close(w, NULL));
            IS(compat_now(s, row), 0);
        }
        IS(reason_of(s, "g", 7), row->read ? TAMIS_HIT : TAMIS_UNREADABLE);
        tamis_store_close(s);
    }
    remove_tree("s");
}

TEST_IN_DIR(what_nobody_knows)
{
    for (size_t i = 0; i < N_OF(rows); i++)
        check_row(&rows[i]);
}

RUN_TESTS(NULL, NULL)
