/* Mapped pages: mappings, pages that are lost, and the check of a page before its bits
 * are believed (R12). */
#ifndef TAMIS_PAGE_PAGE_H
#define TAMIS_PAGE_PAGE_H

#include "format/commit.h"
#include "format/integrity.h"
#include "lib/kernel/kernel.h"
#include "lib/page/quick.h"

#include <errno.h>

/* ==== watch.c: pages of mappings that the file system cannot deliver ==== */

struct watched;
struct page_reader;
struct mapping {
    struct page_reader *reader; /* NULL; or it reads the pages, and nothing is mapped */
    uint8_t *base;              /* where the filter's byte 0 is */
    void *address;              /* of the mapping itself */
    size_t n_bytes;
    struct watched *watched;
    const _Atomic uint32_t *n_faults; /* of this mapping */
    int file;        /* 1 + a descriptor of it, map_keep_file(); 0: none */
    uint64_t offset; /* of `base` in the file */
};
/* Reads pages of a file that is not mapped, each time that they are asked. Its stages
 * are checked strictly, and their pages copied, for there are no bits at their
 * addresses. */
struct page_reader {
    /* False: it can't be had; *certain: and this is for good. */
    bool (*page)(struct page_reader *r, uint64_t offset, uint8_t page[PAGE_BYTES],
                 bool *certain);
};

/* Watches a mapping; ENOMEM. *alarm (may be NULL) becomes true before a lost page is
 * replaced. */
int lost_watch(struct mapping *m, bool writable, _Atomic bool *alarm);
void lost_forget(struct mapping *m); /* before it is unmapped */
/* A mapping keeps its file description open, and so a lock. So forked children do not
 * get this one, and may use its addresses for something else. */
void map_keep_from_children(struct mapping *m);
/* Was the page at this address lost? Then it has our ones now. */
bool lost_page(const struct mapping *m, const void *at);
/* May a page of it be lost? If not, no page that the caller has read has our ones. */
static inline bool lost_any(const struct mapping *m)
{
    atomic_thread_fence(memory_order_acquire);
    return atomic_load_explicit(m->n_faults, memory_order_acquire) != 0;
}

/* For the guard, before the first lost_replace(). */
int lost_prepare(void);
/* Called in a signal handler. Puts ones over the page of this address, if it is in a
 * watched mapping. False: not in one, or that failed. */
bool lost_replace(uintptr_t at);

/* ==== map.c: mappings and first-touch checks ========================== */

/* From this size on a mapping gets MADV_RANDOM: reading ahead would waste memory. */
enum { RANDOM_ADVICE_BYTES = 1 << 20 };
/* Maps a part of a file and watches it (`alarm` as above). */
int map_file(int fd, uint64_t offset, uint64_t n_bytes, bool writable,
             _Atomic bool *alarm, struct mapping *m);
/* The same advice for a smaller mapping whose readers touch few pages. */
void map_at_random(const struct mapping *m);
void map_drop(struct mapping *m);
/* Keeps a descriptor of the file, for stage_read(): at most 64 mappings of a process
 * do. If there is none, that costs time only. */
void map_keep_file(struct mapping *m, int fd, uint64_t offset);
void map_leave_file(struct mapping *m); /* while nobody reads; it may have none */
void map_abandon(struct mapping *m);    /* in a child that did not get it */
size_t machine_page(void);              /* its bytes */

/* The bits of a page; none: not checked. Bad is for ever, and beats good. */
enum { PAGE_GOOD = 1, PAGE_BAD = 2, PAGES_PER_WORD = 32 };
/* Are all pages good, or those of the first lane? NEVER, once one was bad. */
enum all_good { NOT_YET, FIRST_LANE, ALL_GOOD, NEVER };

/* Pages checked for the first time, and pages found bad. `sum` (may be NULL) counts
 * them, too. */
struct page_counts {
    _Atomic uint64_t n_checked, n_damaged;
    struct page_counts *sum;
};

/* A stage as mapped, with the memory of which pages were found good (R12). */
struct stage {
    uint8_t *bits;
    const struct mapping *map; /* of the bits */
    struct geometry geometry;
    uint64_t n_pages;
    bool by_digests; /* sealed or settled; else by floors */
    enum tamis_check mode;
    /* The state of all pages together: a stage_number(), or `good` once all are good.
     * If the bits alone decide then, `good` is the tag of the filter's keys, so that
     * the shortest probe needs one load. */
    _Atomic uint64_t state;
    uint64_t tag, good;
    uint8_t uuid[UUID_BYTES];
    const uint8_t *floors; /* its floor sectors, mapped, if it is checked by them */
    uint64_t floors_offset;
    const uint8_t *digests; /* levels 1 and up, mapped; NULL for one page, or none */
    uint64_t root;
    uint64_t n_first_pages;
    _Atomic uint64_t n_good, n_first_good;
    _Atomic uint64_t *pages;        /* two bits per page */
    _Atomic uint64_t *good_digests; /* a bit per page of digests */
    struct page_counts *counts;     /* may be NULL */
};

