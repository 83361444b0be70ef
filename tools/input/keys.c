/* Lists of keys, as people and programs write them: one per line, NUL-terminated, in
 * hex, or with lengths. Read in large pieces; keys are handed out in place. */
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "../talk/screen.h"
#include "../talk/talk.h"
#include "keys.h"

enum { BUFFER_BYTES = 1 << 18 };

struct key_reader {
    int fd;
    const char *path; /* for messages */
    enum key_format format;
    const char *advice; /* for lines that are too long; or NULL */
    uint8_t *buffer;
    size_t start, end, capacity;
    bool at_end;
    uint64_t offset; /* in the file, of buffer[0] */
    uint64_t n;      /* keys so far */
    bool is_held;    /* keys_any() has read the first key, not handed out yet */
    const void *held;
    size_t held_bytes;
    uint64_t size;
    int status;
    const volatile sig_atomic_t *stop; /* may be NULL */
};

/* As open(), but it never waits for the writer of a FIFO, which a handler may let
 * open() begin again. poll() waits then: on Linux a FIFO has no end before its first
 * writer. */
static int open_at_once(const char *path)
{
    struct stat st;
    bool is_fifo = stat(path, &st) == 0 && S_ISFIFO(st.st_mode);
    int fd = open(path, O_RDONLY | O_CLOEXEC | (is_fifo ? O_NONBLOCK : 0));
    if (fd >= 0 && is_fifo)
        fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
    return fd;
}

static int list_open(const char *path, enum key_format format, const char *what,
                     const char *name, struct key_reader **out)
{
    bool is_stdin = strcmp(path, "-") == 0;
    int fd = is_stdin ? STDIN_FILENO : open_at_once(path);
    struct key_reader *reader;
    struct stat st;
    char text[64];
    *out = NULL;
    if (path[0] == '\0')
        return complain(EXIT_USAGE,
                        "the path of the key list is empty: name a file, or "
                        "'-' for standard input");
    if (is_stdin)
        path = "standard input";
    snprintf(text, sizeof(text), "cannot %s the %s", fd < 0 ? "open" : "read", what);
    if (fd < 0)
        return complain_errno(errno, path, text);
    /* main() leaves a write-only descriptor where stdin was closed. */
    if (is_stdin && (fcntl(fd, F_GETFL) & O_ACCMODE) == O_WRONLY)
        return complain(EXIT_IO, "standard input: it is closed: name a %s", name);
    if (fstat(fd, &st) != 0 || S_ISDIR(st.st_mode)) {
        int code = S_ISDIR(st.st_mode) ? EISDIR : errno;
        if (!is_stdin)
            close(fd);
        return complain_errno(code, path, text);
    }
    reader = memory_or_exit(calloc(1, sizeof(*reader)));
    reader->fd = fd;
    reader->path = path;
    reader->format = format;
    reader->capacity = BUFFER_BYTES;
    reader->buffer = memory_or_exit(malloc(reader->capacity));
    reader->size = S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
    *out = reader;
    return EXIT_DONE;
}

int keys_open(const char *path, enum key_format format,
              const volatile sig_atomic_t *stop, struct key_reader **out)
{
    int status = list_open(path, format, "key list", "KEYFILE", out);
    if (status == EXIT_DONE)
        (*out)->stop = stop;
    return status;
}

int lines_open(const char *path, const char *what, struct key_reader **out)
{
    int status = list_open(path, KEYS_LINES, what, "file", out);
    if (status == EXIT_DONE)
        (*out)->advice = "name a list of lines";
    return status;
}

void keys_close(struct key_reader *reader)
{
    if (reader == NULL)
        return;
    if (reader->fd != STDIN_FILENO)
        close(reader->fd);
    free(reader->buffer);
    free(reader);
}

int keys_status(const struct key_reader *reader)
{
    return reader->status;
}

uint64_t keys_position(const struct key_reader *reader)
{
    return reader->offset + reader->start;
}

uint64_t keys_size(const struct key_reader *reader)
{
    return reader->size;
}

static bool is_stopped(const struct key_reader *r)
{
    return r->stop != NULL && *r->stop != 0;
}

/* Waits for input. A handler may let read() begin again, but never poll(). The signal
 * may come to another thread, so it looks now and then. False: stopped, or failed. */
