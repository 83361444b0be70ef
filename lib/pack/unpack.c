/* A column as a filter of its own again: its blocks, gathered from the rows, in a file
 * of kind 1. */
#include "lib/pack/pack.h"
#include "lib/filter/view.h"
#include "lib/page/stage_writer.h"

#include <sys/mman.h>

/* ---- checked copies of pages ---- */

enum { WINDOW_PAGES = 1024 }; /* the widest block has 512 */

struct pack_window {
    const struct stage *of[WINDOW_PAGES];
    uint64_t page[WINDOW_PAGES];
    uint8_t bytes[WINDOW_PAGES][PAGE_BYTES];
};

struct pack_window *pack_window_new(void)
{
    return calloc(1, sizeof(struct pack_window));
}

void pack_window_free(struct pack_window *w)
{
    free(w);
}

/* The page; NULL if it fails its check. */
static const uint8_t *window_page(struct pack_window *w, struct stage *s, uint64_t page)
{
    size_t at = page % WINDOW_PAGES;
    if (w->of[at] == s && w->page[at] == page)
        return w->bytes[at];
    w->of[at] = NULL;
    stage_read_ahead(s, page);
    if (!stage_copy_page(s, page, w->bytes[at]))
        return NULL;
    w->of[at] = s;
    w->page[at] = page;
    return w->bytes[at];
}

/* ---- a column's blocks ---- */

/* Block `block` of the band, as the column has it. */
static int gather_block(struct pack_window *w, struct stage *rows,
                        const struct band *band, uint32_t column, uint32_t lane,
                        uint64_t block, uint8_t out[BLOCK_BYTES])
{
    uint64_t at = band_row(band, lane, block, 0) + column / 8, page = UINT64_MAX;
    const uint8_t *bytes = NULL;
    memset(out, 0, BLOCK_BYTES);
    for (uint32_t i = 0; i < BLOCK_BITS; i++, at += band->row_bytes) {
        if (at / PAGE_BYTES != page) {
            page = at / PAGE_BYTES;
            bytes = window_page(w, rows, page);
            if (!bytes)
                return TAMIS_ERR_DAMAGED;
        }
        out[i / 8] |= (uint8_t)((bytes[at % PAGE_BYTES] >> column % 8 & 1) << i % 8);
    }
    return 0;
}

int pack_gather(struct pack_window *w, struct tamis_filter *pack,
                const struct band *band, uint32_t column, uint64_t own_blocks,
                uint32_t lane, uint64_t first, uint64_t n, uint8_t *out)
{
    struct view *v = view_of(pack);
    uint64_t in_band = band->geometry.n_blocks / own_blocks;
    int err = 0;
    for (uint64_t i = 0; i < n && !err; i++)
        err = gather_block(w, &v->stages[PACK_ROWS], band, column, lane,
                           (first + i) * in_band, out + i * BLOCK_BYTES);
    return err;
}

bool pack_column_is_bad(struct tamis_filter *pack, const struct band *band,
                        uint32_t column, uint64_t own_blocks)
{
    struct view *v = view_of(pack);
    struct stage *rows = &v->stages[PACK_ROWS];
    uint64_t in_band = band->geometry.n_blocks / own_blocks;
    for (uint64_t i = 0; i < own_blocks * band->geometry.lanes; i++) {
        uint32_t lane = (uint32_t)(i / own_blocks);
        uint64_t at = band_row(band, lane, i % own_blocks * in_band, 0) + column / 8;
        uint64_t last = at + (uint64_t)(BLOCK_BITS - 1) * band->row_bytes;
        /* No row is longer than a page, so each page has a byte of the column. */
        for (uint64_t page = at / PAGE_BYTES; page <= last / PAGE_BYTES; page++)
            if (stage_is_bad(rows, page))
                return true;
    }
    return false;
}

/* ---- a filter of its own ---- */

struct gathering {
    struct pack_window *window;
    struct tamis_filter *pack;
    const struct band *band;
    uint32_t column;
    struct geometry geometry; /* of the column, and of the file */
};

static int write_pages(const struct gathering *g, struct stage_desc *s,
                       struct stage_writer *w)
{
    const uint64_t own = g->geometry.n_blocks, all = own * g->geometry.lanes;
    int err = 0;
    for (uint64_t page = 0; page < s->length / PAGE_BYTES && !err; page++) {
        uint8_t *out = stage_writer_room(w);
        memset(out, 0, PAGE_BYTES);
        for (uint64_t i = 0; i < BLOCKS_PER_PAGE && !err; i++) {
            uint64_t b = page * BLOCKS_PER_PAGE + i;
            if (b < all)
                err =
                    pack_gather(g->window, g->pack, g->band, g->column, own,
                                (uint32_t)(b / own), b % own, 1, out + i * BLOCK_BYTES);
        }
        s->bits_set += page_bits(kernel_get(), out);
        if (!err)
            err = stage_writer_put(w);
    }
    return err;
}

