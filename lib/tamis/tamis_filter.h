#ifndef TAMIS_H
#error "include <tamis.h>, which includes this"
#endif

/* ---- filter: open one and ask ---------------------------------------------------- */

struct tamis_filter;

enum tamis_check {
    TAMIS_CHECK_LAZY = 0, /* each page before its first use; default */
    TAMIS_CHECK_FULL,     /* every page while opening */
    TAMIS_CHECK_STRICT,   /* each page before every use */
    TAMIS_CHECK_NONE      /* trust the medium, but for what a scrub found bad */
};

/* What the caller expects; a NULL pointer or zero expects nothing. What differs
 * makes opening fail with ERR_MISMATCH, but for min_watermark: below it the filter
 * opens and answers MAYBE/BEHIND until its writer has caught up. */
struct tamis_filter_options {
    size_t size;
    enum tamis_check check;
    uint64_t min_watermark;
    const struct tamis_domain *domain;
    const uint8_t *uuid;       /* 16 bytes */
    const uint8_t *store_uuid; /* 16 bytes */
    const void *name;
    size_t name_bytes;
    const void *binding;
    size_t binding_bytes;
    uint64_t min_sequence; /* R5: less is an older copy put back */
    uint32_t min_stages;
    uint64_t table_digest; /* of a sealed filter, as info reports it */
};

/* Opens and maps a filter for reading; O(1) in its size (but for CHECK_FULL, which
 * fails with ERR_DAMAGED at the first bad page). Never creates. The filter keeps a
 * descriptor only while it is growing. One that still grows is refused on a network
 * file system (ERR_NETWORK), and on an overlay (a container's layers) if it may not be
 * opened for writing there: nobody would see what its writer adds.
 *
 * REPLACED FILES. While a filter grows, its path must go on naming its file. If a copy
 * takes the name, a writer that comes later adds its keys to the copy, where this
 * filter never sees them. So probes look at the name: when the last look of any thread
 * is half a second old, a probe takes two system calls more. At most a second after the
 * exchange every probe answers MAYBE/MISMATCH, for ever: open the filter again. Links
 * on the path are followed at each look. A name that is gone is no fault, and probes go
 * on. A name that another filter has got is one. While nobody can say (EACCES, EIO),
 * probes answer MAYBE/UNREADABLE, and each of them looks. The same holds for a file
 * that was mounted by itself, once no directory has it any more. So a process that
 * changes its root directory, or loses the right to search the path, opens the filter
 * after that. The first probe that sees a seal looks once more, and then none does. */
int tamis_filter_open(const char *path, const struct tamis_filter_options *opt,
                      struct tamis_filter **out, struct tamis_diag *diag);
/* The same for a filter inside another file, at `offset`, a multiple of 4096.
 * n_bytes limits it; 0 means to the end of the file. The descriptor stays the
 * caller's and may be closed at once. The filter has no name to look at: if a copy
 * takes the place of the file, keys that are added to the copy are ABSENT here. */
int tamis_filter_open_fd(int fd, uint64_t offset, uint64_t n_bytes,
                         const struct tamis_filter_options *opt,
                         struct tamis_filter **out, struct tamis_diag *diag);
void tamis_filter_close(struct tamis_filter *filter);

/* May this key be in the filter? *why (may be NULL) gets the reason. Sees whatever
 * a writer's add had finished before, in any process on this machine. */
enum tamis_answer tamis_filter_probe(struct tamis_filter *filter,
                                     const struct tamis_key *key,
                                     enum tamis_reason *why);
/* The same for n hashes of one domain: bit i % 64 of absent[i / 64] is set if hash
 * i is ABSENT. The bitmap's (n + 63) / 64 words are cleared first. Returns how many
 * are absent; 0 and *why on MISMATCH, BEHIND and the like. */
size_t tamis_filter_probe_batch(struct tamis_filter *filter, uint64_t tag,
                                const uint64_t *hashes, size_t n, uint64_t *absent,
                                enum tamis_reason *why);
/* The same for n keys with their hashes; one of another domain is MAYBE. */
size_t tamis_filter_probe_keys(struct tamis_filter *filter,
                               const struct tamis_key *keys, size_t n, uint64_t *absent,
                               enum tamis_reason *why);

