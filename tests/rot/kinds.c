/* Files of every kind, made by the library, with the keys that are in them, what they
 * were at earlier commits, and what a catalog would know of them. */
#include "tests/rot/rot.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { OTHER_BYTES = 3 * PAGE_BYTES, KEYS_ASKED = 6000 };

static const uint64_t SEED = 0x5eed;
static char dir[512];

struct image image_read(const char *path)
{
    struct image m;
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0 && fstat(fd, &st) == 0);
    m.n = (size_t)st.st_size;
    m.bytes = malloc(m.n + 1);
    CHECK(m.bytes && pread(fd, m.bytes, m.n, 0) == (ssize_t)m.n);
    close(fd);
    return m;
}

static const char *path_of(const char *name)
{
    static char path[600];
    snprintf(path, sizeof path, "%s/%s-%ld", dir, name, (long)getpid());
    return path;
}

static uint64_t *new_keys(size_t n)
{
    uint64_t *keys = malloc((n + 1) * sizeof *keys);
    CHECK(keys);
    for (size_t i = 0; i < n; i++)
        keys[i] = random_u64();
    return keys;
}

static struct tamis_domain domain_of_all(void)
{
    struct tamis_domain d;
    CHECK(tamis_domain_init(&d, 1, SEED) == 0);
    return d;
}

/* ---- sealed at birth ---- */

