/* Shared by the files of the target `ops`: a store, and what a model has of it.
 *
 *   fuzz_ops.c    edits, writers, snapshots, reopening
 *   ops_packs.c   packs: made, made anew, unpacked, put back, damaged */
#ifndef TAMIS_FUZZ_OPS_H
#define TAMIS_FUZZ_OPS_H

#include "fuzz/fuzz.h"

enum { N_NAMES = 4, N_IDS = 512 };
enum kind { NONE, BARE, GROWING, SEALED };

/* Segments as the model has them. */
struct segment {
    enum kind kind;
    bool put_here; /* in an edit: put by it */
    uint64_t incarnation, watermark;
    uint8_t has[N_IDS];
};

extern struct world {
    struct tamis_store *store;
    struct tamis_domain domain;
    struct segment now[N_NAMES], edited[N_NAMES], held[N_NAMES];
    struct tamis_edit *edit;
    struct tamis_writer *writer[N_NAMES];
    struct tamis_snapshot *snapshot; /* held, of `held` */
    uint64_t incarnations;
    char path[300];
    bool hurt; /* a file was damaged: answers may be MAYBE for any reason */
    struct segment then[N_NAMES]; /* as of a copy of the store's files */
} w;

extern const char *const names[N_NAMES];
size_t bytes_of(size_t i);
struct tamis_key key_of_id(size_t id);

/* ==== fuzz_ops.c ==== */

/* any: reasons do not matter, for files may be gone or damaged. */
void check_keys(struct tamis_snapshot *s, size_t i, const struct segment *m, bool any);
void check_now(void);
void check_held(void);
void begin(void); /* an edit, if there is none */
void close_all(void);

/* ==== ops_packs.c ==== */

void step_pack(uint8_t what, uint8_t arg);
void step_files(uint8_t what, uint8_t arg);
void packs_end(void);

#endif
