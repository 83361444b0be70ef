/* A kind of filter, as readers see it: here another kind joins. header.c has the table,
 * the files of kinds a row each. A filter holds the row of its kind
 * from open to close.
 *
 *     identity.kind --kind_find()--> struct filter_kind
 *                                     |  memory, map, planes <---- view_create()
 *                                     |  probe, probe_many,
 *                                     |  prefetch <--------------- probes
 *                                     |  explain, error_now,
 *                                     |  over_target <------------ explain, info
 *                                     |  algebra <---------------- lib/derive
 *
 * A new kind supplies:
 * - its number, and what its descriptors must be: kind_known() in format/identity.h,
 *   area_check() in format/stage.c, SPEC.md sections 5, 6 and 8;
 * - a file in this room, or a room, with a row that sets each field of the struct;
 * - a line in the table of header.c;
 * - what makes it: the number is written where filters are made, for kind 1 in
 *   builder/finish.c, writer/create.c and derive/derive.c.
 *
 * These are common to all kinds, and no function of a row: the header and its slots,
 * where a stage and its digests lie (struct stage), the check of a page before its
 * first bit is used, scrub and verify, residency, the watermark, and every reason that
 * speaks against the whole filter. A row's probes are asked only if none does.
 *
 * A new kind keeps these rules:
 * - ABSENT is a proof. A probe returns TAMIS_NO_REASON only by pages that were checked,
 *   and never by a page that failed its check.
 * - A page that failed counts as all ones only where ones are neutral: in stages of
 *   planes and in rows (SPEC.md §17.1). In a ribbon, a map or a list ones are a
 * mismatch, and a mismatch may end in ABSENT. There such a page is TAMIS_DAMAGED at
 * once, for every key that maps to it. The guard's page of ones must not be believed
 * either: after a mismatch lost_page() says whether the page was lost meanwhile.
 * - A probe waits for no thread, calls no malloc(), and may run in a signal handler.
 * - Answers leave probe_many only when a word of them is whole: a caller that jumps out
 *   of a probe is left with MAYBE.
 * - Warning: tamis_filter_probe() asks no probe of a row where the view is `plain`, or
 *   quick (page/quick.h): then planes of bits decide, or the row's find_answer. */
#ifndef TAMIS_FILTER_KIND_H
#define TAMIS_FILTER_KIND_H

#include "format/commit.h"
#include "lib/tamis.h"

struct kernel;
struct plane;
struct stage;
struct view;

/* The algebra that lib/derive has for filters of a kind. */
enum algebra {
    CAN_UNITE = 1,
    CAN_INTERSECT = 2,
    CAN_FOLD = 4,    /* and shrink */
    CAN_COMPARE = 8, /* contains, equal, what two filters share */
    CAN_ESTIMATE = 16,
};

/* One key: TAMIS_NO_REASON (absent), TAMIS_HIT or TAMIS_DAMAGED. */
typedef enum tamis_reason kind_probe_fn(struct view *v, const struct kernel *k,
                                        uint64_t h);
/* n keys: bit i of `absent`, which is zeroed, is set if key i is absent. Returns how
 * many are. */
typedef size_t kind_probe_many_fn(struct view *v, const struct kernel *k,
                                  const uint64_t *hashes, size_t n, uint64_t *absent);
/* Prefetches the lines that a probe reads first. */
typedef void kind_prefetch_fn(const struct view *v, uint64_t h);
/* The same as of the kernel for planes: one key, and 1 to 64 keys. `plane` is that at
 * the start of a view. */
typedef enum tamis_answer kind_answer_fn(const struct plane *plane,
                                         const struct tamis_key *key,
                                         enum tamis_reason *why);
typedef size_t kind_answer_few_fn(const struct plane *plane, const uint64_t *hashes,
                                  size_t n, uint64_t *absent);

struct filter_kind {
    uint16_t number;  /* in the identity */
    const char *name; /* in messages: "a NAME filter" */
    unsigned algebra; /* of enum algebra; lib/derive refuses all else */

    /* Stages are planes of bits, in which ones are neutral. A sealed filter of one
     * stage may then be asked by view.head.plane alone: by tamis_filter_probe(), and by
     * snapshots over many filters. Without planes a snapshot asks each filter with
     * care. */
    bool planes;
    bool keeps_file; /* its descriptor, for stage_read() */

    /* Bytes that map needs in a view. */
    size_t (*memory)(const struct commit *c);
    /* Sets up what the kind has in a view whose stages are mapped. */
    void (*map)(struct view *v, const struct commit *c, void *memory);

    kind_probe_fn *probe;
    kind_probe_many_fn *probe_many;
    kind_prefetch_fn *prefetch;

    /* A sealed filter is asked by these once all pages of its first stage are good.
     * NULL: planes are asked by the kernel, others by the functions above. Which
     * function it is for one key may depend on the kernel. */
    kind_answer_fn *(*find_answer)(const struct kernel *k);
    kind_answer_few_fn *answer_few;

    /* Where this stage decides the answer. `begin` is the stage's offset in the file.
     * NULL: no stage does by itself. */
    void (*explain)(struct stage *s, const struct kernel *k, uint64_t begin, uint64_t h,
                    struct tamis_stage_answer *out);
    /* A stage's share of the filter's error. NULL: as its descriptor says. */
    double (*error_now)(const struct identity *id, const struct stage_desc *s);
    /* Blames every page that is good and breaks a rule of the kind: what tables say,
     * and pages that none of its probes reads whole. ENOMEM. NULL: there are no such
     * rules. */
    int (*judge)(struct tamis_filter *f, const struct commit *c,
                 struct tamis_verify *report);
    /* Does the last stage of a growing filter hold more than it was planned for? NULL:
     * none grows. */
    bool (*over_target)(const struct stage_desc *last);
};

extern const struct filter_kind kind_bloom, kind_list, kind_pack, kind_ribbon;

/* NULL if unknown. identity_decode() refuses such a kind. */
const struct filter_kind *kind_find(uint16_t number);

#endif
