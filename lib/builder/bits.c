/* Hashes -> a stage of split blocks in the file, with its digests. It is filled in
 * private memory, and written while it is filled. */
#include "lib/builder/layer.h"
#include "lib/plan/plan.h"

int builder_cannot(const struct tamis_builder *b, int err, const char *path,
                   const char *doing, struct tamis_diag *diag)
{
    if (err == TAMIS_ERR_DAMAGED)
        return diag_fail(diag, err, path,
                         "memory changed while the filter was built: its bits or its "
                         "header do not fit the keys that came in");
    return diag_made(diag, err, path,
                     b->spool_damaged  ? "its keys came back damaged from the spool"
                     : b->spool_failed ? "cannot spool its keys"
                                       : doing);
}

struct output {
    struct fill fill;
    int fd;
    uint64_t at, written, length; /* of the bits */
};

/* Each piece ends at a multiple of WRITE_BYTES of the file: so the page cache takes the
 * bits in folios of 2 MiB, and maps these by huge pages, wherever the stage begins.
 * Pieces that end elsewhere break two folios each: probes of 1 GiB of bits then take
 * 15.3 ns instead of 12.2. */
int pieces_write(int fd, uint64_t at, const uint8_t *bits, uint64_t *written,
                 uint64_t ready, bool is_all)
{
    enum { WRITE_BYTES = 4 << 20 };
    int err = 0;
    while (*written < ready && !err) {
        uint64_t n = WRITE_BYTES - (at + *written) % WRITE_BYTES;
        if (ready - *written < n && !is_all)
            break;
        n = ready - *written < n ? ready - *written : n;
        err = io_write(fd, bits + *written, (size_t)n, at + *written);
        *written += n;
    }
    return err;
}

/* Finished bits go out at once. */
static int write_finished(void *ctx)
{
    struct output *o = ctx;
    uint64_t ready = fill_finished(&o->fill);
    return pieces_write(o->fd, o->at, o->fill.bits, &o->written, ready,
                        ready == o->length);
}

/* The spool has all hashes or none by now. */
static int from_spool(struct tamis_builder *b, struct fill *f, bool asks)
{
    uint64_t done = 0, check = 0;
    int err = 0;
    while (!err && done < b->n_spooled) {
        size_t n;
        err = spool_read(b, done, &check, &n);
        done += n;
        if (!err && asks)
            err = fill_ask(f, b->hashes, n);
        else if (!err)
            err = fill_add(f, b->hashes, n, done == b->n_spooled);
    }
    return err;
}

/* The last hashes are not added before all are known to be right. */
static int bits_fill(struct tamis_builder *b, struct fill *f,
                     const struct hash_list *from, const struct hash_sum *sum)
{
    f->asks = b->checks && from;
    int err = from ? fill_add(f, from->hashes, from->n, true) : from_spool(b, f, false);
    if (!err && b->checks && !from)
        err = from_spool(b, f, true);
    b->asked = f->g;
    return !err && b->checks && !fill_agrees(f, sum) ? TAMIS_ERR_DAMAGED : err;
}

uint8_t *digests_alloc(uint64_t length)
{
    uint64_t n = digests_bytes(length / PAGE_BYTES);
    return calloc(1, n ? (size_t)n : DIGEST_BYTES);
}

int digests_write(int fd, uint64_t at, struct stage_desc *s, uint8_t *digests)
{
    struct digest_tree t;
    digest_tree_of(s->length / PAGE_BYTES, &t);
    s->root = t.n_bytes ? digest_tree_finish(&t, digests) : digest_at(digests, 0);
    return t.n_bytes ? io_write(fd, digests, (size_t)t.n_bytes, at + s->digests_offset)
                     : 0;
}

/* Digests what is in memory, not what comes back from the disk: a page that was
 * damaged on its way fails from its first touch on (R11). */
int bits_write(struct tamis_builder *b, int fd, uint64_t at, struct stage_desc *s,
               const struct hash_list *from, const struct hash_sum *sum,
               unsigned n_threads, double *error)
{
    struct output o = {.fd = fd, .at = at + s->offset, .length = s->length};
    uint64_t n = from ? from->n : b->capacity;
    void *address;
    size_t n_mapped;
    uint8_t *bits = map_bits((size_t)s->length, &address, &n_mapped);
    uint8_t *digests = digests_alloc(s->length);
    int err = bits && digests
                  ? fill_begin(&o.fill, &s->geometry, bits, digests, n, n_threads, 0)
                  : ENOMEM;
    if (!err) {
        o.fill.between = write_finished;
        o.fill.ctx = &o;
        err = bits_fill(b, &o.fill, from, sum);
        if (!err)
            err = write_finished(&o);
        s->bits_set = atomic_load(&o.fill.bits_set);
        if (error)
            *error = plan_bits_error(&s->geometry, bits);
        fill_end(&o.fill);
    }
    if (!err)
        err = digests_write(fd, at, s, digests);
    free(digests);
    if (bits)
        munmap(address, n_mapped);
    return err;
}
