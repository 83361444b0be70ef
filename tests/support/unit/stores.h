/* The same of stores: see closed.h. */
#ifndef TAMIS_TESTS_UNIT_STORES_H
#define TAMIS_TESTS_UNIT_STORES_H

#include "closed.h"
#include "tests/support/asks.h"

static UNUSED void store_ends(struct tamis_store **s)
{
    tamis_store_close(*s);
}

static UNUSED void snapshot_ends(struct tamis_snapshot **s)
{
    tamis_snapshot_release(*s);
}

#define STORE    CLOSED_BY(store_ends, struct tamis_store *)
#define SNAPSHOT CLOSED_BY(snapshot_ends, struct tamis_snapshot *)

static UNUSED struct tamis_store_info store_info(struct tamis_store *s)
{
    struct tamis_store_info info;
    OK(tamis_store_info(s, &info, NULL));
    return info;
}

static UNUSED struct tamis_writer *writer_of(struct tamis_store *s, const char *name)
{
    struct tamis_writer *w;
    OK(tamis_store_writer(s, name, strlen(name), NULL, &w, NULL));
    return w;
}

static UNUSED struct tamis_builder *builder_in(struct tamis_edit *e, const char *name,
                                               const struct tamis_segment_options *opt)
{
    struct tamis_builder *b;
    OK(tamis_edit_builder(e, name, strlen(name), 0, opt, &b, NULL));
    return b;
}

static UNUSED struct tamis_target found_in(const struct tamis_snapshot *snap,
                                           const char *name)
{
    struct tamis_target t;
    OK(tamis_snapshot_find(snap, name, strlen(name), NULL, 0, 0, &t));
    return t;
}

static UNUSED struct tamis_segment_info segment_at(const struct tamis_snapshot *snap,
                                                   size_t i)
{
    struct tamis_segment_info info;
    OK(tamis_snapshot_segment(snap, i, &info));
    return info;
}

static UNUSED struct tamis_filter *filter_at(struct tamis_snapshot *snap, size_t i)
{
    struct tamis_filter *f;
    OK(tamis_snapshot_filter(snap, i, &f, NULL));
    return f;
}

#endif
