/* A sealed filter whose pages come one after the other, written in memory that does not
 * grow with it: bits in large pieces, and of its digests one page a level. The header
 * goes last. */
#include "lib/filter/combine.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    PIECE_BYTES = 1 << 20,
    MEASURED_PAGES = 4096, /* of a stage, and as many again at most */
};
static const double LEAST_ERROR = 0x1p-40;

/* ---- the digest tree, as its pages fill ---- */

struct digesting {
    int fd;
    uint64_t offset, root;
    struct digest_tree tree;
    uint64_t n[MAX_DIGEST_LEVELS + 1]; /* digests of each level so far */
    uint8_t page[MAX_DIGEST_LEVELS + 1][PAGE_BYTES];
};

/* The next digest of a page of the level below. */
static int put_digest(struct digesting *g, uint32_t level, uint64_t digest)
{
    if (level == g->tree.n_levels) {
        g->root = digest;
        return 0;
    }
    struct le64 d = le64_of(digest);
    uint8_t *page = g->page[level];
    uint64_t i = g->n[level]++, in_page = i % DIGESTS_PER_PAGE;
    memcpy(page + in_page * DIGEST_BYTES, &d, sizeof d);
    if (in_page + 1 < DIGESTS_PER_PAGE && i + 1 < g->tree.n_pages[level - 1])
        return 0;
    memset(page + (in_page + 1) * DIGEST_BYTES, 0,
           PAGE_BYTES - (in_page + 1) * DIGEST_BYTES);
    int err =
        io_write(g->fd, page, PAGE_BYTES,
                 g->offset + g->tree.offset[level] + i / DIGESTS_PER_PAGE * PAGE_BYTES);
    return err ? err : put_digest(g, level + 1, page_digest(page));
}

/* ---- stages ---- */

static bool is_full(const uint8_t *block)
{
    return block[0] == 0xff && memcmp(block, block + 1, BLOCK_BYTES - 1) == 0;
}

static void measure_page(struct fill *f, uint64_t lane, uint64_t page, uint32_t words,
                         const uint8_t bits[PAGE_BYTES])
{
    for (size_t at = 0; at < PAGE_BYTES; at += BLOCK_BYTES) {
        if (is_full(bits + at)) {
            f->n_full[lane]++;
        } else if (page % f->step == 0) {
            double error = block_error(bits + at, words);
            f->n_measured[lane]++;
            f->sum[lane] += error;
            f->squares[lane] += error * error;
        }
    }
}

static void count_page(struct derived *d, uint32_t stage, uint64_t page,
                       const uint8_t bits[PAGE_BYTES])
{
    struct stage_desc *s = &d->commit.stages[stage];
    uint64_t lane = page * PAGE_BYTES / (s->length / s->geometry.lanes);
    uint16_t counts[SECTORS_PER_PAGE];
    kernel_get()->count_page(bits, counts);
    for (size_t i = 0; i < SECTORS_PER_PAGE; i++)
        s->bits_set += counts[i];
    measure_page(&d->fills[stage], lane, page, s->geometry.words, bits);
}

static int write_bits(struct derived *d, uint32_t stage, int fd, uint8_t *piece,
                      struct digesting *g)
{
    struct stage_desc *s = &d->commit.stages[stage];
    uint64_t n_pages = s->length / PAGE_BYTES;
    size_t in_piece = 0;
    d->fills[stage].step = n_pages / MEASURED_PAGES + 1;
    for (uint64_t page = 0; page < n_pages; page++) {
        uint8_t *out = piece + in_piece;
        recipe_page(&d->recipes[stage], page, out, &d->n_damaged);
        count_page(d, stage, page, out);
        in_piece += PAGE_BYTES;
        int err = put_digest(g, 1, page_digest(out));
        if (!err && (in_piece == PIECE_BYTES || page + 1 == n_pages)) {
            uint64_t at = s->offset + (page + 1) * PAGE_BYTES - in_piece;
            err = io_write(fd, piece, in_piece, at);
            if (!err)
                io_start_writing(fd, at, in_piece);
            in_piece = 0;
        }
        if (err)
            return err;
    }
    return 0;
}

