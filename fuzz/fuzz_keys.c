/* The readers of key lists, against a slow second reading of the four formats: the
 * same keys, the same end, an error for an error. read() is wrapped (rules.mk), and
 * gives as few bytes at a time as the input says, so that records meet the ends of
 * buffers.
 *
 * Input: the format and the bytes of a read, how runs are stretched, the list. */
#include "tools/input/keys.h"
#include "tools/talk/talk.h"

#include "fuzz/fuzz.h"

enum { MAX_LIST = 1 << 19, LINE_MAX = 65536 };

/* ---- the second reading ---- */

struct list {
    const uint8_t *bytes;
    size_t n, at;
};

static int hex_value(uint8_t c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Decodes one key of n hex digits. Returns its bytes, or -1. */
static long decode_hex(const uint8_t *digits, size_t n, uint8_t *out)
{
    for (size_t i = 0; i < n; i++)
        if (hex_value(digits[i]) < 0)
            return -1;
    if (n % 2)
        return -1;
    for (size_t i = 0; i < n; i += 2)
        out[i / 2] = (uint8_t)(hex_value(digits[i]) * 16 + hex_value(digits[i + 1]));
    return (long)(n / 2);
}

/* The next key by the words of `tamis help`: 1, 0 at the end, -1 for a bad list. */
static int next_slowly(struct list *l, enum key_format format, uint8_t *key, size_t *n)
{
    static const size_t limit[] = {LINE_MAX, LINE_MAX, 2 * LINE_MAX};
    size_t left = l->n - l->at, length = 0;
    if (left == 0)
        return 0;
    const uint8_t *p = l->bytes + l->at;
    if (format == KEYS_BINARY) {
        if (left < 4)
            return -1;
        *n = p[0] + 256u * p[1] + 65536u * p[2] + 16777216u * (size_t)p[3];
        if (*n > left - 4)
            return -1;
        memcpy(key, p + 4, *n);
        l->at += 4 + *n;
        return 1;
    }
    uint8_t stop = format == KEYS_NUL ? 0 : '\n';
    while (length < left && p[length] != stop)
        length++;
    if (length > limit[format == KEYS_HEX ? 2 : 0])
        return -1;
    l->at += length + (length < left);
    *n = length;
    if (format != KEYS_HEX) {
        memcpy(key, p, length);
        return 1;
    }
    long bytes = decode_hex(p, length, key);
    *n = bytes < 0 ? 0 : (size_t)bytes;
    return bytes < 0 ? -1 : 1;
}

/* ---- the list ---- */

static size_t most_of_a_read;

ssize_t __real_read(int fd, void *to, size_t n);
ssize_t __wrap_read(int fd, void *to, size_t n);
ssize_t __wrap_read(int fd, void *to, size_t n)
{
    return __real_read(fd, to,
                       most_of_a_read && n > most_of_a_read ? most_of_a_read : n);
}

/* Each 0xFE byte stands for a run of the byte before it, up to some 70,000 long, so
 * that short inputs make lists beyond every limit and buffer. */
static size_t stretch(const uint8_t *data, size_t n, size_t unit, uint8_t *out)
{
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        size_t times = data[i] == 0xFE && i ? unit : 1;
        uint8_t byte = data[i] == 0xFE && i ? data[i - 1] : data[i];
        if (times > MAX_LIST - at)
            break;
        memset(out + at, byte, times);
        at += times;
    }
    return at;
}

static const char *write_list(const uint8_t *bytes, size_t n)
{
    return memory_file(bytes, n) >= 0 ? memory_path() : NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const enum key_format formats[] = {KEYS_LINES, KEYS_NUL, KEYS_HEX,
                                              KEYS_BINARY};
    static const size_t units[] = {1,     131071, 32767, 65535,
                                   65536, 65537,  70000, 131072};
    static const size_t reads[] = {0, 1, 2, 5, 4096, 65536, 65537, 100000};
    static uint8_t bytes[MAX_LIST], want[MAX_LIST];
    static bool quiet;
    if (!quiet) {
        /* complain() prints once a run, which is once for ever here. */
        quiet = true;
        int null = open("/dev/null", O_WRONLY | O_CLOEXEC), err = dup(2);
        dup2(null, 2);
        complain(EXIT_USAGE, "quiet");
        dup2(err, 2);
        close(null);
        close(err);
    }
    if (n < 2)
        return 0;
    enum key_format format = formats[data[0] % 4];
    struct list list = {bytes, stretch(data + 2, n - 2, units[data[1] % 8], bytes), 0};
    struct key_reader *keys;
    most_of_a_read = reads[data[0] / 4 % 8];
    if (most_of_a_read < 4096 && list.n > 4096)
        most_of_a_read *= 1000; /* else a long list takes long */
    MUST(keys_open(write_list(bytes, list.n), format, NULL, &keys) == EXIT_DONE);
    MUST(keys_size(keys) == list.n);
    for (;;) {
        const void *key;
        size_t got_bytes, want_bytes = 0;
        int wanted = next_slowly(&list, format, want, &want_bytes);
        int got = keys_next(keys, &key, &got_bytes);
        MUST(got == wanted);
        if (got < 0)
            MUST(keys_status(keys) == EXIT_USAGE);
        if (got <= 0)
            break;
        MUST(got_bytes == want_bytes && memcmp(key, want, want_bytes) == 0);
        MUST(keys_position(keys) == list.at);
    }
    keys_close(keys);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t max, unsigned seed)
{
    uint64_t rng = seed;
    static const uint8_t marks[] = {'\n', 0, 0xFE, 'a', 'F', '0', 'g', '\r', 4, 0xFF};
    if (draw_below(&rng, 2) || n < 3)
        return LLVMFuzzerMutate(data, n, max);
    data[2 + draw_below(&rng, n - 2)] = marks[draw_below(&rng, sizeof marks)];
    return n;
}
