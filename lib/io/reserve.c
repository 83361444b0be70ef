/* Space for the pages that a writer is going to map (R15). A file that a writer made
 * has it, but a copy may not: programs leave out zeros, or share blocks with the
 * original. Then a store into the mapping may find no space. Before the mapping a lack
 * of space is an error; afterwards it is SIGBUS. */
#include "lib/io/io.h"

#include <linux/falloc.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <sys/ioctl.h>

enum { N_EXTENTS = 64 };

union extents {
    struct fiemap head; /* and behind it: */
    uint8_t bytes[sizeof(struct fiemap) + N_EXTENTS * sizeof(struct fiemap_extent)];
};

/* Does the extent hold the byte at `*at`, and alone? Then *at is behind it. */
static bool goes_on(const struct fiemap_extent *e, uint64_t *at)
{
    if (e->fe_flags & FIEMAP_EXTENT_SHARED)
        return false;
    if (e->fe_logical > *at || e->fe_length <= *at - e->fe_logical)
        return false;
    *at = e->fe_logical + e->fe_length;
    return true;
}

/* Is all of [at, end) known to have blocks of its own? Where it is, nothing is asked
 * for: some file systems want as much free space as the range is long before they look
 * whether they need it, and a filter must open on a full disk too. */
static bool has_space(int fd, uint64_t at, uint64_t end)
{
    while (at < end) {
        union extents x;
        memset(&x, 0, sizeof x);
        x.head.fm_start = at;
        x.head.fm_length = end - at;
        x.head.fm_extent_count = N_EXTENTS;
        if (ioctl(fd, FS_IOC_FIEMAP, &x.head) != 0 || x.head.fm_mapped_extents == 0)
            return false;
        for (uint32_t i = 0; i < x.head.fm_mapped_extents && at < end; i++)
            if (!goes_on(&x.head.fm_extents[i], &at))
                return false;
    }
    return true;
}

int io_reserve(int fd, uint64_t offset, uint64_t n)
{
    if (has_space(fd, offset, offset + n))
        return 0;
    int err = io_fallocate(fd, FALLOC_FL_UNSHARE_RANGE, offset, n);
    if (err == EOPNOTSUPP)
        err = io_fallocate(fd, 0, offset, n);
    return err == EOPNOTSUPP ? 0 : err;
}