static int write_stage(struct derived *d, uint32_t stage, int fd)
{
    struct stage_desc *s = &d->commit.stages[stage];
    struct digesting *g = calloc(1, sizeof *g);
    uint8_t *piece = malloc(PIECE_BYTES);
    int err = g && piece ? 0 : ENOMEM;
    if (!err) {
        g->fd = fd;
        g->offset = s->digests_offset;
        digest_tree_of(s->length / PAGE_BYTES, &g->tree);
        err = write_bits(d, stage, fd, piece, g);
        s->root = g->root;
    }
    free(piece);
    free(g);
    return err;
}

/* Places of the stages behind a header that has room for them (SPEC.md §6). False: it
 * would be longer than a file may be. */
static bool lay_out(struct derived *d)
{
    struct commit *c = &d->commit;
    d->identity.header_pages = c->n_stages > MAX_BIRTH_STAGES ? 3 : 1;
    uint64_t at = (uint64_t)d->identity.header_pages * PAGE_BYTES;
    for (uint32_t i = 0; i < c->n_stages; i++) {
        struct stage_desc *s = &c->stages[i];
        s->layout = LAYOUT_SPLIT_BLOCKS;
        if (!geometry_bytes(&s->geometry, &s->length))
            return false;
        uint64_t unit = s->length < HUGE_PAGE_BYTES ? PAGE_BYTES : HUGE_PAGE_BYTES;
        uint64_t digests = digests_bytes(s->length / PAGE_BYTES);
        if (!align_up_u64(at, unit, &s->offset) || s->offset > INT64_MAX - s->length ||
            s->offset + s->length > INT64_MAX - digests)
            return false;
        s->digests_offset = digests ? s->offset + s->length : 0;
        at = s->offset + s->length + digests;
    }
    c->committed_bytes = at;
    return true;
}

/* ---- the record ---- */

double derived_error(const struct commit *c)
{
    double passes = 1;
    for (uint32_t i = 0; i < c->n_stages; i++)
        passes *= 1 - c->stages[i].target_error;
    return 1 - passes;
}

static uint64_t full_blocks(const struct fill *f)
{
    uint64_t n = 0;
    for (uint32_t lane = 0; lane < MAX_LANES; lane++)
        n += f->n_full[lane];
    return n;
}

/* Blocks of nothing but ones are no keys' work: a damaged page was copied as such, now
 * or before. Where there are no others, all that may be is told. */
static uint64_t keys_told(const struct stage_desc *s, const struct recipe *r,
                          uint64_t n_full)
{
    const struct geometry *g = &s->geometry;
    uint64_t n_bits = s->length * 8, full = n_full * BLOCK_BITS;
    uint64_t most = plan_keys_of_bits(g, n_bits - 1);
    if (full == n_bits)
        return r->keys && r->keys < most ? r->keys : most;
    double share = (double)(s->bits_set - full) / (double)(n_bits - full);
    uint64_t n_set = n_full ? (uint64_t)(share * (double)n_bits) : s->bits_set;
    uint64_t keys = plan_keys_of_bits(g, n_set);
    return keys < most ? keys : most;
}

/* As the number of keys tells it, where the bits lie as keys would have set them: no
 * block is full, and their mean is not 4 deviations above what it should be. Else as
 * the blocks are; and of what filters have in common, for its bits are no keys'. */
static double stage_error(const struct stage_desc *s, const struct recipe *r,
                          const struct fill *f, uint64_t keys)
{
    double expected = plan_geometry_error(&s->geometry, r->unfold ? r->unfold : keys);
    double error = 1, variance = 0;
    for (uint32_t lane = 0; lane < s->geometry.lanes; lane++) {
        double full = (double)f->n_full[lane] / (double)s->geometry.n_blocks;
        double n = (double)f->n_measured[lane], mean = n > 0 ? f->sum[lane] / n : 1;
        error *= full + (1 - full) * mean;
        if (n > 0 && mean > 0)
            variance += (f->squares[lane] / n / (mean * mean) - 1) / n;
    }
    double above = error - expected;
    bool told = !r->common && !full_blocks(f) &&
                (above <= 0 || above * above <= 16 * variance * error * error);
    return told ? expected : error;
}

