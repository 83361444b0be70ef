/* Values for inline probes (tamis_inline.h): the part of a filter that a caller's own
 * loop may read, and the call that the loop falls back to.
 *
 * A value points into the filter's view, at the bits and at the state of its stage. The
 * state is the keys' tag only while the bits alone decide: a thread that finds a bad
 * page changes it (page/check.c). A filter with values is not freed by its close: the
 * last release frees it. */
#include "lib/filter/inline.h"
#include "lib/filter/view.h"

/* Programs that were compiled against version 1 read them as such. */
_Static_assert(sizeof(struct tamis_inline) == 128, "the layout of version 1");
_Static_assert(sizeof(_Atomic uint64_t) == sizeof(uint64_t), "a state is a word");

/* ---- of a filter ---- */

int inline_begin(const void *object, uint32_t version, struct tamis_inline *out)
{
    if (version != TAMIS_INLINE_VERSION)
        return TAMIS_ERR_VERSION;
    if (!out)
        return TAMIS_ERR_RANGE;
    memset(out, 0, sizeof *out);
    return object ? 0 : TAMIS_ERR_RANGE;
}

void inline_filter(struct tamis_inline *value, struct tamis_filter *f,
                   uint64_t min_watermark)
{
    struct view *v = atomic_load_explicit(&f->view, memory_order_acquire);
    struct standing now;
    filter_hold(f);
    value->filter = f;
    if (!v->plain || !view_is_current(v, &now) || now.watermark < min_watermark)
        return;
    const struct geometry *g = &v->stages[0].geometry;
    value->bits = v->head.plane.bits;
    value->geometry = inline_geometry(g);
    const unsigned char *stage = (const unsigned char *)&v->stages[0];
    const void *tag = stage + offsetof(struct stage, state);
    *(g->lanes == 1 ? &value->one : &value->many) = tag;
}

/* Is the filter closed? Then its values answer UNREADABLE. */
static bool inline_is_closed(const struct tamis_inline *value)
{
    return value->filter && atomic_load(&value->filter->closed);
}

void inline_release_filter(struct tamis_inline *value)
{
    if (value->filter)
        filter_release(value->filter);
}

static enum tamis_answer inline_ask(const struct tamis_inline *value,
                                    const struct tamis_key *key, enum tamis_reason *why)
{
    return tamis_filter_probe(value->filter, key, why);
}

static size_t ask_few(const struct tamis_inline *value, uint64_t tag,
                      const uint64_t *hashes, size_t n, uint64_t *absent,
                      enum tamis_reason *why)
{
    return tamis_filter_probe_batch(value->filter, tag, hashes, n, absent, why);
}

static const struct tamis_inline_calls of_filter = {inline_ask, ask_few,
                                                    inline_release_filter};

int tamis_filter_inline(struct tamis_filter *filter, uint32_t version,
                        struct tamis_inline *out)
{
    int err = inline_begin(filter, version, out);
    if (err)
        return err;
    inline_filter(out, filter, filter->min_watermark);
    out->calls = &of_filter;
    return 0;
}

/* ---- of any ---- */

enum tamis_answer tamis_inline_ask(const struct tamis_inline *value,
                                   const struct tamis_key *key, enum tamis_reason *why)
{
    if (value && value->calls && !inline_is_closed(value))
        return value->calls->ask(value, key, why);
    if (why)
        *why = TAMIS_UNREADABLE;
    return TAMIS_MAYBE;
}

size_t tamis_inline_ask_few(const struct tamis_inline *value, uint64_t tag,
                            const uint64_t *hashes, size_t n, uint64_t *absent,
                            enum tamis_reason *why)
{
    if (value && value->calls && !inline_is_closed(value))
        return value->calls->ask_few(value, tag, hashes, n, absent, why);
    return tamis_filter_probe_batch(NULL, tag, hashes, n, absent, why);
}

void tamis_inline_release(struct tamis_inline *value)
{
    if (!value)
        return;
    if (value->calls)
        value->calls->release(value);
    memset(value, 0, sizeof *value);
}
