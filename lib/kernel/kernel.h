/* A kernel probes and sets the bits of stages on one kind of processor. kernel.c
 * chooses one at run time. avx2.c and its like test and set a block; loops.h, row.h and
 * grid.h make loops of that. All are bit-identical to format/geometry.c.
 *
 * Mapped words are shared with other threads and processes: read them in aligned 64-bit
 * words or more, set them by relaxed atomics. Nothing here checks a page: the caller
 * has done so (R12). */
#ifndef TAMIS_KERNEL_H
#define TAMIS_KERNEL_H

#include <stdatomic.h>

#include "format/geometry.h"
#include "lib/tamis_inline.h"

/* A thread sanitizer sees a vector of words as one plain read, where the words are read
 * one by one, and one by one set: under it only the scalar kernel is of use. */
#if defined(__SANITIZE_THREAD__)
#define ONLY_SCALAR 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define ONLY_SCALAR 1
#endif
#endif

/* The part of a stage that a probe reads. Small, since many are asked in a row. */
struct plane {
    const uint8_t *bits;
    uint64_t n_blocks; /* per lane */
    uint16_t lanes, words;
    uint32_t ring; /* plane_ring(words) */
};

/* A bit for each of `words` words, in both low bytes. Shifted left by the first word's
 * number, its second byte has a bit for each word that is meant, cyclically. */
static inline uint32_t plane_ring(uint32_t words)
{
    return ((UINT32_C(1) << words) - 1) * 0x101;
}

static inline struct plane plane_of(const uint8_t *bits, const struct geometry *g)
{
    return (struct plane){bits, g->n_blocks, (uint16_t)g->lanes, (uint16_t)g->words,
                          plane_ring(g->words)};
}

/* The block of hash h in this lane. */
static inline const uint8_t *plane_block(const struct plane *p, uint32_t lane,
                                         uint64_t h)
{
    return p->bits +
           (lane * p->n_blocks + geometry_block(h, p->n_blocks)) * BLOCK_BYTES;
}

/* Adds the bits of a block to another. Lengths are constants, and nothing overlaps:
 * compilers make wide instructions of it at -O2. */
static inline void block_join(uint8_t *restrict to, const uint8_t *restrict from)
{
    for (size_t i = 0; i < BLOCK_BYTES; i++)
        to[i] |= from[i];
}

/* Prefetches the lines that an add of this key writes. Inlined by force: gcc 12 takes a
 * function that only prefetches for one without effects, and drops its calls. */
__attribute__((always_inline)) static inline void plane_prefetch(const struct plane *p,
                                                                 uint64_t h)
{
    for (uint32_t lane = 0; lane < p->lanes; lane++) {
        __builtin_prefetch(plane_block(p, lane, h), 1);
        h = geometry_next_lane(h);
    }
}

/* Sets bits of a word that were clear when it was looked at; 1 if they still were. */
static inline uint32_t set_missing(uint64_t *word, uint64_t bits, bool alone)
{
    if (!alone)
        return !(__atomic_fetch_or(word, bits, __ATOMIC_RELAXED) & bits);
    __atomic_store_n(word, __atomic_load_n(word, __ATOMIC_RELAXED) | bits,
                     __ATOMIC_RELAXED);
    return 1;
}

/* At most 64 planes that are asked for one key. With up to ROW_COLUMNS planes a kernel
 * computes the lines of eight at a time, from the arrays, which go on beyond n with
 * lines that may be read. */
enum { ROW_COLUMNS = 16 };
struct plane_row {
    const struct plane *planes;
    uint32_t n;
    uint32_t n_columns; /* n, or 0 if there are none */
    uint32_t all;       /* a bit for each place that is a plane */
    uint8_t words[ROW_COLUMNS];
    uint64_t n_blocks[ROW_COLUMNS];
    const uint8_t *bits[ROW_COLUMNS];
};
/* The planes stay the caller's. */
void plane_row_begin(struct plane_row *row, const struct plane *planes, size_t n);

/* A condition that hardly ever holds. */
#define RARELY(condition) __builtin_expect(!!(condition), 0)

/* A filter, as answer() of a ribbon kernel or a list kernel needs it. Ones are not
 * neutral there, so ABSENT is believed only while no page of the mapping is lost. */
