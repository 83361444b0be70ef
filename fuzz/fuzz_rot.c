/* Damage to good files, checksums not mended: whatever is flipped, cut, swapped or put
 * back, a key that was committed is never ABSENT, in any mode of checking.
 *
 * Two things are outside of what a file can promise (SPEC.md §7.1), and so outside of
 * what is done here: bits of an *open* stage are only ever taken away, never replaced,
 * and an open filter's floors are not brought back from an older copy.
 *
 * Input: which file, which mode, then changes of 5 bytes: what, where (3), value. */
#include "fuzz/fuzz.h"
#include "tests/steps/steps.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { N_BASES = 6, MAX_KEYS = 3000 };

static struct base {
    uint8_t *bytes;
    size_t n, n_keys;
    bool open;
    uint64_t digest; /* of the stage table, if sealed */
    struct commit commit;
    uint64_t hashes[MAX_KEYS];
} bases[N_BASES];

/* ---- good files ---- */

static void load_base(struct base *b, const char *path)
{
    struct stat st;
    struct identity id;
    struct slot_health health;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    MUST(fd >= 0 && fstat(fd, &st) == 0);
    b->n = (size_t)st.st_size;
    b->bytes = malloc(b->n);
    MUST(b->bytes && pread(fd, b->bytes, b->n, 0) == (ssize_t)b->n);
    close(fd);
    MUST(identity_decode(b->bytes, b->n, &id).code == VERDICT_OK);
    MUST(commit_choose_slot(b->bytes, &id, b->n, &b->commit, &health).code ==
         VERDICT_OK);
    b->open = b->commit.state == STATE_OPEN;
    b->digest = b->open ? 0 : commit_table_digest(&b->commit);
}

#define GROWN "lone f 500 0 .01; fill f 1250; commit f; fill f 1250; commit f; "

static void make_bases(void)
{
    static const char *const scripts[N_BASES] = {
        "build f 0 300 .01",
        "build f 0 3000 1e-6",
        "build f 0 40 .5",
        GROWN "shut f",
        GROWN, /* as it lies there with its writer at work */
        GROWN "seal f"};
    char path[2 * STEPS_PATH_BYTES];
    uint8_t bytes[8];
    fuzz_calm_io();
    for (size_t i = 0; i < N_BASES; i++) {
        static struct promises promises;
        static struct player p;
        memset(&promises, 0, sizeof promises);
        p = (struct player){.p = &promises, .dir = fuzz_dir()};
        play_text(&p, "%s", scripts[i]);
        path_in(&p, "f", path);
        load_base(&bases[i], path);
        player_end(&p);
        unlink(path);
        struct keyset keys = promises.object[0].keys;
        keys.range[0].n += promises.object[0].n_done; /* of a log */
        bases[i].n_keys = keyset_size(&keys);
        for (uint32_t k = 0; k < bases[i].n_keys; k++)
            bases[i].hashes[k] = key_number(keyset_at(&keys, k), bytes).hash;
    }
}

/* ---- damage ---- */

static bool in_area(uint64_t at, uint64_t begin, uint64_t n)
{
    return at >= begin && at < begin + n;
}

/* May this byte get any value? */
static bool may_replace(const struct base *b, uint64_t at)
{
    for (size_t i = 0; b->open && i < b->commit.n_stages; i++)
        if (in_area(at, b->commit.stages[i].offset, b->commit.stages[i].length))
            return false;
    return true;
}

static void put(const struct base *b, uint8_t *bytes, uint64_t at, uint8_t v)
{
    if (may_replace(b, at))
        bytes[at] = v;
    else
        bytes[at] &= v;
}

static void copy_sector(const struct base *b, uint8_t *bytes, uint64_t from,
                        uint64_t to)
{
    for (uint64_t i = 0; i < SECTOR_BYTES && from + i < b->n && to + i < b->n; i++)
        put(b, bytes, to + i, b->bytes[from + i]);
}