static bool wait_input(const struct key_reader *r)
{
    enum { LOOK_MS = 100 };
    struct pollfd wait = {.fd = r->fd, .events = POLLIN};
    int ready = 0;
    while (ready == 0 && !is_stopped(r))
        ready = poll(&wait, 1, r->stop ? LOOK_MS : -1);
    return ready > 0;
}

/* Reads more, after moving the unread rest to the front. If it fills the buffer, a long
 * record is arriving: the buffer grows, no faster than bytes come. */
static int fill(struct key_reader *r)
{
    ssize_t got;
    memmove(r->buffer, r->buffer + r->start, r->end - r->start);
    r->offset += r->start;
    r->end -= r->start;
    r->start = 0;
    if (r->end == r->capacity) {
        r->capacity *= 2;
        r->buffer = memory_or_exit(realloc(r->buffer, r->capacity));
    }
    do
        got =
            wait_input(r) ? read(r->fd, r->buffer + r->end, r->capacity - r->end) : -1;
    while (got < 0 && !is_stopped(r) && errno == EINTR);
    if (got < 0 && is_stopped(r)) {
        r->status = EXIT_IO;
        return -1;
    }
    if (got < 0) {
        r->status = complain_errno(errno, r->path, "reading failed");
        return -1;
    }
    r->at_end = got == 0;
    r->end += (size_t)got;
    return 0;
}

static int bad_key(struct key_reader *r, const char *what, const char *advice)
{
    r->status =
        complain(EXIT_USAGE, "%s: %s %llu: %s (offset %llu): %s", r->path,
                 r->format == KEYS_LINES || r->format == KEYS_HEX ? "line" : "key",
                 LLU(r->n) + 1, what, LLU(keys_position(r)), advice);
    return -1;
}

static int take(struct key_reader *r, size_t skip, size_t n, size_t after,
                const void **key, size_t *n_bytes)
{
    *key = r->buffer + r->start + skip;
    *n_bytes = n;
    r->start += skip + n + after;
    r->n++;
    return 1;
}

static int next_binary(struct key_reader *r, const void **key, size_t *n_bytes)
{
    const uint8_t *s = r->buffer + r->start;
    size_t left = r->end - r->start, n;
    if (left == 0)
        return 0;
    if (left >= 4) {
        n = (size_t)s[0] | (size_t)s[1] << 8 | (size_t)s[2] << 16 | (size_t)s[3] << 24;
        if (left - 4 >= n)
            return take(r, 4, n, 0, key, n_bytes);
    }
    if (!r->at_end)
        return 0;
    return bad_key(r, "the list ends within it",
                   "--binary wants a 4-byte little-endian length before each key");
}

/* Takes a key from the buffer: 1; 0 if more must be read, or at the end; -1: failed. */
static int next_buffered(struct key_reader *r, const void **key, size_t *n_bytes)
{
    size_t limit = r->format == KEYS_HEX ? 2 * LINE_MAX_BYTES : LINE_MAX_BYTES;
    size_t left = r->end - r->start, n;
    const uint8_t *s = r->buffer + r->start, *stop;
    if (r->format == KEYS_BINARY)
        return next_binary(r, key, n_bytes);
    stop = left == 0 ? NULL : memchr(s, r->format == KEYS_NUL ? '\0' : '\n', left);
    n = stop ? (size_t)(stop - s) : left;
    if (n > limit)
        return bad_key(r, "longer than 65536 bytes",
                       r->advice ? r->advice : "long keys need --binary");
    if (stop == NULL && (!r->at_end || left == 0))
        return 0;
    if (r->format != KEYS_HEX)
        return take(r, 0, n, stop != NULL, key, n_bytes);
    long bytes = parse_hex((const char *)s, n, r->buffer + r->start, limit);
    if (bytes < 0)
        return bad_key(r, "not an even number of hex digits",
                       "leave out --hex if keys are plain text");
    take(r, 0, n, stop != NULL, key, n_bytes);
    *n_bytes = (size_t)bytes;
    return 1;
}

int keys_next(struct key_reader *reader, const void **key, size_t *n_bytes)
{
    int got;
    if (reader->is_held) {
        reader->is_held = false;
        reader->n++;
        *key = reader->held;
        *n_bytes = reader->held_bytes;
        return 1;
    }
    while ((got = next_buffered(reader, key, n_bytes)) == 0) {
        if (reader->at_end)
            return 0;
        if (fill(reader) != 0)
            return -1;
    }
    return got;
}