static int unpacked_write_all(const struct gathering *g, int fd,
                              const struct identity *id, struct commit *c)
{
    struct stage_desc *s = &c->stages[0];
    struct stage_writer *w;
    int err = stage_writer_new(fd, s, &w);
    if (err)
        return err;
    err = write_pages(g, s, w);
    s->root = stage_writer_end(w);
    return err ? err : header_write(fd, id, c);
}

uint64_t pack_unpacked_bytes(const struct band *band, uint64_t own_blocks)
{
    struct geometry g = band->geometry;
    uint64_t n_bytes = 0;
    g.n_blocks = own_blocks;
    if (!geometry_valid(&g) || !geometry_stage_bytes(&g, &n_bytes))
        return 0;
    return PAGE_BYTES + n_bytes + digests_bytes(n_bytes / PAGE_BYTES);
}

static void unpacked_describe(const struct gathering *g, const struct facts *col,
                              struct identity *id, struct commit *c)
{
    struct stage_desc *s = &c->stages[0];
    struct piece name = column_name(col), binding = column_binding(col);
    const struct tamis_identity who = {name.at, name.n, binding.at, binding.n, NULL};
    double error = le64_get_f64(col->disk.target_error);
    id->target_error = error < ERROR_MIN   ? ERROR_MIN
                       : error > ERROR_MAX ? ERROR_MAX
                                           : error;
    memcpy(id->set_id, col->disk.set_id, UUID_BYTES);
    identity_write(&who, id, c);
    c->keys = le64_get(col->disk.keys);
    c->watermark = le64_get(col->disk.watermark);
    c->n_stages = 1;
    s->layout = LAYOUT_SPLIT_BLOCKS;
    s->geometry = g->geometry;
    s->capacity = s->keys = c->keys;
    s->target_error = id->target_error;
    geometry_stage_bytes(&s->geometry, &s->length); /* less than its rows */
    c->committed_bytes = stage_place(s, PAGE_BYTES);
}

static int unpack_into(struct tamis_filter *pack, const struct band *band,
                       uint32_t column, const struct facts *col, struct identity *id,
                       struct commit *c, int fd)
{
    struct gathering g = {NULL, pack, band, column, band->geometry};
    g.geometry.n_blocks = le64_get(col->disk.own_blocks);
    g.window = pack_window_new();
    if (!g.window)
        return ENOMEM;
    unpacked_describe(&g, col, id, c);
    int err = unpacked_write_all(&g, fd, id, c);
    pack_window_free(g.window);
    return err;
}

int pack_unpack(struct tamis_filter *pack, const struct band *band, uint32_t column,
                const struct facts *col, struct identity *id, struct commit *c, int dir,
                const char *name)
{
    char temp[IO_TEMP_NAME_BYTES];
    int fd, err = io_create_temp(dir, name, temp, &fd);
    if (err)
        return err;
    err = io_refuse_network(fd);
    if (!err)
        err = unpack_into(pack, band, column, col, id, c, fd);
    return io_finish(err, dir, temp, name, fd, false);
}

int pack_unpack_memory(struct tamis_filter *pack, const struct band *band,
                       uint32_t column, const struct facts *col,
                       const struct tamis_domain *domain, struct tamis_filter **out,
                       struct tamis_diag *diag)
{
    struct commit c;
    struct identity id;
    struct tamis_filter_options opt = {.size = sizeof opt, .domain = domain};
    const char *path = filter_path(pack);
    int fd = memfd_create("tamis column", MFD_CLOEXEC);
    header_begin(KIND_BLOOM, domain, NULL, col->disk.uuid, &id, &c);
    id.created = le64_get(col->disk.created);
    int rc = fd < 0 ? errno : unpack_into(pack, band, column, col, &id, &c, fd);
    if (rc == TAMIS_ERR_DAMAGED)
        diag_fail(diag, rc, path, "a page of the column fails its check");
    else if (rc)
        diag_errno(diag, rc, path, "unpacking a column");
    else
        rc = filter_open_fd(fd, path, &opt, NULL, out, diag);
    if (fd >= 0)
        close(fd);
    return rc;
}
