/* A sealed stage, page by page, and the digest tree as its pages fill. */
#include "lib/page/stage_writer.h"
#include "format/integrity.h"
#include "lib/io/io.h"

#include <stdlib.h>

/* Pieces end at multiples of PIECE_BYTES in the file. So each piece is a folio of the
 * page cache that one entry of the page table maps: it must be that large. */
enum { PIECE_BYTES = 2 << 20 };

struct stage_writer {
    int fd;
    struct stage_desc stage;
    uint64_t n_pages, page; /* n_pages in all; `page` pages are in */
    uint64_t root;
    struct digest_tree tree;
    uint64_t n[MAX_DIGEST_LEVELS + 1]; /* digests of each level so far */
    uint8_t digests[MAX_DIGEST_LEVELS + 1][PAGE_BYTES];
    size_t in_piece;
    uint8_t piece[]; /* or the whole stage, if that is shorter */
};

int stage_writer_new(int fd, const struct stage_desc *s, struct stage_writer **out)
{
    size_t room = s->length < PIECE_BYTES ? (size_t)s->length : PIECE_BYTES;
    struct stage_writer *w = *out = malloc(sizeof *w + room);
    if (!w)
        return ENOMEM;
    memset(w, 0, sizeof *w);
    w->fd = fd;
    w->stage = *s;
    w->n_pages = s->length / PAGE_BYTES;
    digest_tree_of(w->n_pages, &w->tree);
    return 0;
}

/* The next digest of a page of the level below. */
static int put_digest(struct stage_writer *w, uint32_t level, uint64_t digest)
{
    if (level == w->tree.n_levels) {
        w->root = digest;
        return 0;
    }
    uint8_t *page = w->digests[level];
    uint64_t i = w->n[level]++, in_page = i % DIGESTS_PER_PAGE;
    digest_put(page, in_page, digest);
    if (in_page + 1 < DIGESTS_PER_PAGE && i + 1 < w->tree.n_pages[level - 1])
        return 0;
    memset(page + (in_page + 1) * DIGEST_BYTES, 0,
           PAGE_BYTES - (in_page + 1) * DIGEST_BYTES);
    int err = io_write(w->fd, page, PAGE_BYTES,
                       w->stage.digests_offset + w->tree.offset[level] +
                           i / DIGESTS_PER_PAGE * PAGE_BYTES);
    return err ? err : put_digest(w, level + 1, page_digest(page));
}

uint8_t *stage_writer_room(struct stage_writer *w)
{
    return w->piece + w->in_piece;
}

int stage_writer_put(struct stage_writer *w)
{
    if (w->page == w->n_pages) /* the room of the next one is not there */
        return EFBIG;
    int err = put_digest(w, 1, page_digest(stage_writer_room(w)));
    w->in_piece += PAGE_BYTES;
    w->page++;
    uint64_t end = w->stage.offset + w->page * PAGE_BYTES;
    if (!err && (end % PIECE_BYTES == 0 || w->page == w->n_pages)) {
        uint64_t at = end - w->in_piece;
        err = io_write(w->fd, w->piece, w->in_piece, at);
        if (!err)
            io_start_writing(w->fd, at, w->in_piece);
        w->in_piece = 0;
    }
    return err;
}

uint64_t stage_writer_end(struct stage_writer *w)
{
    uint64_t root = w->root;
    free(w);
    return root;
}
