/* A page of an open stage that failed its check: condemned and made all ones before its
 * writer sets another bit in it (R8), for readers that look before the next commit. */
#include "lib/sync_point.h"
#include "lib/writer/inside.h"

#include <errno.h>

static uint64_t *first_clear(const struct writer_stage *s, uint64_t page, uint64_t *end)
{
    uint64_t *word = (uint64_t *)(void *)(s->stage.bits + page * PAGE_BYTES);
    size_t i = 0, n = PAGE_BYTES / sizeof *word;
    while (i < n && __atomic_load_n(&word[i], __ATOMIC_RELAXED) == UINT64_MAX)
        i++;
    *end = n - i;
    return word + i;
}

/* Durable before the first one: a page that the power cut leaves half filled may have
 * as many bits as it had, and only its floors then say that it lost some. And a reader
 * that looks meanwhile finds them condemned when it looks again. */
bool writer_fill_page(struct tamis_writer *w, struct writer_stage *s, uint64_t page)
{
    uint64_t left, *word = first_clear(s, page, &left);
    stage_condemn(s, page);
    if (!left)
        return true;
    uint64_t sector = page / PAGES_PER_FLOOR_SECTOR;
    int err = writer_write_floors(w, s, sector, sector + 1);
    if (!err)
        err = writer_sync(w);
    if (err) {
        writer_poison(w, err, "condemning a page", NULL);
        return false;
    }
    atomic_thread_fence(memory_order_release);
    for (; left; left--, word++) {
        __atomic_store_n(word, UINT64_MAX, __ATOMIC_RELAXED);
        SYNC_POINT("fill: one word");
    }
    return true;
}
