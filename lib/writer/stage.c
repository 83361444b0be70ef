/* One stage of an open writer: its mappings, its floors and dirty marks in memory, and
 * the counters that threads raise side by side (add.c). */
#include "lib/writer/inside.h"
#include "lib/plan/plan.h"

uint64_t stage_keys_now(const struct writer_stage *s)
{
    uint64_t n = s->base_keys;
    for (size_t i = 0; i < N_SHARDS + N_SHARED; i++)
        n += atomic_load_explicit(&s->shards[i].keys, memory_order_relaxed);
    return n;
}

uint64_t stage_bits_now(const struct writer_stage *s)
{
    uint64_t n = s->base_bits;
    for (size_t i = 0; i < N_SHARDS + N_SHARED; i++)
        n += atomic_load_explicit(&s->shards[i].bits, memory_order_relaxed);
    return n;
}

/* For all threads the bits that were just set, or found, come before the next loads. On
 * x86 they do: the locked instruction that set them is a fence, and loads keep their
 * order. */
static void fence_after_bits(void)
{
#if defined(__x86_64__) || defined(__i386__)
    atomic_signal_fence(memory_order_seq_cst);
#else
    atomic_thread_fence(memory_order_seq_cst);
#endif
}

/* Every add marks each page that it relies on, after it has seen all its bits there,
 * set by any thread. So a commit that begins after the add returned counts these bits:
 * the mark is still there, and is taken now; or an earlier commit took it after the add
 * had left it or found it, and counted after that (floors_count_dirty() has the other
 * fence). A mark before the bits would not do: a commit may take it in between. A mark
 * by the thread that set the bits alone is not enough: before it marks, another add may
 * find the bits, return, and be acknowledged. Looking first keeps the line shared. */
static void mark_page(_Atomic uint64_t *marks, uint64_t page)
{
    uint64_t bit = UINT64_C(1) << (page % 64);
    fence_after_bits();
    if (!(atomic_load_explicit(&marks[page / 64], memory_order_relaxed) & bit))
        atomic_fetch_or_explicit(&marks[page / 64], bit, memory_order_release);
}

void stage_set_dirty(struct writer_stage *s, uint64_t page)
{
    mark_page(s->dirty, page);
}

void stage_set_found(struct writer_stage *s, uint64_t page)
{
    mark_page(s->found, page);
}

void stage_condemn(struct writer_stage *s, uint64_t page)
{
    stage_mark_bad(&s->stage, page);
    for (size_t i = 0; i < SECTORS_PER_PAGE; i++)
        atomic_store(&s->floors[page * SECTORS_PER_PAGE + i], FLOOR_DAMAGED);
    stage_set_dirty(s, page);
}

void writer_stage_free(struct writer_stage *s)
{
    if (!s)
        return;
    map_drop(&s->bits_map);
    map_drop(&s->checks_map);
    free(s->stage.pages);
    free(s->floors);
    free(s->dirty);
    free(s->found);
    free(s);
}

/* A child that is forked before the mapping is kept from it would keep the lock. */
int writer_map(struct tamis_writer *w, uint64_t at, uint64_t n_bytes, bool writable,
               struct mapping *m)
{
    int err = io_hold_forks();
    if (err)
        return err;
    err = map_file(w->guard.fd, at, n_bytes, writable, &w->lost, m);
    if (!err)
        map_keep_from_children(m);
    io_let_forks();
    return err;
}

static int map_stage(struct tamis_writer *w, const struct stage_desc *d,
                     bool by_digests, struct writer_stage *s)
{
    uint64_t n_pages = d->length / PAGE_BYTES;
    uint64_t at = by_digests ? d->digests_offset : d->floors_offset;
    uint64_t n = by_digests ? digests_bytes(n_pages) : floors_bytes(n_pages);
    int err = writer_map(w, d->offset, d->length, true, &s->bits_map);
    return err || !n ? err : writer_map(w, at, n, false, &s->checks_map);
}

int writer_stage_create(struct tamis_writer *w, const struct commit *c, uint32_t i,
                        bool fresh, struct writer_stage **out)
{
    const struct stage_desc *d = &c->stages[i];
    bool by_digests = commit_has_digests(c, i);
    uint64_t n_pages = d->length / PAGE_BYTES;
    struct writer_stage *s = aligned_alloc(CACHE_LINE, sizeof *s);
    *out = NULL;
    if (!s)
        return ENOMEM;
    memset(s, 0, sizeof *s);
    void *memory = calloc(1, stage_memory(d, by_digests));
    s->stage.pages = memory;
    s->floors = calloc((size_t)n_pages, SECTORS_PER_PAGE * sizeof *s->floors);
    s->dirty = calloc((size_t)(n_pages + 63) / 64, sizeof *s->dirty);
    s->found = calloc((size_t)(n_pages + 63) / 64, sizeof *s->found);
    int err = memory && s->floors && s->dirty && s->found ? 0 : ENOMEM;
    if (!err)
        err = map_stage(w, d, by_digests, s);
    if (err) {
        writer_stage_free(s);
        return err;
    }
    stage_init(&s->stage, d, by_digests, &w->identity, TAMIS_CHECK_LAZY, &s->bits_map,
               s->bits_map.base, by_digests ? NULL : s->checks_map.base,
               by_digests ? s->checks_map.base : NULL, memory);
    if (fresh) /* zeros that we allocated */
        stage_set_good(&s->stage);
    s->base_keys = d->keys;
    s->base_bits = d->bits_set;
    s->n_full_bits = plan_expected_bits(&d->geometry, d->capacity);
    uint64_t interval = d->capacity / 65536;
    s->check_interval = interval < 1 ? 1 : interval > 64 ? 64 : interval;
    *out = s;
    return 0;
}

void writer_stage_use(struct tamis_writer *w, uint32_t i, struct writer_stage *s)
{
    plane_row_begin(&s->older, w->planes, i);
    w->stages[i] = s;
    w->planes[i] = plane_of(s->stage.bits, &s->stage.geometry);
}
