/* Shared by the fuzz targets. A target is one file, fuzz_<name>.c, with libFuzzer's
 * entry points; linked with libFuzzer (clang, `make fuzz`) it searches, linked with
 * replay.c (any compiler, `make fuzz-replay`) it runs over its corpus.
 *
 * Everything here is checked by MUST(): it says what did not hold and aborts, which is
 * what libFuzzer and replay.sh take for a finding. */
#ifndef TAMIS_FUZZ_H
#define TAMIS_FUZZ_H

#include <sys/mman.h>

#include "tests/steps/steps.h"
#include "tests/unit/format/spec_fields.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t max, unsigned seed);
/* libFuzzer's own mutations; replay.c brings a plain stand-in. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t n, size_t max);

#define MUST(condition)                                                                \
    do {                                                                               \
        if (!(condition))                                                              \
            fuzz_broken(__FILE__, __LINE__, #condition);                               \
    } while (0)
_Noreturn void fuzz_broken(const char *file, int line, const char *condition);

/* ==== support.c ==== */

/* From now on syncs do nothing, no file grows beyond FUZZ_MAX_FILE, and names, UUIDs
 * and times are the same in every run after fuzz_restart(). */
#define FUZZ_MAX_FILE (UINT64_C(8) << 20)
void fuzz_calm_io(void);
void fuzz_restart(void);
/* A directory of this process in memory, removed at exit. */
const char *fuzz_dir(void);
/* A file in memory that holds these bytes; the same descriptor each time, and its path,
 * for calls that open files themselves. */
int memory_file(const void *bytes, size_t n);
const char *memory_path(void);

/* ==== stores.c: stores as bytes ==== */

/* Keeps the files of a store that nobody has open, but for locks. */
void save_store(struct saved_tree *s, const char *store);
/* The first file with this in its name, or NULL. */
const struct saved_file *saved_named(const struct saved_tree *s, const char *part);

/* A name of the catalog and its value. */
struct item {
    const uint8_t *name, *value;
    size_t name_bytes, value_bytes;
};
/* Into a database of it. */
void write_records(const char *store, const char *database, const struct item *items,
                   size_t n);
bool items_have(const struct item *items, size_t n, const void *name,
                size_t name_bytes);

/* A catalog's entries for its only pack, which has few columns. */
struct pack_list {
    uint8_t uuid[UUID_BYTES];
    struct listing now;
    uint8_t bits[64], record[LISTING_BYTES]; /* the chunk, and the pack record */
    size_t n_bits, n_record;
    bool named[8 * 64], twice, stray; /* by records; of no column */
    uint32_t n_refused;               /* records */
};
/* The record that would name the column of a listed segment, and lists it in *l. */
void record_of_packed(struct tamis_store *store, const char *name, struct record *out,
                      struct pack_list *l);
/* Makes chunk and pack record, once. The last item of each name is its record. */
void list_make(struct pack_list *l, const struct item *items, size_t n);
void list_write(const char *store, const struct pack_list *l);
static inline bool list_has(const struct pack_list *l, uint32_t column)
{
    return l->bits[column / 8] >> column % 8 & 1;
}

/* ==== second readers of SPEC.md ==== */

__extension__ typedef unsigned __int128 wide;
/* n bytes, the lowest first; as a double. */
uint64_t get_number(const uint8_t *p, size_t n);
double get_real(const uint8_t *p);

/* ==== mutate.c: hostile values, and checksums that let them pass ==== */

/* Puts a value that hurts into one field of a record. */
void mutate_field(uint8_t *record, const struct field *f, uint64_t *rng);
void mutate_record(uint8_t *record, const struct field *fields, size_t n,
                   uint64_t *rng);
/* A few of the fields in the header of a filter of n bytes. */
void mutate_header(uint8_t *file, size_t n, uint64_t *rng);
/* Sets the checksums of the identity and of every slot; those of floor sectors; the
 * digests and roots. They change nothing beyond the n bytes. */
void reseal_header(uint8_t *file, size_t n);
void reseal_floors(uint8_t *file, size_t n);
void reseal_digests(uint8_t *file, size_t n);

#endif