struct own_head {
    const void *of_kind;            /* ribbon_plane, or list_plane */
    const _Atomic uint32_t *n_lost; /* 0: none */
    /* Answers where answer() cannot tell that the key is absent. */
    enum tamis_answer (*otherwise)(const struct plane *plane,
                                   const struct tamis_key *key, enum tamis_reason *why);
};

/* Was no page lost? Call it when all bytes that an answer rests on were read. */
static inline bool own_none_lost(const struct own_head *head)
{
    atomic_thread_fence(memory_order_acquire);
    return atomic_load_explicit(head->n_lost, memory_order_acquire) == 0;
}

/* answer() and answer_row() get the address of the first member, `plane`. */
struct plane_head {
    union {
        struct plane plane; /* the first */
        struct own_head own;
    };
    const struct plane_row *row;
};

/* The first eight bytes as a number, padded with zeros: if two differ, they order their
 * keys. */
static inline uint64_t key_prefix(const void *key, size_t n_bytes)
{
    uint8_t b[8] = {0};
    if (__builtin_expect(n_bytes >= sizeof b, 1))
        memcpy(b, key, sizeof b);
    else if (n_bytes)
        memcpy(b, key, n_bytes);
    return (uint64_t)b[0] << 56 | (uint64_t)b[1] << 48 | (uint64_t)b[2] << 40 |
           (uint64_t)b[3] << 32 | (uint64_t)b[4] << 24 | (uint64_t)b[5] << 16 |
           (uint64_t)b[6] << 8 | (uint64_t)b[7];
}

/* All that a single probe reads of a segment, in one line. */
struct watched_plane {
    _Alignas(64) struct plane plane;
    _Atomic uint64_t trusted; /* while the clock shows this, the bits decide */
    uint64_t first, last;     /* key_prefix() of the ends of its range */
};

/* Bits of planes decide while a clock stands still. A caller's struct begins so. */
struct plane_watch;
typedef enum tamis_answer watch_answer_fn(struct plane_watch *w,
                                          const struct tamis_target *t,
                                          const struct tamis_key *key,
                                          enum tamis_reason *why,
                                          const struct watched_plane *p, uint64_t now);
struct plane_watch {
    watch_answer_fn *answer; /* the kernel's answer_while() */
    const _Atomic uint64_t *clock;
    /* Answers where the clock does not show `now`, or where a key with its bytes has a
     * hit, which the range may exclude. */
    watch_answer_fn *_Atomic otherwise;
};

/* blocks.c: for probes that are no call. */
struct tamis_inline_geometry inline_geometry(const struct geometry *g);

enum { SECTORS_IN_PAGE = PAGE_BYTES / SECTOR_BYTES };

/* As many planes lie behind these, and are asked next; and so many planes are asked of
 * the same keys that their lines are not in a cache nearby. */
enum { TILE_NEXT = 1, TILE_FAR = 2 };

struct kernel {
    const char *name;
    const struct ribbon_kernel *ribbon; /* ribbon.h: the one that goes with it */
    /* May answer(), probe() and fill() get blocks that begin anywhere, or only at
     * multiples of 8? */
    bool any_address;
    /* One block. */
    bool (*block_probe)(const uint8_t *block, uint32_t words, uint64_t h);
    /* Returns how many of the bits were clear. */
    uint32_t (*block_add)(uint8_t *block, uint32_t words, uint64_t h);

    /* Sets the bits of n keys in all lanes of a plane, without locked instructions: no
     * other thread adds, in any process. A reader sees each word meanwhile as it was
     * or as it is. Returns how many keys set a bit, and adds their bits to *n_bits.
     * Sets a bit in `dirty` for each page that got bits. */
    uint64_t (*add_alone)(const struct plane *plane, _Atomic uint64_t *dirty,
                          const uint64_t *hashes, size_t n, uint64_t *n_bits);
    /* The same for one key. Returns how many bits it set. */
    uint32_t (*add_one_alone)(const struct plane *plane, _Atomic uint64_t *dirty,
                              uint64_t h);

