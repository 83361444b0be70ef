/* Hashes -> list: a builder's hashes in order, cut to as many bits as were asked for.
 * The hashes stay in the builder, in another order, for its filter. */
#include "lib/builder/inside.h"

enum { SOME_VALUES = 1024 };

/* Values that were cut, without those that repeat the one before. */
struct cutting {
    struct list_writer *writer;
    unsigned bits;
    bool began;
    uint64_t last;
};

static int add_cut(struct cutting *c, const uint64_t *hashes, size_t n)
{
    uint64_t values[SOME_VALUES];
    int err = 0;
    for (size_t done = 0, some; done < n && !err; done += some) {
        size_t kept = 0;
        some = n - done < SOME_VALUES ? n - done : SOME_VALUES;
        for (size_t i = 0; i < some; i++) {
            uint64_t v = list_cut(hashes[done + i], c->bits);
            values[kept] = v;
            kept += !c->began || v != c->last;
            c->began = true;
            c->last = v;
        }
        err = list_writer_add(c->writer, values, kept);
    }
    return err;
}

static int write_values(struct tamis_builder *b, struct list_writer *w)
{
    struct cutting c = {.writer = w, .bits = b->list_bits};
    struct order *o;
    const uint64_t *block;
    size_t n;
    int err = order_begin(b, &o);
    while (!err) {
        err = order_next(o, &block, &n);
        if (err || n == 0)
            break;
        err = c.bits == 64 ? list_writer_add(w, block, n) : add_cut(&c, block, n);
    }
    order_end(o);
    return err;
}

int builder_list_at(struct tamis_builder *b, const uint8_t uuid[UUID_BYTES], int dir,
                    const char *name, bool sync_dir, struct list_written *out,
                    struct tamis_diag *diag)
{
    struct list_options opt = {.domain = b->domain,
                               .hash_bits = b->list_bits,
                               .who = &b->who,
                               .set_id = builder_set_id(b),
                               .watermark = b->watermark,
                               .n_keys = b->n_keys};
    struct list_writer *w;
    b->spool_failed = b->spool_damaged = false; /* by an earlier finish */
    if (b->failed)
        return diag_errno(diag, b->failed, name, "an earlier add failed");
    if (!b->list_bits)
        return diag_fail(diag, TAMIS_ERR_RANGE, name,
                         "the builder was created without list_bits");
    int err = list_writer_create(&opt, uuid, dir, name, &w, diag);
    if (err)
        return err;
    err = write_values(b, w);
    if (!err)
        return list_writer_finish(w, sync_dir, out, diag);
    list_writer_abort(w);
    return builder_cannot(b, err, name, "cannot write the list", diag);
}

int builder_add_list(struct tamis_builder *b, struct tamis_filter *list,
                     struct tamis_diag *diag)
{
    struct tamis_list_cursor *s;
    const uint64_t *block;
    size_t n = 0;
    bool any = false, is_first = b->n_keys == 0;
    diag_clear(diag);
    int err = tamis_list_cursor_create(list, &s, diag);
    if (err)
        return err;
    if (s->list->hash_bits != 64)
        err = diag_fail(diag, TAMIS_ERR_UNFIT, filter_path(list),
                        "it has %u bit%s of each hash: a filter needs all 64",
                        s->list->hash_bits, s->list->hash_bits == 1 ? "" : "s");
    else if (filter_domain(list).tag != b->domain.tag)
        err = diag_fail(diag, TAMIS_ERR_MISMATCH, filter_path(list),
                        "of another hash or seed than the builder");
    while (!err) {
        err = list_source_next(s, &block, &n);
        if (err) {
            list_source_failed(s, diag);
            if (any)
                b->failed = EIO; /* some of its hashes are in, and some are not */
        }
        if (err || n == 0)
            break;
        any = true;
        err = tamis_builder_add_hashes(b, b->domain.tag, block, n);
        if (err)
            diag_fail(diag, err, filter_path(list), "cannot keep its hashes: %s",
                      tamis_strerror(err));
    }
    if (!err && is_first) {
        memcpy(b->set_id, filter_set_id(list), UUID_BYTES);
        b->has_set_id = true;
        b->n_in_set = b->n_keys;
    }
    tamis_list_cursor_free(s);
    return err;
}