size_t stage_memory(const struct stage_desc *d, bool by_digests); /* for its bitmaps */
/* Sets up a stage on its bits, in `map`, and its floors or digests, as in
 * digests_offset and root of *d. `map` must not move. memory: stage_memory() zeroed
 * bytes. */
void stage_init(struct stage *s, const struct stage_desc *d, bool by_digests,
                const struct identity *id, enum tamis_check mode,
                const struct mapping *map, uint8_t *bits, const uint8_t *floors,
                const uint8_t *digests, void *memory);
/* Checks a page. Remembers the result unless the mode is strict. */
bool stage_check_page(struct stage *s, uint64_t page);
/* The same on a copy: `copy` has the page if it is good. */
bool stage_copy_page(struct stage *s, uint64_t page, uint8_t copy[PAGE_BYTES]);
/* Reads n bytes from the file, if the mapping keeps it. Mapping a page takes the
 * kernel longer, and brings in the pages around it. */
bool stage_read(const struct stage *s, uint64_t at, size_t n, uint8_t *to);
/* Checks a page that was read so. */
bool stage_check_read(struct stage *s, uint64_t page, uint8_t read[PAGE_BYTES]);
/* Copies the page that is mapped at `live`, or would be, unchecked. False: it could not
 * be read; *certain: and this is for good. */
bool stage_take_page(const struct stage *s, const uint8_t *live,
                     uint8_t copy[PAGE_BYTES], bool *certain);
/* n bytes of the stage, from byte `at` on, if all of their pages are good. */
bool stage_copy_bytes(struct stage *s, uint64_t at, uint64_t n, uint8_t *out);
void stage_mark_bad(struct stage *s, uint64_t page);
/* For a loop over all pages, in order, before each page: starts to read the pages that
 * follow, which MADV_RANDOM keeps the kernel from doing. Errors are ignored. */
void stage_read_ahead(const struct stage *s, uint64_t page);
bool stage_is_bad(struct stage *s, uint64_t page);
/* The value of `state` that stands for `what`. A key's tag equals it as rarely as the
 * tags of two domains are equal. */
static inline uint64_t stage_number(const struct stage *s, enum all_good what)
{
    return ~s->tag ^ what;
}

static inline uint64_t stage_state(struct stage *s)
{
    return atomic_load_explicit(&s->state, memory_order_acquire);
}

/* Is this the tag of its keys, are all pages good, and is nothing left to check? */
static inline bool stage_is_plain(struct stage *s, uint64_t tag)
{
    return stage_state(s) == tag;
}

/* Is nothing left to check? An open stage may change that. */
static inline bool stage_all_good(struct stage *s)
{
    return stage_state(s) == s->good;
}

static inline bool stage_none_bad(struct stage *s)
{
    return stage_state(s) != stage_number(s, NEVER);
}

/* Are all pages of the first lane good, where nearly all probes of absent keys end? One
 * in fifty goes on to other lanes, which check their pages. */
static inline bool stage_first_good(struct stage *s)
{
    uint64_t now = stage_state(s);
    return now == s->good || now == stage_number(s, FIRST_LANE);
}

/* All pages are good as they are. Nobody else has the stage yet. */
static inline void stage_set_good(struct stage *s)
{
    atomic_init(&s->state, s->good);
}

/* From now on the bits alone decide: if all pages are good, or once they are. Nobody
 * else has the stage yet. */
static inline void stage_set_plain(struct stage *s)
{
    bool good = stage_all_good(s);
    s->good = s->tag;
    if (good)
        stage_set_good(s);
}

static inline uint32_t stage_page_state(struct stage *s, uint64_t page)
{
    uint64_t word =
        atomic_load_explicit(&s->pages[page / PAGES_PER_WORD], memory_order_acquire);
    return word >> (page % PAGES_PER_WORD * 2) & (PAGE_GOOD | PAGE_BAD);
}

/* May this page's bits be believed? */
static inline bool stage_page_good(struct stage *s, uint64_t page)
{
    if (stage_all_good(s))
        return true;
    if (s->mode == TAMIS_CHECK_NONE) /* but a scrub may have found it bad */
        return !(stage_page_state(s, page) & PAGE_BAD);
    if (stage_page_state(s, page) == PAGE_GOOD) /* never so with TAMIS_CHECK_STRICT */
        return true;
    return stage_check_page(s, page);
}

/* TAMIS_NO_REASON (absent), TAMIS_HIT, or TAMIS_DAMAGED (only damage says maybe). */
enum tamis_reason stage_probe(struct stage *s, const struct kernel *k, uint64_t h);
/* The same, slowly, and where it was decided: in which lane, and how far behind the
 * first bits the block is that lacks one, or the first page that failed. */
struct stage_finding {
    enum tamis_reason reason;
    uint32_t lane;
    uint64_t at;
};
struct stage_finding stage_find(struct stage *s, const struct kernel *k, uint64_t h);
/* Copies a live page word by word: others may be setting bits in it. */
void page_copy(uint8_t to[PAGE_BYTES], const uint8_t *from);

#endif