    /* One key, one plane: may it be in there? */
    bool (*probe)(const struct plane *plane, uint64_t h);
    /* The same with the arguments of tamis_filter_probe(): in a single probe another
     * call costs. */
    enum tamis_answer (*answer)(const struct plane *plane, const struct tamis_key *key,
                                enum tamis_reason *why);
    /* The same if the clock shows `now` once the bits were read; or otherwise(). */
    watch_answer_fn *answer_while;
    /* 1 to 64 keys, one plane: writes one word of `absent`, and returns how many keys
     * are. */
    size_t (*answer_few)(const struct plane *plane, const uint64_t *hashes, size_t n,
                         uint64_t *absent);
    /* n keys, at most 64, on at most 64 planes: bit p of hits[i] is set if key i may be
     * in plane p. `how`: TILE_NEXT, TILE_FAR, or both. `ask` may be NULL: all pairs.
     * Else only pairs whose bit is set there are asked, and planes without a bit need
     * not exist. */
    void (*probe_tile)(const struct plane *planes, size_t n_planes, unsigned how,
                       const uint64_t *hashes, size_t n, const uint64_t *ask,
                       uint64_t *hits);
    /* n ranges, at most 64: a bit is set if x lies outside of the range; in *near, if x
     * is one of its ends. Ends are uint64_t, perhaps atomic; 7 more behind the last may
     * be read. */
    uint64_t (*outside_ends)(const void *first, const void *last, size_t n, uint64_t x,
                             uint64_t *near);
    /* How many targets, from the first on, are of one snapshot, require nothing, and
     * have ordinals that follow each other? */
    size_t (*run_of_targets)(const struct tamis_target *t, size_t n);
    /* One key, many planes: bit i is set if it may be in plane i. */
    uint64_t (*probe_row)(const struct plane_row *row, uint64_t h);
    /* As answer(), for a plane that is the first of a row. */
    enum tamis_answer (*answer_row)(const struct plane *first,
                                    const struct tamis_key *key,
                                    enum tamis_reason *why);
    /* n keys, n_planes planes: bit i % 64 of hits[i / 64 * n_planes + p] is set if key
     * i may be in plane p. Words are written whole. n_next hashes behind those n will
     * be asked next of the same planes. */
    void (*probe_grid)(const struct plane *planes, size_t n_planes,
                       const uint64_t *hashes, size_t n, size_t n_next, uint64_t *hits);

    /* Counts the set bits of each sector of a page. Others may be setting bits. */
    void (*count_page)(const uint8_t *page, uint16_t counts[SECTORS_IN_PAGE]);
    /* Sets the bits of n keys in one lane, in private memory. */
    void (*fill)(uint8_t *lane, uint64_t n_blocks, uint32_t words,
                 const uint64_t *hashes, size_t n);
    /* Turns 64 blocks into the 512 rows of 64 filters (SPEC.md §17.1), in place: bit i
     * of block c becomes bit c of the 64-bit row blocks[i % 64][i / 64]. Aligned to 64
     * bytes. */
    void (*transpose)(uint64_t blocks[64][WORDS_PER_BLOCK]);
    /* Finds the rows that a key has in one block (SPEC.md §17.1), and prefetches them.
     * `block` is the row of the block's first bit. Writes the addresses of all eight
     * words, from the key's first one on; only `words` are prefetched. */
    void (*fetch_rows)(const uint8_t *block, uint32_t row_bytes, uint32_t words,
                       uint64_t h, const uint8_t **rows);
    /* Writes to `to` those filters among these whose bits are set in all of n rows: bit
     * c % 64 of word c / 64 is filter c. At least one row; row_bytes is 1, 2, 4, 8, 16,
     * 32 or a multiple of 64, and both sets have as many bytes, at least 8. */
    void (*and_rows)(const uint8_t *const *rows, uint32_t n, uint32_t row_bytes,
                     const uint64_t *among, uint64_t *to);
};

/* The set bits of a page. */
static inline uint64_t page_bits(const struct kernel *k, const uint8_t *page)
{
    uint16_t counts[SECTORS_IN_PAGE];
    uint64_t n = 0;
    k->count_page(page, counts);
    for (size_t i = 0; i < SECTORS_IN_PAGE; i++)
        n += counts[i];
    return n;
}

/* The kernels of this architecture. */
extern const struct kernel kernel_scalar, kernel_avx2, kernel_avx512, kernel_neon;

/* The best kernel for this machine, chosen once; TAMIS_KERNEL=name overrides. */
const struct kernel *kernel_get(void);
/* Kernel i that runs on this machine, the best first, "scalar" last; NULL beyond. */
const struct kernel *kernel_at(size_t i);

#endif
