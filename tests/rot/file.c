/* A file in memory that is damaged, looked at, and made as it was again. */
#include "tests/rot/rot.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ROOM = 1 << 20 }; /* for what writers append */

void file_open(struct file *f, const struct kind *k)
{
    memset(f, 0, sizeof *f);
    f->kind = k;
    f->fd = memfd_create("rot", MFD_CLOEXEC);
    f->is.bytes = malloc(k->now.n + ROOM);
    CHECK(f->fd >= 0 && f->is.bytes);
    snprintf(f->path, sizeof f->path, "/proc/self/fd/%d", f->fd);
    f->high = k->now.n;
    file_mend(f);
}

void file_close(struct file *f)
{
    close(f->fd);
    free(f->is.bytes);
}

static void differs(struct file *f, size_t from, size_t to)
{
    if (f->low >= f->high) {
        f->low = from;
        f->high = to;
    }
    f->low = from < f->low ? from : f->low;
    f->high = to > f->high ? to : f->high;
}

void file_mend(struct file *f)
{
    const struct image *now = &f->kind->now;
    size_t high = f->high < now->n ? f->high : now->n;
    if (f->is.n != now->n)
        CHECK(ftruncate(f->fd, (off_t)now->n) == 0);
    if (f->low < high) {
        CHECK(pwrite(f->fd, now->bytes + f->low, high - f->low, (off_t)f->low) ==
              (ssize_t)(high - f->low));
        memcpy(f->is.bytes + f->low, now->bytes + f->low, high - f->low);
    }
    f->is.n = now->n;
    f->low = f->high = 0;
}

void file_reread(struct file *f)
{
    struct stat st;
    CHECK(fstat(f->fd, &st) == 0 && (size_t)st.st_size <= f->kind->now.n + ROOM);
    f->is.n = (size_t)st.st_size;
    CHECK(pread(f->fd, f->is.bytes, f->is.n, 0) == (ssize_t)f->is.n);
    f->low = 0;
    f->high = f->kind->now.n;
}

static void put(struct file *f, uint64_t at, const uint8_t *bytes, uint64_t n)
{
    if (at >= f->is.n)
        return; /* was cut off */
    size_t some = n < f->is.n - at ? (size_t)n : f->is.n - (size_t)at;
    memmove(f->is.bytes + at, bytes, some);
    CHECK(pwrite(f->fd, f->is.bytes + at, some, (off_t)at) == (ssize_t)some);
    differs(f, (size_t)at, (size_t)at + some);
}

static void put_noise(struct file *f, const struct damage *d)
{
    uint8_t noise[SECTOR_BYTES];
    uint64_t saved = random_state;
    random_state = d->at << 8 | d->value;
    for (size_t i = 0; i < sizeof noise; i++)
        noise[i] = (uint8_t)(random_u64() >> 24);
    random_state = saved;
    put(f, d->at, noise, d->n);
}

static void cut(struct file *f, size_t n)
{
    if (n >= f->is.n)
        return;
    CHECK(ftruncate(f->fd, (off_t)n) == 0);
    differs(f, n, f->kind->now.n);
    f->is.n = n;
}

static void replace(struct file *f, const struct image *by)
{
    CHECK(by->n <= f->kind->now.n + ROOM);
    /* Not cut short on the way: readers that look on have it mapped. */
    memcpy(f->is.bytes, by->bytes, by->n);
    CHECK(pwrite(f->fd, by->bytes, by->n, 0) == (ssize_t)by->n);
    CHECK(ftruncate(f->fd, (off_t)by->n) == 0);
    f->is.n = by->n;
    differs(f, 0, f->kind->now.n);
}

void damage_do(struct file *f, const struct damage *d)
{
    uint8_t bytes[SLOT_BYTES];
    switch (d->what) {
    case FLIP:
        if (d->at < f->is.n)
            bytes[0] = (uint8_t)(f->is.bytes[d->at] ^ 1 << d->value),
            put(f, d->at, bytes, 1);
        break;
    case FILL:
        CHECK(d->n <= sizeof bytes);
        memset(bytes, d->value, (size_t)d->n);
        put(f, d->at, bytes, d->n);
        break;
    case NOISE:
        CHECK(d->n <= SECTOR_BYTES);
        put_noise(f, d);
        break;
    case COPY:
        if (d->from_at < d->from->n)
            put(f, d->at, d->from->bytes + d->from_at,
                d->n < d->from->n - d->from_at ? d->n : d->from->n - d->from_at);
        break;
    case CUT:
        cut(f, (size_t)d->n);
        break;
    case REPLACE:
        replace(f, d->from);
        break;
    }
}

void damage_say(char *text, size_t n, const struct damage *d)
{
    static const char *const names[] = {"flipped", "filled",    "noise",
                                        "copied",  "cut short", "replaced"};
    snprintf(text, n, "%s at %llu, %llu bytes, value %u, from %llu of image %p",
             names[d->what], (unsigned long long)d->at, (unsigned long long)d->n,
             d->value, (unsigned long long)d->from_at, (const void *)d->from);
}