/* By which look was an answer decided? */
enum tamis_decider {
    TAMIS_BY_NOTHING = 0, /* no key was looked for: the reason says why */
    TAMIS_BY_RANGE,       /* the key lies outside of the segment's key range: ABSENT */
    TAMIS_BY_FILTER
};
enum { TAMIS_MAX_STAGES = 30 };
/* One stage's answer about a key, and its place: offsets are in bytes, from the file's
 * start. */
struct tamis_stage_answer {
    enum tamis_reason reason; /* NO_REASON: the stage proves that it lacks the key */
    /* NO_REASON: the lane of which a block lacks a bit of the key. DAMAGED: the first
     * lane whose page failed its check. HIT: 0. */
    uint32_t lane;
    uint64_t offset; /* NO_REASON: of that block, 64 bytes; DAMAGED: of that page */
};
struct tamis_explanation {
    enum tamis_answer answer;
    enum tamis_reason reason;
    enum tamis_decider by;
    uint32_t n_stages; /* BY_FILTER: how many there are; else 0 */
    struct tamis_stage_answer stages[TAMIS_MAX_STAGES]; /* the oldest first */
    uint64_t reserved[8];                               /* 0 */
};
/* Asks as tamis_filter_probe(), and says which stage, lane and block decided. Returns
 * out->answer. It is for people, and slower than a probe: it asks, and then looks at
 * every stage again. ABSENT only if both say so; a key that a writer adds
 * in between is MAYBE. *out is the caller's, and whole whatever is returned; a NULL
 * filter or key is MAYBE, as in a probe. Any thread may call it while others probe. It
 * reads pages, writes nothing, and cannot fail. */
enum tamis_answer tamis_filter_explain(struct tamis_filter *filter,
                                       const struct tamis_key *key,
                                       struct tamis_explanation *out);

/* What probes run on: "avx512", "avx2", "neon" or "scalar", chosen at the first use of
 * a filter, the best that this machine has. The environment variable TAMIS_KERNEL names
 * another one, for tests; a name that this machine can't run is ignored. */
const char *tamis_kernel_name(void);

/* The filter's domain, for hashing. */
struct tamis_domain tamis_filter_domain(const struct tamis_filter *filter);

struct tamis_filter_info {
    uint8_t uuid[TAMIS_UUID_BYTES], store_uuid[TAMIS_UUID_BYTES];
    struct tamis_domain domain;
    uint8_t name[TAMIS_NAME_MAX + 1]; /* NUL-terminated */
    size_t name_bytes;
    uint8_t binding[TAMIS_BINDING_MAX];
    size_t binding_bytes;
    int sealed;       /* 1: closed for ever */
    int growing_kind; /* 1: it has, or had, a writer; 0: sealed at birth */
    int clean;        /* 0: a writer is at it, or died */
    int over_target;  /* 1: the last stage is beyond its capacity */
    uint64_t keys, watermark, sequence, generation, created;
    uint64_t file_bytes;        /* committed */
    uint64_t table_digest;      /* sealed: digest of the stage table */
    struct tamis_growth growth; /* factor, ... are 0 if sealed at birth */
    double expected_error;      /* now, from the keys of each stage, or as measured */
    uint32_t n_stages;
    uint32_t n_settled; /* open: the first so many stages have digests (R17) */
};

struct tamis_stage_info {
    uint64_t offset, bits_bytes, n_blocks, capacity, keys, bits_set;
    uint32_t lanes, words;
    double target_error, expected_error;
};

/* As of the last commit that the filter has noticed. */
int tamis_filter_info(struct tamis_filter *filter, struct tamis_filter_info *info);
int tamis_filter_stage(struct tamis_filter *filter, uint32_t stage,
                       struct tamis_stage_info *info);

struct tamis_verify {
    uint64_t n_pages;       /* checked */
    uint64_t n_damaged;     /* of them */
    uint64_t first_damaged; /* file offset of the first, if any */
    uint32_t n_stale_slots; /* commit slots that are torn or rotten */
};
/* Reads and checks every page. ERR_DAMAGED if any failed, or if a commit slot is stale
 * (which alone loses nothing: the other one serves); *report is always whole. */
int tamis_filter_verify(struct tamis_filter *filter, struct tamis_verify *report,
                        struct tamis_diag *diag);
