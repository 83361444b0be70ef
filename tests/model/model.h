/* The promises to callers of the library, and a checker that holds an open filter or a
 * snapshot against them: for power cuts, kills, faults and fuzzing alike.
 *
 *     harness: its own record of calls ---> struct promised_... ---> expect_...()
 *                                                                         |
 *     model_broken(), the harness's, prints it and ends <------- broken --+
 *
 * Rot has no part in it: there each ABSENT is judged by the exceptions that SPEC.md
 * section 7.3 names (tests/rot/judge.c), and most promises are off.
 *
 * A new kind of filter needs its checks in expect_filter(), a new way to ask in
 * expect_keys_of_segment(); no harness changes. */
#ifndef TAMIS_TESTS_MODEL_H
#define TAMIS_TESTS_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/tamis.h"

/* The standing of an object that an edit or a call makes, removes or replaces. */
enum standing { NOT_THERE, COMING, THERE, GOING, CHANGING };

/* A log of keys, of which the first n are in; key() is false for one that is not. */
struct promised_keys {
    bool (*key)(const void *ctx, uint64_t i, struct tamis_key *out);
    const void *ctx;
    uint64_t n;
};

struct promised_filter {
    struct promised_keys keys, more; /* more: of a second thread */
    /* For a filter that grows: its watermark is at least what a commit has
     * acknowledged, at most what one was asked for, and the keys below it are in. */
    bool grows;
    uint64_t watermark, asked;
    uint32_t stages; /* at least */
    enum standing seal;
    bool rotten_slot;     /* one slot was damaged as well: R2 bounds what that costs */
    bool any_damage;      /* pages may be bad, and keys MAYBE for that */
    uint64_t lost_page;   /* the page at this byte is bad, and no other; 0: none is */
    uint64_t n_strangers; /* keys that nobody added: ask so many; 0: as usual */
};

struct promised_segment {
    char name[256];
    const void *binding; /* if not NULL, it tells the segment, and the name may recur */
    size_t binding_bytes;
    enum standing standing;
    uint32_t edit; /* whose outcome decides, unless THERE or NOT_THERE */
    uint32_t
        rank; /* of the old one; the one that replaces it (CHANGING) has one more */
    bool bare, next_bare;
    struct promised_filter filter, next; /* next: of the one that replaces it */
};

enum { MODEL_EDITS = 1024 };
enum outcome { EDIT_UNKNOWN, EDIT_UNDONE, EDIT_DONE };

/* The harness's: says what is broken, and ends the process. */
_Noreturn void model_broken(const char *text);

/* Counts of this process: 0 lost of 0 would mean nothing. */
extern struct model_counts {
    uint64_t n_asked, n_strangers, n_absent; /* absent: of the strangers */
} model_counts;

/* `who` names the filter in messages. */
void expect_keys(const char *who, struct tamis_filter *f,
                 const struct promised_keys *keys, bool any_damage);
void expect_filter(const char *who, struct tamis_filter *f,
                   const struct promised_filter *p);
/* As engines ask: the segment alone, and all of them. Every answer is MAYBE for this
 * reason; TAMIS_NO_REASON: for any. */
void expect_keys_of_segment(const char *who, struct tamis_snapshot *snapshot,
                            size_t index, const struct promised_keys *keys,
                            enum tamis_reason expected);
/* The watermark that a writer reports: none acknowledged is lost, none is invented. */
void expect_watermark(const char *who, uint64_t watermark,
                      const struct promised_filter *p);
/* Each segment is listed or not, as it stands; of an edit under way all took effect or
 * nothing (outcome, by its number, if not NULL); what is listed keeps its promises.
 * Returns how many files the listed ones have. */
size_t expect_segments(struct tamis_snapshot *snapshot,
                       const struct promised_segment *segments, size_t n,
                       enum outcome outcome[MODEL_EDITS]);
bool model_find(struct tamis_snapshot *snapshot, const struct promised_segment *g,
                size_t *index);
/* Files that listed segments have: their own, packs, tombstones, lists. */
size_t count_listed_files(struct tamis_snapshot *snapshot);
/* Files in a store's filters/. */
size_t count_filter_files(const char *store);

#endif