int keys_any(struct key_reader *reader)
{
    if (reader->is_held)
        return 1;
    int got = keys_next(reader, &reader->held, &reader->held_bytes);
    reader->is_held = got > 0;
    reader->n -= reader->is_held;
    return got;
}

uint64_t keys_count(const struct key_reader *reader)
{
    return reader->n;
}

int check_empty(const struct key_reader *reader, bool empty, const char *why)
{
    if (reader->n > 0 || empty)
        return EXIT_DONE;
    return complain(EXIT_USAGE,
                    "%s: no key is in this list: %s: give --empty if there are none",
                    reader->path, why);
}

/* ---- many at a time ---- */

/* Bit i is set if byte i of these 64 ends a key. Keys are short, so this is far faster
 * than a search for each end. */
static uint64_t ends_of(const uint8_t *bytes, uint8_t stop)
{
    uint64_t ends = 0;
#ifdef __SSE2__
    const __m128i wanted = _mm_set1_epi8((char)stop);
    for (int i = 3; i >= 0; i--) {
        __m128i part = _mm_loadu_si128((const __m128i *)(const void *)bytes + i);
        ends = ends << 16 | (uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(part, wanted));
    }
#else
    for (int i = 63; i >= 0; i--)
        ends = ends << 1 | (bytes[i] == stop);
#endif
    return ends;
}

/* Takes whole lines of the buffer, up to `max`. It stops at anything odd, which
 * next_buffered() handles. */
static size_t split(struct key_reader *r, uint8_t stop, struct tamis_key *keys,
                    size_t max)
{
    const uint8_t *base = r->buffer;
    size_t at = r->start, start = at, n = 0;
    for (; r->end - at >= 64; at += 64) {
        for (uint64_t ends = ends_of(base + at, stop); ends; ends &= ends - 1) {
            size_t end = at + (size_t)__builtin_ctzll(ends);
            if (n == max || end - start > LINE_MAX_BYTES)
                goto out;
            keys[n++] =
                (struct tamis_key){.bytes = base + start, .n_bytes = end - start};
            start = end + 1;
        }
    }
out:
    r->start = start;
    r->n += n;
    return n;
}

/* As keys_next(), but up to `max` keys, valid until the next call. If a bad key
 * follows them, the next call returns -1. */
static int keys_in_place(struct key_reader *r, struct tamis_key *keys, size_t max,
                         size_t *n)
{
    const void *key;
    size_t bytes;
    int got = 1;
    *n = 0;
    if (r->status != EXIT_DONE)
        return -1;
    if (r->format == KEYS_LINES || r->format == KEYS_NUL)
        *n = split(r, r->format == KEYS_NUL ? '\0' : '\n', keys, max);
    while (got > 0 && *n < max) {
        /* Only a batch's first key may be read, because reading moves the buffer. */
        got = *n == 0 ? keys_next(r, &key, &bytes) : next_buffered(r, &key, &bytes);
        if (got > 0)
            keys[(*n)++] = (struct tamis_key){.bytes = key, .n_bytes = bytes};
    }
    return *n > 0 ? 1 : got;
}

int keys_batch(struct key_reader *reader, const struct tamis_domain *domain,
               struct key_batch *batch)
{
    int got = keys_in_place(reader, batch->keys, BATCH_KEYS, &batch->n);
    for (size_t i = 0; i < batch->n; i++) {
        struct tamis_key *key = &batch->keys[i];
        *key = tamis_key_of(domain, key->bytes, key->n_bytes);
        batch->hashes[i] = key->hash;
    }
    return got;
}

int keys_into(struct tamis_builder *builder, struct key_reader *keys, uint64_t most,
              const char *file)
{
    struct tamis_key some[BATCH_KEYS];
    uint64_t position = keys_position(keys);
    size_t n;
    int got = 0, err;
    while (keys_count(keys) <= most &&
           (got = keys_in_place(keys, some, BATCH_KEYS, &n)) > 0) {
        err = tamis_builder_add_keys(builder, some, n);
        if (err != 0)
            return complain_add(err, file);
        progress_advance(n, keys_position(keys) - position);
        position = keys_position(keys);
    }
    return got < 0 ? keys_status(keys) : EXIT_DONE;
}
