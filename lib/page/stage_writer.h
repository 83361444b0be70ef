/* Writes a sealed stage whose pages come one after the other, in memory that does not
 * grow with it: the bits in large pieces, and of the digests one page a level.
 *
 *     stage_writer_new(), stage_writer_put() for each page, stage_writer_end()
 *
 * Warning: the header is not written here. It goes last, once all stages are. */
#ifndef TAMIS_PAGE_STAGE_WRITER_H
#define TAMIS_PAGE_STAGE_WRITER_H

#include "format/commit.h"

struct stage_writer;

/* For a stage of this offset, length and digests_offset in `fd`; ENOMEM. */
int stage_writer_new(int fd, const struct stage_desc *s, struct stage_writer **out);
/* The room for the next page, 4096 bytes. The caller fills it, and calls
 * stage_writer_put(). After a page that failed there is no room. */
uint8_t *stage_writer_room(struct stage_writer *w);
/* Takes the page that is in the room; an errno. EFBIG: the stage has no such page. */
int stage_writer_put(struct stage_writer *w);
/* The root, once all pages are in. Frees the writer; NULL is none. */
uint64_t stage_writer_end(struct stage_writer *w);

#endif