/* What the bits tell of keys and error. None of it leads to ABSENT (R9). */
static void judge(struct derived *d)
{
    struct commit *c = &d->commit;
    for (uint32_t i = 0; i < c->n_stages; i++) {
        struct stage_desc *s = &c->stages[i];
        uint64_t keys = keys_told(s, &d->recipes[i], full_blocks(&d->fills[i]));
        if (!s->keys)
            s->keys = keys;
        s->capacity = s->keys;
        s->target_error = stage_error(s, &d->recipes[i], &d->fills[i], keys);
        if (s->target_error < LEAST_ERROR)
            s->target_error = LEAST_ERROR; /* an empty one: above 0 (SPEC.md 9.3) */
        c->keys += s->keys;
    }
    d->identity.target_error = d->target < ERROR_MAX ? d->target : ERROR_MAX;
}

static int write_header(const struct derived *d, int fd)
{
    uint8_t header[HEADER_MAX_BYTES] = {0};
    identity_encode(&d->identity, header);
    if (d->identity.header_pages == 1) {
        commit_encode(&d->commit, SLOT_BIRTH, header + commit_slot_offset(SLOT_BIRTH));
    } else {
        commit_encode(&d->commit, SLOT_A, header + commit_slot_offset(SLOT_A));
        commit_encode(&d->commit, SLOT_B, header + commit_slot_offset(SLOT_B));
    }
    return io_write(fd, header, (size_t)d->identity.header_pages * PAGE_BYTES, 0);
}

static int write_all(struct derived *d, int fd)
{
    int err = io_refuse_network(fd);
    if (!err && !lay_out(d))
        err = EFBIG;
    for (uint32_t i = 0; i < d->commit.n_stages && !err; i++)
        err = write_stage(d, i, fd);
    if (err)
        return err;
    judge(d);
    if (d->most_error > 0 && derived_error(&d->commit) > d->most_error)
        return TAMIS_ERR_UNFIT;
    return write_header(d, fd);
}

/* ---- its file (R13) ---- */

static int write_in(struct derived *d, int dir, const char *name, bool sync_dir)
{
    char temp[IO_TEMP_NAME_BYTES];
    int fd, err = io_create_temp(dir, name, temp, &fd);
    if (err)
        return err;
    err = write_all(d, fd);
    if (!err)
        err = io_publish(dir, temp, name, fd, sync_dir);
    if (err)
        io_discard(dir, temp, fd);
    else
        close(fd);
    return err == EEXIST ? TAMIS_ERR_EXISTS : err;
}

static int write_at_path(struct derived *d, const char *path, struct tamis_diag *diag)
{
    const char *name;
    if (!path)
        return diag_fail(diag, TAMIS_ERR_RANGE, NULL, "no path for the result");
    int dir, err = io_open_parent(path, &dir, &name);
    if (err)
        return diag_errno(diag, err, path,
                          err == EISDIR || err == ENAMETOOLONG
                              ? "not a name for a file"
                              : "cannot open its directory");
    if (faccessat(dir, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        err = TAMIS_ERR_EXISTS; /* sooner than after all the work */
    else
        err = write_in(d, dir, name, true);
    close(dir);
    return err;
}

int derived_write(struct derived *d, const struct derive_to *to,
                  struct tamis_diag *diag)
{
    const char *path = to->name ? to->name : to->path;
    int err = to->name ? write_in(d, to->dir, to->name, false)
                       : write_at_path(d, to->path, diag);
    if (!err || (diag && diag->code))
        return err;
    if (err == TAMIS_ERR_EXISTS)
        return diag_fail(diag, err, path, "exists already");
    if (err == TAMIS_ERR_UNFIT)
        return diag_fail(diag, err, NULL,
                         "its error would be %.3g, for some of its blocks are fuller "
                         "than keys make them: build it anew from its keys",
                         derived_error(&d->commit));
    if (err < 0)
        return diag_fail(diag, err, path, "%s", tamis_strerror(err));
    return diag_errno(diag, err, path, "cannot write");
}