static struct image build(double error, const uint64_t *keys, size_t n, bool embedded)
{
    struct tamis_domain d = domain_of_all();
    struct tamis_builder_options o = {.size = sizeof o,
                                      .domain = &d,
                                      .error = error,
                                      .identity.binding = "b",
                                      .watermark = 9};
    struct tamis_builder *b;
    uint8_t other[OTHER_BYTES];
    uint64_t n_bytes;
    o.identity.binding_bytes = 1;
    CHECK(tamis_builder_create(&o, &b, NULL) == 0);
    CHECK(tamis_builder_add_hashes(b, d.tag, keys, n) == 0);
    if (!embedded) {
        CHECK(tamis_builder_finish_file(b, path_of("built"), NULL) == 0);
    } else {
        int fd = open(path_of("built"), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
        memset(other, 0xa5, sizeof other);
        CHECK(pwrite(fd, other, sizeof other, 0) == (ssize_t)sizeof other);
        CHECK(tamis_builder_finish_fd(b, fd, sizeof other, &n_bytes, NULL) == 0);
        CHECK(pwrite(fd, other, PAGE_BYTES, (off_t)(sizeof other + n_bytes)) ==
              PAGE_BYTES);
        close(fd);
    }
    tamis_builder_free(b);
    struct image m = image_read(path_of("built"));
    CHECK(unlink(path_of("built")) == 0);
    return m;
}

static void make_built(struct kind *k, double error, size_t n, bool embedded)
{
    uint64_t *others = new_keys(n);
    k->keys = new_keys(n);
    k->n_acked = k->n_keys = n;
    k->offset = embedded ? OTHER_BYTES : 0;
    k->now = build(error, k->keys, n, embedded);
    k->other = build(error, others, n, embedded);
    free(others);
}

/* ---- growing ---- */

enum ending { CLEAN, UNCLEAN, SEALED };
struct shape {
    double error, factor;
    uint64_t first_capacity;
    size_t n_keys;
    enum ending ending;
};

/* Notes what the hook of a store's writer notes (R5). */
static int note(void *ctx, const struct commit *c, struct tamis_diag *diag)
{
    struct kind *k = ctx;
    (void)diag;
    k->known.min_sequence = c->sequence;
    k->known.min_stages = c->n_stages;
    if (c->state == STATE_SEALED)
        k->known.table_digest = commit_table_digest(c);
    return 0;
}

/* Commits every 1/12 of the keys and remembers the file as it was then. */
static struct image grow(struct kind *k, const struct shape *s, const uint64_t *keys)
{
    struct tamis_domain d = domain_of_all();
    struct tamis_writer_options o = {
        .size = sizeof o,
        .domain = &d,
        .growth = {s->error, s->factor, 0.5, s->first_capacity},
    };
    struct writer_hooks hooks = {.changed = note, .ctx = k};
    struct commit first;
    struct tamis_writer *w;
    uint8_t uuid[UUID_BYTES];
    size_t step = s->n_keys / 12 + 1, done = 0;
    int at = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    io_calls.random(uuid, sizeof uuid);
    CHECK(writer_format(at, strrchr(path_of("grown"), '/') + 1, &o, uuid, false, &first,
                        NULL) == 0);
    close(at);
    note(k, &first, NULL); /* as putting the segment does */
    struct io_guarded_fd opened;
    CHECK(io_open_guarded(AT_FDCWD, path_of("grown"), O_RDWR, &opened) == 0);
    CHECK(writer_open_fd(&opened, "grown", &hooks, &w, NULL) == 0);
    k->n_past = 0;
    for (; done + step < s->n_keys; done += step) {
        CHECK(tamis_writer_add_hashes(w, d.tag, keys + done, step) == 0);
        CHECK(tamis_writer_commit(w, done + step, NULL) == 0);
        k->past[k->n_past++] = image_read(path_of("grown"));
    }
    k->n_acked = done;
    CHECK(tamis_writer_add_hashes(w, d.tag, keys + done, s->n_keys - done) == 0);
    if (s->ending == SEALED)
        CHECK(tamis_writer_seal(w, s->n_keys, NULL, NULL) == 0);
    struct image m;
    if (s->ending == UNCLEAN)
        m = image_read(path_of("grown"));
    CHECK(tamis_writer_close(w) == 0);
    if (s->ending != UNCLEAN) {
        m = image_read(path_of("grown"));
        k->n_acked = s->n_keys;
    }
    CHECK(unlink(path_of("grown")) == 0);
    return m;
}

/* Its slots, should they be believed, win and lack every later stage. */
static struct image grow_ahead(const struct shape *s, uint64_t sequence)
{
    struct tamis_domain d = domain_of_all();
    struct tamis_writer_options o = {
        .size = sizeof o,
        .domain = &d,
        .growth = {s->error, s->factor, 0.5, s->first_capacity},
    };
    struct tamis_writer *w;
    CHECK(tamis_writer_create(path_of("grown"), &o, &w, NULL) == 0);
    for (uint64_t i = 0; i <= sequence; i++)
        CHECK(tamis_writer_commit(w, i, NULL) == 0);
    CHECK(tamis_writer_close(w) == 0);
    struct image m = image_read(path_of("grown"));
    CHECK(unlink(path_of("grown")) == 0);
    return m;
}

static void make_grown(struct kind *k, const struct shape *s)
{
    uint64_t *others = new_keys(s->n_keys);
    k->keys = new_keys(s->n_keys);
    k->n_keys = s->n_keys;
    k->other = grow(k, s, others);
    for (size_t i = 0; i < k->n_past; i++)
        free(k->past[i].bytes);
    memset(&k->known, 0, sizeof k->known);
    k->now = grow(k, s, k->keys);
    k->ahead = grow_ahead(s, 100);
    free(others);
}

/* ---- and what is known of them ---- */

static bool in_stage(const struct kind *k, const struct stage_desc *s, uint64_t h,
                     uint64_t at[MAX_LANES])
{
    bool in = true;
    for (uint32_t lane = 0; lane < s->geometry.lanes; lane++) {
        at[lane] = s->offset + geometry_block_offset(&s->geometry, lane, h);
        in &= geometry_block_probe(k->now.bytes + k->offset + at[lane],
                                   s->geometry.words, h);
        h = geometry_next_lane(h);
    }
    return in;
}

static void find_focus(struct kind *k)
{
    uint64_t at[MAX_LANES];
    k->focus =
        malloc((size_t)(k->commit.committed_bytes / PAGE_BYTES + 1) * sizeof *k->focus);
    CHECK(k->focus);
    memset(k->focus, 0xff,
           (size_t)(k->commit.committed_bytes / PAGE_BYTES + 1) * sizeof *k->focus);
    for (size_t i = 0; i < k->n_acked; i++) {
        for (uint32_t s = 0; s < k->commit.n_stages; s++) {
            const struct stage_desc *d = &k->commit.stages[s];
            if (!in_stage(k, d, k->keys[i], at))
                continue;
            for (uint32_t lane = 0; lane < d->geometry.lanes; lane++)
                k->focus[at[lane] / PAGE_BYTES][i % FOCUS] = (uint32_t)i;
        }
    }
}

static void finish(struct kind *k)
{
    struct slot_health health;
    const uint8_t *filter = k->now.bytes + k->offset;
    size_t n = k->now.n - (size_t)k->offset;
    CHECK(identity_decode(filter, n, &k->id).code == VERDICT_OK);
    CHECK(commit_choose_slot(filter, &k->id, n, &k->commit, &health).code ==
          VERDICT_OK);
    k->known.size = sizeof k->known;
    k->known.uuid = k->id.uuid;
    if (k->commit.state == STATE_SEALED)
        k->known.table_digest = commit_table_digest(&k->commit);
    /* All pages of a large one have some of these. */
    k->large = k->now.n > 1 << 20;
    if (k->n_keys > KEYS_ASKED && k->n_acked == k->n_keys)
        k->n_keys = k->n_acked = KEYS_ASKED;
    find_focus(k);
}

static void fixed_random(void *buf, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ((uint8_t *)buf)[i] = (uint8_t)(random_u64() >> 24);
}

static int no_sync(int fd)
{
    (void)fd;
    return 0;
}

static const struct {
    const char *name;
    double error;
    size_t n;
    bool embedded;
} built[] = {
    {"sealed at birth, empty", 0.01, 0, false},
    {"sealed at birth, one page", 0.01, 2500, false},
    {"sealed at birth, two pages", 0.01, 4500, false},
    {"sealed at birth, six pages", 0.01, 16000, false},
    {"sealed at birth, two lanes", 1e-4, 3000, false},
    {"sealed at birth, four lanes", 1e-8, 2000, false},
    {"embedded in another file", 0.001, 5000, true},
    {"two levels of digests", 0.01, 1750000, false},
};
static const struct {
    const char *name;
    struct shape shape;
} grown[] = {
    {"open, empty", {0.1, 2, 1000, 0, CLEAN}},
    {"open, one stage, clean", {0.1, 2, 6000, 5000, CLEAN}},
    {"open, one stage, unclean", {0.1, 2, 6000, 5000, UNCLEAN}},
    {"open, forty pages", {0.001, 2, 65000, 5000, CLEAN}},
    {"open, two stages, clean", {0.45, 1.5, 2000, 4000, CLEAN}},
    {"open, two stages, unclean", {0.45, 1.5, 2000, 4000, UNCLEAN}},
    {"open, five stages, clean", {0.45, 1.5, 600, 5500, CLEAN}},
    {"open, five stages, unclean", {0.45, 1.5, 600, 5500, UNCLEAN}},
    {"sealed after growing, one page", {0.3, 2, 3000, 1200, SEALED}},
    {"sealed after growing, one stage", {0.05, 2, 6000, 4000, SEALED}},
    {"sealed after growing, four stages", {0.45, 1.5, 800, 5000, SEALED}},
};
enum { N_BUILT = sizeof built / sizeof built[0] };
_Static_assert(N_BUILT + sizeof grown / sizeof grown[0] == N_KINDS, "all of them");

const char *kind_name(size_t i)
{
    return i < N_BUILT ? built[i].name : grown[i - N_BUILT].name;
}

void kind_make(struct kind *k, size_t i, const char *directory)
{
    snprintf(dir, sizeof dir, "%s", directory);
    memset(k, 0, sizeof *k);
    io_calls.random = fixed_random;
    io_calls.fsync = io_calls.fdatasync = no_sync; /* files in memory */
    k->name = kind_name(i);
    if (i < N_BUILT)
        make_built(k, built[i].error, built[i].n, built[i].embedded);
    else
        make_grown(k, &grown[i - N_BUILT].shape);
    finish(k);
}