/* The first level of digests made to fit the pages as they are; the root is not. */
static void mend_digests(const struct base *b, uint8_t *bytes)
{
    for (size_t i = 0; i < b->commit.n_stages; i++) {
        const struct stage_desc *s = &b->commit.stages[i];
        for (uint64_t page = 0; s->digests_offset && page < s->length / PAGE_BYTES;
             page++) {
            struct le64 d = le64_of(page_digest(bytes + s->offset + page * PAGE_BYTES));
            memcpy(bytes + s->digests_offset + page * DIGEST_BYTES, &d, sizeof d);
        }
    }
}

/* One change; the size of the file afterwards. */
static size_t damage(const struct base *b, uint8_t *bytes, size_t n, struct input *in)
{
    uint8_t what = input_u8(in);
    uint64_t where = input_u8(in);
    where |= (uint64_t)input_u8(in) << 8;
    where |= (uint64_t)input_u8(in) << 16;
    uint8_t value = input_u8(in);
    uint64_t at = where % b->n, sector = at / SECTOR_BYTES * SECTOR_BYTES;
    switch (what % 7) {
    case 0: /* a bit */
        put(b, bytes, at, (uint8_t)(bytes[at] ^ 1 << value % 8));
        return n;
    case 1: /* a byte */
        put(b, bytes, at, value);
        return n;
    case 2: /* a sector of one value */
        for (uint64_t i = sector; i < sector + SECTOR_BYTES && i < b->n; i++)
            put(b, bytes, i, value);
        return n;
    case 3: /* a page of zeros */
        for (uint64_t i = at / PAGE_BYTES * PAGE_BYTES, k = 0; k < PAGE_BYTES; k++)
            if (i + k < b->n)
                put(b, bytes, i + k, 0);
        return n;
    case 4: /* a sector written elsewhere */
        copy_sector(b, bytes, (uint64_t)value * SECTOR_BYTES % b->n, sector);
        return n;
    case 5:
        mend_digests(b, bytes);
        return n;
    default: /* cut short */
        return n > at ? (size_t)at : n;
    }
}

/* ---- one input ---- */

static void ask_all(const struct base *b, int fd, enum tamis_check mode, bool expect,
                    size_t first)
{
    struct tamis_filter_options opt = {
        .size = sizeof opt, .check = mode, .table_digest = expect ? b->digest : 0};
    uint64_t absent[(MAX_KEYS + 63) / 64];
    struct tamis_filter *f;
    if (tamis_filter_open_fd(fd, 0, 0, &opt, &f, NULL) != 0)
        return;
    /* Strict mode digests a page a probe: a part of the keys will do. */
    size_t n = mode == TAMIS_CHECK_STRICT && b->n_keys > 200 ? 200 : b->n_keys;
    const uint64_t *some = b->hashes + first % (b->n_keys - n + 1);
    MUST(tamis_filter_probe_batch(f, tamis_filter_domain(f).tag, some, n, absent,
                                  NULL) == 0);
    tamis_filter_close(f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct input in = {data, n};
    if (!bases[0].bytes)
        make_bases();
    const struct base *b = &bases[input_u8(&in) % N_BASES];
    /* All modes but TAMIS_CHECK_NONE, which trusts the medium. */
    enum tamis_check mode = input_u8(&in) % 3;
    uint8_t *bytes = malloc(b->n);
    MUST(bytes);
    memcpy(bytes, b->bytes, b->n);
    size_t left = b->n;
    for (int i = 0; i < 40 && in.n; i++)
        left = damage(b, bytes, left, &in);
    int fd = memory_file(bytes, left);
    free(bytes);
    ask_all(b, fd, mode, false, 0);
    ask_all(b, fd, mode, true, n * 97);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t max, unsigned seed)
{
    uint64_t rng = seed;
    if (rng_below(&rng, 3) || n + 5 > max || n < 2)
        return LLVMFuzzerMutate(data, n, max);
    for (int i = 0; i < 5; i++)
        data[n++] = (uint8_t)rng_u64(&rng);
    return n;
}
